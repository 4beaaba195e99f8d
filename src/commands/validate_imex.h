// validate imex: driver, channel, unit, node list, ports and the domain of this node. Reads only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/context.h"
#include "flow/findings.h"
#include "imex/status.h"

namespace commands {

void validate_imex(Context& context, flow::Findings& findings);

// Has this node anything to do with IMEX: an UltraServer type, or the unit is there.
bool imex_applies(Context& context);

// Findings about a domain as one daemon, or a merge of many, sees it; the matrix is attached.
void add_domain_findings(const imex::DomainView& view, const std::vector<std::string>& names, flow::Findings& findings);

// When a process was started, in nanoseconds since the epoch (to 10 ms).
std::optional<std::int64_t> daemon_start_ns(Context& context, pid_t pid);

}  // namespace commands
