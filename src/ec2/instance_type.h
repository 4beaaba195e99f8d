// Which EC2 instance type this node is: IMDSv2, else the firmware's (DMI) product name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/clock.h"
#include "host/environment.h"
#include "host/files.h"
#include "host/http.h"
#include "host/log.h"

namespace ec2 {

struct InstanceType {
  std::string name;    // "p6e-gb200.36xlarge"; empty: unknown
  std::string source;  // "IMDS" or "DMI"; for an unknown one: why
};

// The shape of an instance type's name: lower case letters, digits, '-', one '.', at most 64 bytes. Anything
// else (an error page, an XML body) is no type.
bool looks_like_type(std::string_view text);

// http:// with an IP literal or localhost (and a port), without path; localhost becomes 127.0.0.1, so that no
// name is ever looked up. nullopt: not acceptable.
std::optional<std::string> acceptable_endpoint(std::string_view text);

// Where to ask: the environment's endpoint if acceptable (else a WARN and the default). nullopt under --root
// without the variable: do not ask.
std::optional<std::string> imds_endpoint(const host::Environment& environment, bool has_root, host::Log& log);

// Never an error: an unknown type is an answer too. IMDS takes at most `limit`.
InstanceType find_instance_type(host::Http& http, host::Clock& clock, const host::Files& files, host::Log& log,
                                const std::optional<std::string>& endpoint, host::milliseconds limit);

// The prefix that matches, if any.
std::optional<std::string> supported_by(const std::string& type, const std::vector<std::string>& prefixes);

}  // namespace ec2
