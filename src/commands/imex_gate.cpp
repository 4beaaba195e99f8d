#include "commands/imex_gate.h"

#include <algorithm>

#include "base/text.h"
#include "commands/imex_tools.h"
#include "ec2/instance_type.h"
#include "site/site.h"
#include "slurm/blocks.h"
#include "slurm/exclusive.h"

namespace commands {

using base::Error;
using base::ExitCode;
using Say = GateAnswer::Say;

namespace {

std::string spool_dir_of(const std::optional<slurm::Conf>& conf, const std::string& node_name) {
  return conf ? slurm::spool_dir(*conf, node_name) : std::string(site::slurmd_spool_dir);
}

std::string show(const slurm::ForeignStep& step) {
  std::string text = "job " + base::printable(step.job, 40);
  if (step.pid != 0) text += ", process " + std::to_string(step.pid);
  return text + " (" + base::printable(step.seen_at) + ")";
}

}  // namespace

std::string describe(const GateAnswer& answer) { return answer.go() ? answer.why : "skip: " + answer.why; }

GateAnswer gate_exclusive_claim(const Context& context, const std::optional<slurm::Conf>& conf) {
  const slurm::Claim claim = slurm::read_claim(context.host.environment);
  const std::string said = claim.variable + "=" + claim.value;
  switch (claim.kind) {
    case slurm::Claim::Kind::exclusive: return {Say::go, "job is exclusive (" + said + ")"};
    case slurm::Claim::Kind::exclusive_if_block_topology:
      if (conf && !slurm::claims_exclusive(claim, slurm::partition_topology_is_block(
                                                      context.host.files, *conf,
                                                      context.host.environment.get_or("SLURM_JOB_PARTITION", "")))) {
        return {Say::skip_info, "the job is not exclusive: " + said +
                                    ", but the partition's topology is not block, where Slurm does not enforce it"};
      }
      return {Say::go, "job has its whole block (" + said + ")"};
    case slurm::Claim::Kind::not_exclusive: return {Say::skip_info, "the job is not exclusive (" + said + ")"};
    case slurm::Claim::Kind::unknown: break;
  }
  return {Say::skip_info,
          "the job is not known to be exclusive (neither SLURM_JOB_EXCLUSIVE nor SLURM_JOB_OVERSUBSCRIBE is set)"};
}

base::Result<GateAnswer> gate_instance_type(const Context& context, const ImexGateOptions& options,
                                            const host::Deadline& deadline) {
  const host::Host& host = context.host;
  host::Log& log = context.run.log();
  const auto endpoint = ec2::imds_endpoint(host.environment, context.has_root, log);
  const ec2::InstanceType type = ec2::find_instance_type(host.http, host.clock, host.files, log, endpoint,
                                                         std::min(site::imds_limit, deadline.left() / 2));
  if (type.name.empty()) {
    const std::string what = "the instance type of this node is unknown: " + type.source;
    const std::string cure =
        "let the node reach IMDS at http://169.254.169.254 (hop limit, iptables, IMDS enabled), or see " +
        std::string(site::dmi_product_name);
    if (options.unknown_type_fails) return Error{ExitCode::source, what, cure};
    return GateAnswer{Say::skip_error, what + "; " + cure};
  }
  if (!ec2::supported_by(type.name, options.instance_types)) {
    return GateAnswer{Say::skip_info, "instance type " + type.name + " (" + type.source + ") does not support it"};
  }
  return GateAnswer{Say::go, "instance type " + type.name + " (" + type.source + ")"};
}

GateAnswer gate_exclusive_look(const Context& context, const std::optional<slurm::Conf>& conf, const slurm::Job& job,
                               const host::Deadline& deadline) {
  const auto found =
      slurm::lasting_foreign_step(context.host.files, context.host.processes, context.host.clock, job,
                                  spool_dir_of(conf, job.node_name), deadline.limit(site::exclusive_look));
  if (!found) return {Say::go, "no other job on this node"};
  return {Say::skip_error, "the job is said to be exclusive, but " + show(*found) +
                               " lives on this node; restarting IMEX would disrupt it"};
}

base::Result<GateAnswer> gate_unit(systemd::Units& units, const std::string& unit) {
  const auto enabled = units.enabled(unit);
  if (!enabled) return enabled.error();
  if (enabled->state == systemd::UnitFile::enabled) {
    return GateAnswer{Say::go, "system service " + unit + " is " + base::printable(enabled->word, 40)};
  }
  return GateAnswer{Say::skip_warn, "system service " + unit + " is not enabled (" +
                                        base::printable(enabled->word, 40) + "); " + how_to_enable(*enabled, unit) +
                                        " in the AMI if jobs shall use IMEX"};
}

std::string how_to_enable(const systemd::EnabledWord& word, const std::string& unit) {
  const std::string enable = "`systemctl enable " + unit + "`";
  if (word.word == "masked") return "`systemctl unmask " + unit + "`, then " + enable;
  if (word.word == "masked-runtime") return "`systemctl unmask --runtime " + unit + "`, then " + enable;
  if (word.word == "not-found") return "install the nvidia-imex package of the driver's version, then " + enable;
  if (word.word == "bad") return "mend its unit file (`systemd-analyze verify " + unit + ".service`), then " + enable;
  if (word.word == "transient") return "install its unit file (what runs was made at run time), then " + enable;
  return enable;
}

base::Status check_by_hand(const Context& context, const std::optional<slurm::Conf>& conf) {
  const std::string node_name = context.host.environment.get_or("SLURMD_NODENAME", "");
  const auto found = slurm::foreign_step(context.host.files, context.host.processes, "", "", node_name,
                                         spool_dir_of(conf, node_name), false);
  if (!found) return base::ok();
  return Error{ExitCode::surroundings,
               "run by hand while " + show(*found) + " runs on this node: restarting IMEX would break it",
               "wait for the job's end, look with --dry-run, or say --force"};
}

bool is_by_hand(const host::Environment& environment) { return !environment.get("SLURM_SCRIPT_CONTEXT"); }

}  // namespace commands
