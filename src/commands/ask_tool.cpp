#include "commands/ask_tool.h"

#include "host/trusted_tool.h"
#include "slurm/find_scontrol.h"

namespace commands {

namespace {

constexpr std::size_t slurm_answer = 64U << 20U;  // `scontrol show node` tells of every node of the cluster

}  // namespace

base::Result<std::string> find_listed_tool(const Context& context, const std::string& name,
                                           std::span<const std::string_view> places) {
  return host::find_tool(context.host.files, name, {places.begin(), places.end()}, context.host.processes.is_root());
}

base::Result<std::string> find_scontrol(const Context& context) {
  return slurm::find_scontrol(context.host.files, context.host.processes, context.run.log(), "");
}

base::Result<std::string> find_srun(const Context& context) {
  const auto scontrol = find_scontrol(context);
  if (!scontrol) return scontrol.error();
  const std::string srun = scontrol->substr(0, scontrol->rfind('/') + 1) + "srun";
  return host::check_tool(context.host.files, srun, context.host.processes.is_root());
}

host::Exit ask_tool(const Context& context, const std::string& tool, std::vector<std::string> arguments,
                    site::milliseconds limit, std::size_t output_cap) {
  host::Command command;
  command.program = tool;
  command.arguments = std::move(arguments);
  command.limit = limit;
  command.output_cap = output_cap;
  return context.host.processes.run(command);
}

host::Exit ask_slurm(const Context& context, const std::string& tool, std::vector<std::string> arguments) {
  return ask_tool(context, tool, std::move(arguments), site::scontrol_limit, slurm_answer);
}

bool answered(const host::Exit& exit) { return exit.succeeded() && !exit.cut; }

flow::Judgement judge_silence(const host::Exit& exit) {
  const bool hangs = exit.ending == host::Exit::Ending::timed_out;
  return hangs || exit.cut ? flow::Judgement::fail : flow::Judgement::warn;
}

}  // namespace commands
