#include "commands/validate_imex.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/duration.h"
#include "base/ip_literal.h"
#include "base/text.h"
#include "commands/ask_tool.h"
#include "commands/imex_gate.h"
#include "commands/imex_run.h"
#include "commands/imex_tools.h"
#include "ec2/instance_type.h"
#include "imex/channel.h"
#include "imex/config.h"
#include "imex/matrix.h"
#include "imex/merge.h"
#include "imex/nodes_config.h"
#include "imex/state.h"
#include "imex/version.h"
#include "site/site.h"
#include "slurm/conf.h"

namespace commands {

using flow::Findings;
using flow::Judgement;

namespace {

using namespace std::chrono_literals;

const std::string subject = "imex";
const std::string unit{site::imex_unit};

std::string check_driver(Context& context, Findings& findings) {
  const auto text = context.host.files.read("/proc/driver/nvidia/version", 4096);
  const std::string version = text ? imex::parse_driver_version(*text) : "";
  if (version.empty()) {
    findings.fail(subject, "driver", "the NVIDIA driver is not loaded (/proc/driver/nvidia/version)",
                  "load it (`modprobe nvidia`), see `dmesg | grep -i nvrm`");
  } else {
    findings.ok(subject, "driver", "version " + version);
  }
  return version;
}

void check_imex_version(Context& context, Findings& findings, const std::string& driver) {
  const auto tool = find_listed_tool(context, "nvidia-imex", site::imex_daemon);
  if (!tool) {
    findings.fail(subject, "version", tool.error().what, "install the nvidia-imex package of the driver's version");
    return;
  }
  const host::Exit exit = ask_tool(context, *tool, {"--version"}, site::imex_ctl_limit, short_answer);
  const std::string version = imex::parse_imex_version(exit.out + " " + exit.err);
  if (version.empty()) {
    findings.fail(subject, "version", "nvidia-imex --version: " + host::describe(exit),
                  "see whether the package is whole");
  } else if (!driver.empty() && !imex::versions_agree(version, driver)) {
    findings.fail(subject, "version", "nvidia-imex is " + version + ", the driver " + driver + ": it will not start",
                  "install nvidia-imex of the driver's version");
  } else {
    findings.ok(subject, "version", "nvidia-imex " + version + (driver.empty() ? "" : " fits driver " + driver));
  }
}

// A GPU whose fabric is not up makes CUDA fail or hang whatever IMEX says.
void check_fabric(Context& context, Findings& findings) {
  const auto tool = find_listed_tool(context, "nvidia-smi", site::nvidia_smi);
  if (!tool) {
    findings.skip(subject, "fabric", tool.error().what);
    return;
  }
  const host::Exit exit = ask_tool(
      context, *tool, {"--query-gpu=index,fabric.state,fabric.status", "--format=csv,noheader"}, 20s, short_answer);
  if (!exit.succeeded()) {
    findings.fail(subject, "fabric", "nvidia-smi: " + host::describe(exit),
                  "see `nvidia-smi -q` and `dmesg | grep -i nvrm`");
    return;
  }
  std::vector<std::string> bad;
  bool has_fabric = false;
  for (const std::string_view line : base::each_line(exit.out)) {
    const auto fields = base::split(line, ',');
    if (fields.size() < 3) continue;
    const std::string state(base::trim(fields[1]));
    const std::string status(base::trim(fields[2]));
    if (state == "N/A" || state.find("Not Supported") != std::string::npos) continue;
    has_fabric = true;
    if (state != "Completed" || status != "Success")
      bad.push_back("GPU " + std::string(base::trim(fields[0])) + " " + base::printable(state, 40) + "/" +
                    base::printable(status, 40));
  }
  if (!bad.empty()) {
    findings.fail(subject, "fabric", "not registered with the NVLink fabric: " + base::join(bad, ", "),
                  "wait for the fabric manager of the rack; when it lasts, replace the instance");
  } else if (has_fabric) {
    findings.ok(subject, "fabric", "every GPU is registered with the NVLink fabric");
  } else {
    findings.skip(subject, "fabric", "no GPU of this node has an NVLink fabric");
  }
}

// Channels beside channel0 are neither made nor judged, but a job that uses one must be able to see that it is there.
std::string other_channels(const host::Files& files, const std::string& before) {
  std::vector<std::string> others;
  const auto names = files.list(std::string(site::channel_dir));
  for (std::size_t i = 0; names && i < names->size(); ++i) {
    const std::string& name = (*names)[i];
    if (name != "channel0" && name.starts_with("channel")) others.push_back(base::printable(name, 20));
  }
  return others.empty() ? "" : before + base::join(others, ", ");
}

void check_channel(Context& context, Findings& findings, const std::optional<slurm::Conf>& conf) {
  const host::Files& files = context.host.files;
  if (conf && slurm::switch_makes_channels(*conf)) {
    findings.skip(subject, "channel",
                  "SwitchType is switch/nvidia_imex: Slurm makes a channel for each step" +
                      other_channels(files, "; there now: "));
    return;
  }
  const auto fault = imex::find_channel_fault(files);
  if (!fault) {
    findings.fail(subject, "channel", fault.error().what, fault.error().cure);
  } else if (!fault->empty()) {
    findings.fail(subject, "channel", std::string(site::channel0) + ": " + *fault,
                  "the next exclusive job's prolog repairs it; by hand: gpu-prolog imex-prolog");
  } else {
    findings.ok(subject, "channel", std::string(site::channel0) + " is right" + other_channels(files, "; beside it: "));
  }
}

struct UnitLook {
  bool known = false;
  systemd::UnitState state;
  std::unique_ptr<systemd::Units> units;
};

UnitLook check_unit(Context& context, Findings& findings, const std::optional<imex::State>& ours) {
  UnitLook look;
  auto units = open_units(context, std::nullopt);
  if (!units) {
    findings.fail(subject, "unit", units.error().what, units.error().cure);
    return look;
  }
  look.units = std::move(*units);
  const auto enabled = look.units->enabled(unit);
  if (!enabled) {
    findings.fail(subject, "unit", enabled.error().what, enabled.error().cure);
    return look;
  }
  if (enabled->state != systemd::UnitFile::enabled) {
    findings.fail(subject, "unit",
                  unit + " is " + base::printable(enabled->word, 40) + ": the prolog skips IMEX on this node",
                  "systemctl enable " + unit + " (in the AMI)");
  }
  const auto state = look.units->state(unit);
  if (!state) {
    findings.fail(subject, "unit", state.error().what, state.error().cure);
    return look;
  }
  look.known = true;
  look.state = *state;
  const bool domain_expected = ours && ours->phase == imex::Phase::started;
  if (!state->processes.empty() && state->active == "active") {
    findings.ok(subject, "unit", unit + " " + systemd::describe(*state));
  } else if (domain_expected) {
    findings.fail(subject, "unit",
                  unit + " is not running though the prolog of job " + base::printable(ours->run.job_id, 40) +
                      " started it: " + systemd::describe(*state),
                  "see `journalctl -u " + unit +
                      " -b` and /var/log/nvidia-imex.log; a daemon does not restart itself (the unit has no Restart=)");
  } else if (state->active == "failed") {
    findings.warn(subject, "unit", unit + " has failed, and no job of ours runs: " + systemd::describe(*state),
                  "the next job's prolog resets it; see `journalctl -u " + unit + " -b`");
  } else {
    findings.ok(subject, "unit",
                unit + " is " + base::printable(state->active, 40) + ", as it may be while no job has a domain here");
  }
  return look;
}

void check_list(Context& context, Findings& findings, const imex::DaemonConfig& config, const UnitLook& look) {
  const host::Host& host = context.host;
  const bool running = look.known && !look.state.processes.empty();
  const auto text = host.files.read(config.nodes_config, 1U << 20U);
  if (!text) {
    findings.fail(subject, "node list", text.error().what,
                  "nvidia-imex does not start without the file; the next exclusive job's prolog writes it");
    return;
  }
  const auto listed = imex::parse_nodes_config(*text);
  const std::string what = config.nodes_config + " (" + std::to_string(listed.size()) + " nodes)";
  if (listed.empty()) {
    if (running) {
      findings.fail(subject, "node list", what + " is empty while the daemon runs", "restart the job");
    } else {
      findings.ok(subject, "node list", what + " is empty, as it is between jobs");
    }
    return;
  }
  std::vector<std::string> bad;
  std::vector<std::string> canonical;
  for (const std::string& entry : listed) {
    const auto address = base::canonical_address(entry);
    if (!address) bad.push_back(base::printable(entry, 60) + " is no address");
    if (address && std::find(canonical.begin(), canonical.end(), *address) != canonical.end())
      bad.push_back(*address + " stands there twice");
    if (address) canonical.push_back(*address);
  }
  const auto own = host.network.own_addresses();
  const bool has_own = own && std::any_of(canonical.begin(), canonical.end(), [&](const std::string& address) {
                         return std::find(own->begin(), own->end(), address) != own->end();
                       });
  if (!bad.empty()) {
    findings.fail(subject, "node list", what + ": " + base::join(bad, ", "),
                  "restart the job; the prolog writes the list anew");
  } else if (!has_own) {
    findings.fail(subject, "node list", what + " has none of this host's addresses",
                  "check NodeAddr of this node in Slurm against `ip addr`, then restart the job");
  } else {
    const auto status = host.files.status(config.nodes_config);
    const auto started = running ? daemon_start_ns(context, look.state.main_pid) : std::nullopt;
    if (status && *status && started && (*status)->modified_ns > *started + 2'000'000'000) {
      findings.fail(subject, "node list", what + " is newer than the daemon, which reads it at its start only",
                    "restart the job; whatever wrote the file must not do so while the daemon runs");
    } else {
      findings.ok(subject, "node list",
                  what + " has this host's address" + (started ? " and is older than the daemon" : ""));
    }
  }
}

void check_ports(Context& context, Findings& findings, const imex::DaemonConfig& config, const UnitLook& look) {
  if (!look.known || look.state.processes.empty()) {
    findings.skip(subject, "ports", "the daemon does not run");
    return;
  }
  std::vector<std::string> closed;
  const auto is_open = [&](unsigned port) {
    const auto listening = context.host.network.listening(port);
    return listening && *listening;
  };
  if (!is_open(config.server_port)) closed.push_back(std::to_string(config.server_port) + " (SERVER_PORT)");
  if (config.command_enabled && !is_open(config.command_port))
    closed.push_back(std::to_string(config.command_port) + " (IMEX_CMD_PORT)");
  if (closed.empty()) {
    findings.ok(subject, "ports",
                "the daemon listens on " + std::to_string(config.server_port) +
                    (config.command_enabled ? " and " + std::to_string(config.command_port) : ""));
  } else {
    findings.fail(subject, "ports", "nobody listens on " + base::join(closed, ", "), "see /var/log/nvidia-imex.log");
  }
}

// What validate --srun merges: this node's list, place and view, under "data" of the JSON form.
void tell_report(Context& context, Findings& findings, const imex::DaemonConfig& config,
                 std::optional<imex::DomainView> view) {
  const host::Host& host = context.host;
  imex::NodeReport report;
  report.node = host.environment.get_or("SLURMD_NODENAME", "");
  if (const auto text = host.files.read(config.nodes_config, 1U << 20U)) report.list = imex::parse_nodes_config(*text);
  const auto own = host.network.own_addresses();
  for (std::size_t i = 0; own && i < report.list.size(); ++i) {
    if (std::find(own->begin(), own->end(), report.list[i]) != own->end()) report.own = i;
  }
  report.view = std::move(view);
  findings.set_data("imex", imex::render_node_report(report));
}

std::optional<imex::DomainView> check_domain(Context& context, Findings& findings, const imex::DaemonConfig& config,
                                             const UnitLook& look) {
  auto choice = open_ctl(context, config);
  if (!choice) {
    findings.fail(subject, "domain", choice.error().what, choice.error().cure);
    return std::nullopt;
  }
  if (!choice->unusable_because.empty()) {
    findings.warn(subject, "domain", "the domain cannot be looked at: " + choice->unusable_because,
                  "turn the command service on (IMEX_CMD_ENABLED=1) and install nvidia-imex-ctl");
    return std::nullopt;
  }
  if (!look.known || look.state.processes.empty()) {
    findings.skip(subject, "domain", "the daemon does not run");
    return std::nullopt;
  }
  const auto view = choice->ctl->domain(site::imex_ctl_limit);
  if (!view) {
    findings.fail(subject, "domain", view.error().what,
                  "a daemon that does not answer is wedged: restart the job, and the node if that does not help");
    return std::nullopt;
  }
  add_domain_findings(*view, {}, findings);
  return *view;
}

}  // namespace

std::optional<std::int64_t> daemon_start_ns(Context& context, pid_t pid) {
  const auto ticks = context.host.processes.start_time(pid);
  const auto stat = context.host.files.read("/proc/stat", 1U << 20U);
  if (!ticks || !stat) return std::nullopt;
  for (const std::string_view line : base::each_line(*stat)) {
    if (!line.starts_with("btime ")) continue;
    const auto boot = base::parse_number(base::trim(line.substr(6)));
    // USER_HZ is 100 on every Linux architecture of ours.
    if (boot) return static_cast<std::int64_t>(*boot) * 1'000'000'000 + static_cast<std::int64_t>(*ticks) * 10'000'000;
  }
  return std::nullopt;
}

void add_domain_findings(const imex::DomainView& view, const std::vector<std::string>& names, Findings& findings) {
  const std::string size = std::to_string(view.nodes.size()) + " nodes";
  const auto versions = imex::versions_of(view);
  if (versions.size() > 1) {
    std::vector<std::string> parts;
    for (const auto& [version, ids] : versions)
      parts.push_back(base::printable(version, 30) + " on " + imex::show_ids(ids));
    findings.fail(subject, "one version", "nodes run different IMEX versions: " + base::join(parts, "; "),
                  "install one nvidia-imex version on every node");
  } else if (versions.size() == 1) {
    findings.ok(subject, "one version", versions.front().first + " on every node that told one");
  }
  const auto faults = imex::explain_faults(view, names);
  // Peers' status travels over the command port, connections over the server port.
  std::size_t silent = 0;
  std::size_t silent_but_connected = 0;
  for (std::size_t id = 0; id < view.nodes.size(); ++id) {
    if (view.nodes[id].status == "READY") continue;
    ++silent;
    const bool connected = std::any_of(view.links.begin(), view.links.end(),
                                       [&](const auto& row) { return row[id] == imex::Link::connected; });
    if (connected && view.nodes[id].version.empty()) ++silent_but_connected;
  }
  if (silent > 0 && silent == silent_but_connected) {
    findings.fail(
        subject, "command port",
        std::to_string(silent) +
            " peers are connected but tell no status: TCP port 50005 (IMEX_CMD_PORT) is blocked between the nodes?",
        "open port 50005 between the nodes in the security group, beside 50000");
  }
  for (const imex::DomainFault& fault : faults) findings.fail(subject, "connections", fault.what, fault.cure);
  if (faults.empty() && view.state == "UP") {
    findings.ok(subject, "domain", size + ", every node READY, every pair connected, state UP");
  } else if (faults.empty()) {
    findings.warn(subject, "domain", size + " connected, but the domain state is " + base::printable(view.state, 30),
                  "ask again in a few seconds");
  } else {
    findings.fail(subject, "domain", size + ", state " + base::printable(view.state, 30),
                  "see the lines above, the first cause first");
  }
  findings.attach(imex::draw_matrix(view, names));
}

bool imex_applies(Context& context) {
  const host::Host& host = context.host;
  const auto tool = find_listed_tool(context, "nvidia-imex", site::imex_daemon);
  if (tool || tool.error().os_error != ENOENT) return true;
  const auto endpoint = ec2::imds_endpoint(host.environment, context.has_root, context.run.log());
  const auto type =
      ec2::find_instance_type(host.http, host.clock, host.files, context.run.log(), endpoint, site::imds_limit);
  return ec2::supported_by(type.name, {site::instance_types.begin(), site::instance_types.end()}).has_value();
}

void validate_imex(Context& context, Findings& findings) {
  const auto conf = find_conf(context);
  std::string damage;
  const auto ours = imex::read_state(context.host.files, damage);
  const std::string driver = check_driver(context, findings);
  check_imex_version(context, findings, driver);
  check_fabric(context, findings);
  check_channel(context, findings, conf);
  const UnitLook look = check_unit(context, findings, ours);
  const auto config = imex::read_daemon_config(context.host.files, std::string(site::imex_config));
  if (!config) {
    findings.fail(subject, "daemon config", config.error().what, config.error().cure);
    return;
  }
  check_list(context, findings, *config, look);
  check_ports(context, findings, *config, look);
  tell_report(context, findings, *config, check_domain(context, findings, *config, look));
}

}  // namespace commands
