// What the commands ask the node's tools: each is found where it may lie, and called once within a limit.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "commands/context.h"
#include "flow/findings.h"
#include "host/processes.h"
#include "site/site.h"

namespace commands {

// Error: surroundings; os_error ENOENT where it is simply not installed.
base::Result<std::string> find_listed_tool(const Context& context, const std::string& name,
                                           std::span<const std::string_view> places);
base::Result<std::string> find_scontrol(const Context& context);
// srun, which lies where scontrol does: the two are of one Slurm then.
base::Result<std::string> find_srun(const Context& context);

host::Exit ask_tool(const Context& context, const std::string& tool, std::vector<std::string> arguments,
                    site::milliseconds limit, std::size_t output_cap);
// Slurm's tools, which answer from a controller that may be busy.
host::Exit ask_slurm(const Context& context, const std::string& tool, std::vector<std::string> arguments);

// Exit 0, and all of what it printed is here.
bool answered(const host::Exit& exit);
// What a tool that gave no answer is to validate: a hanging one, or one that floods, is a fail, a failing one a
// warning.
flow::Judgement judge_silence(const host::Exit& exit);

inline constexpr std::size_t short_answer = 1U << 20U;

}  // namespace commands
