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
#include "host/boot_time.h"
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

// A tool that is there and not to be used (writable by others, not executable) is not cured by installing it.
std::string cure_for_tool(const base::Error& error, const std::string& install) {
  return error.os_error == ENOENT ? install : error.cure;
}

// What the state file tells of jobs on this node.
struct Known {
  std::optional<imex::State> ours;
  std::string damage;

  // A job of ours has the node, or nobody can say that none has.
  bool job_may_run() const { return !damage.empty() || (ours && ours->phase != imex::Phase::stopped); }
};

void check_state(const Known& known, Findings& findings) {
  if (known.damage.empty()) return;
  findings.fail(
      subject, "state", known.damage + "; whether a job has a domain here cannot be told from it",
      "find out who made it so, and remove it once no job runs here (a folder: make it root's, mode 0755); no "
      "epilog stops the daemon until then, the next exclusive job's prolog does");
}

std::string check_driver(Context& context, Findings& findings) {
  const auto text = context.host.files.read("/proc/driver/nvidia/version", 4096);
  const std::string version = text ? imex::parse_driver_version(*text) : "";
  if (!text) {
    findings.fail(subject, "driver", "the NVIDIA driver is not loaded (/proc/driver/nvidia/version)",
                  "load it (`modprobe nvidia`), see `dmesg | grep -i nvrm`");
  } else if (version.empty()) {
    findings.fail(subject, "driver",
                  "/proc/driver/nvidia/version tells no version: " + base::printable(base::trim(*text), 120),
                  "see `cat /proc/driver/nvidia/version` and `dmesg | grep -i nvrm`");
  } else {
    findings.ok(subject, "driver", "version " + version);
  }
  return version;
}

void check_imex_version(Context& context, Findings& findings, const std::string& driver) {
  const auto tool = find_listed_tool(context, "nvidia-imex", site::imex_daemon);
  if (!tool) {
    findings.fail(subject, "version", tool.error().what,
                  cure_for_tool(tool.error(), "install the nvidia-imex package of the driver's version"));
    return;
  }
  const host::Exit exit = ask_tool(context, *tool, {"--version"}, site::imex_ctl_limit, short_answer);
  const std::string version = imex::parse_imex_version(exit.out + " " + exit.err);
  if (version.empty()) {
    findings.fail(subject, "version", "nvidia-imex --version: " + host::describe(exit),
                  host::cure_for(exit, "see whether the package is whole"));
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
    findings.fail(subject, "fabric", tool.error().what,
                  cure_for_tool(tool.error(), "install nvidia-smi, which comes with the driver"));
    return;
  }
  const host::Exit exit = ask_tool(
      context, *tool, {"--query-gpu=index,fabric.state,fabric.status", "--format=csv,noheader"}, 20s, short_answer);
  if (!exit.succeeded()) {
    findings.fail(subject, "fabric", "nvidia-smi: " + host::describe(exit),
                  host::cure_for(exit, "see `nvidia-smi -q` and `dmesg | grep -i nvrm`"));
    return;
  }
  std::size_t gpus = 0;
  std::vector<std::string> bad;
  bool has_fabric = false;
  for (const std::string_view line : base::each_line(exit.out)) {
    const auto fields = base::split(line, ',');
    if (fields.size() < 3) continue;
    ++gpus;
    const std::string state(base::trim(fields[1]));
    const std::string status(base::trim(fields[2]));
    if (state == "N/A" || state.find("Not Supported") != std::string::npos) continue;
    has_fabric = true;
    if (state != "Completed" || status != "Success")
      bad.push_back("GPU " + std::string(base::trim(fields[0])) + " " + base::printable(state, 40) + "/" +
                    base::printable(status, 40));
  }
  if (gpus == 0) {  // "No devices were found" comes with exit 0, too
    const std::string_view said = base::trim(exit.out);
    findings.fail(
        subject, "fabric",
        said.empty() ? "nvidia-smi printed nothing" : "nvidia-smi lists no GPU: " + base::printable(said, 200),
        "see `dmesg | grep -i nvrm` and `lspci -d 10de:`: the driver has no GPU, or has lost it");
  } else if (!bad.empty()) {
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

struct UnitLook {
  std::optional<systemd::EnabledWord> enabled;
  systemd::UnitState state;
  std::vector<base::Error> errors;  // why `enabled` or `state` is not known
  bool known = false;               // `state` is

  bool runs() const { return known && !state.processes.empty(); }
  bool is_gone() const { return known && state.processes.empty(); }
};

UnitLook look_at_unit(Context& context) {
  UnitLook look;
  const auto units = open_units(context, std::nullopt);
  if (!units) {
    look.errors.push_back(units.error());
    return look;
  }
  const auto enabled = (*units)->enabled(unit);
  if (enabled) {
    look.enabled = *enabled;
  } else {
    look.errors.push_back(enabled.error());
  }
  const auto state = (*units)->state(unit);
  if (!state) {
    look.errors.push_back(state.error());
  } else if (!state->untold.empty()) {
    look.errors.push_back({base::ExitCode::change,
                           "systemctl show does not tell what runs in unit " + unit + ": " + state->untold,
                           "see whether systemd answers on this node (`systemctl is-system-running`)"});
  } else {
    look.state = *state;
    look.known = true;
  }
  return look;
}

const std::string daemon_gone = "the daemon does not run";
const std::string daemon_unknown = "it is not known whether the daemon runs";

void check_channel(Context& context, Findings& findings, const std::optional<slurm::Conf>& conf, const Known& known,
                   const UnitLook& look) {
  const host::Files& files = context.host.files;
  if (conf && slurm::switch_makes_channels(*conf)) {
    findings.skip(subject, "channel",
                  "SwitchType is switch/nvidia_imex: Slurm makes a channel for each step" +
                      other_channels(files, "; there now: "));
    return;
  }
  const std::string place(site::channel0);
  const auto fault = imex::find_channel_fault(files);
  if (!fault) {
    findings.fail(subject, "channel", fault.error().what, fault.error().cure);
    return;
  }
  if (fault->empty()) {
    findings.ok(subject, "channel", place + " is right" + other_channels(files, "; beside it: "));
    return;
  }
  const std::string cure =
      "the next exclusive job's prolog repairs it; by hand, as root: `" + imex::channel_cure(files) + "`";
  // /dev is empty after every boot. A missing channel is a finding all the same: until somebody makes it, no CUDA
  // program that is started by hand or outside an exclusive job can use the NVLink domain.
  const bool before_a_job = *fault == imex::channel_missing && !known.job_may_run() && look.is_gone();
  findings.fail(subject, "channel",
                place + ": " + *fault +
                    (before_a_job ? ", as it is from a boot until the first exclusive job, whose prolog makes it" : ""),
                cure);
}

void tell_running_state(const Known& known, const systemd::UnitState& state, Findings& findings) {
  const std::string logs = "`journalctl -u " + unit + " -b` and /var/log/nvidia-imex.log";
  const std::string word = base::printable(state.active, 40);
  if (!state.processes.empty() && state.active == "active") {
    findings.ok(subject, "unit", unit + " " + systemd::describe(state));
  } else if (state.active == "activating" || state.active == "deactivating" || state.active == "reloading") {
    findings.warn(subject, "unit", unit + " is " + word + ": " + systemd::describe(state),
                  "ask again in a few seconds; when it lasts, see " + logs);
  } else if (known.ours && known.ours->phase == imex::Phase::started) {
    findings.fail(subject, "unit",
                  unit + " is not running though the prolog of job " + base::printable(known.ours->run.job_id, 40) +
                      " started it: " + systemd::describe(state),
                  "see " + logs + "; a daemon does not restart itself (the unit has no Restart=)");
  } else if (state.active == "active") {
    findings.fail(subject, "unit", unit + " is active, but no daemon lives in it: " + systemd::describe(state),
                  "see " + logs);
  } else if (state.active != "inactive" && state.active != "failed") {
    findings.fail(subject, "unit",
                  unit + " is in a state that this gpu-prolog does not know: " + systemd::describe(state),
                  "see `systemctl status " + unit + "`");
  } else if (!state.processes.empty()) {
    findings.fail(subject, "unit", unit + " is " + word + ", but has processes left: " + systemd::describe(state),
                  "the next exclusive job's prolog ends them; see " + logs);
  } else if (!known.damage.empty()) {
    findings.warn(subject, "unit", unit + " is " + word + "; whether a job needs it is not known (state)",
                  "see the finding about the state file");
  } else if (state.active == "failed") {
    findings.warn(subject, "unit", unit + " has failed, and no job of ours runs: " + systemd::describe(state),
                  "the next job's prolog resets it; see `journalctl -u " + unit + " -b`");
  } else {
    findings.ok(subject, "unit", unit + " is " + word + ", as it may be while no job has a domain here");
  }
}

void tell_unit(const Known& known, const UnitLook& look, Findings& findings) {
  for (const base::Error& error : look.errors) findings.fail(subject, "unit", error.what, error.cure);
  if (look.enabled && look.enabled->state != systemd::UnitFile::enabled) {
    findings.fail(subject, "unit",
                  unit + " is " + base::printable(look.enabled->word, 40) + ": the prolog skips IMEX on this node",
                  how_to_enable(*look.enabled, unit) + " (in the AMI)");
  }
  if (look.known) tell_running_state(known, look.state, findings);
}

// What a list must be that nobody runs with yet; empty: it is.
std::string list_fault(const std::vector<std::string>& listed) {
  std::vector<std::string> bad;
  std::vector<std::string> met;
  for (const std::string& entry : listed) {
    const auto address = base::canonical_address(entry);
    if (!address) {
      bad.push_back(base::printable(entry, 60) + " is no address");
    } else if (std::find(met.begin(), met.end(), *address) != met.end()) {
      bad.push_back(*address + " stands there twice");
    } else {
      met.push_back(*address);
    }
  }
  return base::join(bad, ", ");
}

bool has_own_address(const host::Network& network, const std::vector<std::string>& listed) {
  const auto own = network.own_addresses();
  return own && std::any_of(listed.begin(), listed.end(), [&](const std::string& entry) {
           const auto address = base::canonical_address(entry);
           return address && std::find(own->begin(), own->end(), *address) != own->end();
         });
}

void check_list(Context& context, Findings& findings, const imex::DaemonConfig& config, const Known& known,
                const UnitLook& look, const std::optional<imex::DomainView>& view) {
  const host::Host& host = context.host;
  const std::string check = "node list";
  const bool idle = look.is_gone() && !known.job_may_run();
  const auto text = host.files.read(config.nodes_config, 1U << 20U);
  if (!text) {
    if (text.error().os_error != ENOENT) {
      findings.fail(subject, check, text.error().what, "the next exclusive job's prolog puts a file in its place");
    } else if (idle) {
      findings.ok(subject, check, config.nodes_config + " is not there; the first exclusive job's prolog makes it");
    } else {
      findings.fail(subject, check, text.error().what,
                    "nvidia-imex does not start without the file; the next exclusive job's prolog writes it");
    }
    return;
  }
  const auto listed = imex::parse_nodes_config(*text);
  const std::string what = config.nodes_config + " (" + base::counted(listed.size(), "node") + ")";
  if (listed.empty()) {
    if (look.runs()) {
      findings.fail(subject, check, what + " is empty while the daemon runs", "restart the job");
    } else {
      findings.ok(subject, check, what + " is empty, as it is between jobs");
    }
    return;
  }
  const std::string anew = "restart the job; the prolog writes the list anew";
  if (const std::string bad = list_fault(listed); !bad.empty()) {
    findings.fail(subject, check, what + ": " + bad, anew);
    return;
  }
  if (!has_own_address(host.network, listed)) {
    if (idle) {  // what an image or an earlier host of this disk left
      findings.warn(subject, check, what + " has none of this host's addresses; no daemon runs with it",
                    "the next exclusive job's prolog writes it anew; until then nvidia-imex cannot start at a boot");
    } else {
      findings.fail(subject, check, what + " has none of this host's addresses",
                    "check NodeAddr of this node in Slurm against `ip addr`, then restart the job");
    }
    return;
  }
  if (const std::string other = view ? imex::list_difference(*view, listed) : ""; !other.empty()) {
    findings.fail(subject, check, what + " is not the list that the daemon runs with: " + other,
                  "restart the job; whatever wrote the file must not do so while the daemon runs");
    return;
  }
  if (known.ours && known.ours->phase == imex::Phase::started && listed != known.ours->addresses) {
    findings.fail(subject, check,
                  what + " is not the list that the prolog of job " + base::printable(known.ours->run.job_id, 40) +
                      " wrote (" + base::counted(known.ours->addresses.size(), "node") + ")",
                  anew);
    return;
  }
  const auto status = host.files.status(config.nodes_config);
  const auto started = look.runs() ? daemon_start_ns(context, look.state.main_pid) : std::nullopt;
  if (status && *status && started && (*status)->modified_ns > *started + 2'000'000'000) {
    findings.fail(subject, check, what + " is newer than the daemon, which reads it at its start only",
                  "restart the job; whatever wrote the file must not do so while the daemon runs");
    return;
  }
  findings.ok(subject, check,
              what + " has this host's address" + (view ? ", is the list that the daemon runs with" : "") +
                  (started ? " and is older than the daemon" : ""));
}

void check_ports(Context& context, Findings& findings, const imex::DaemonConfig& config, const UnitLook& look) {
  if (look.is_gone()) {
    findings.skip(subject, "ports", daemon_gone);
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
  } else if (!look.known) {
    findings.skip(subject, "ports", "nobody listens on " + base::join(closed, ", ") + ", but " + daemon_unknown);
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

struct DomainLook {
  std::optional<imex::DomainView> view;
  flow::Finding why;  // where there is no view
};

DomainLook look_at_domain(Context& context, const imex::DaemonConfig& config, const UnitLook& look) {
  const auto none = [](Judgement judgement, const std::string& found, const std::string& cure) {
    return DomainLook{std::nullopt, {subject, "domain", judgement, found, cure}};
  };
  const auto choice = open_ctl(context, config);
  if (!choice) return none(Judgement::fail, choice.error().what, choice.error().cure);
  if (!config.command_enabled) {
    return none(Judgement::warn, "the domain cannot be looked at: " + choice->unusable_because,
                "turn the daemon's command service on (IMEX_CMD_ENABLED=1 in " + std::string(site::imex_config) + ")");
  }
  if (!choice->unusable_because.empty()) {
    return none(Judgement::fail, "the domain cannot be looked at: " + choice->unusable_because,
                "install nvidia-imex-ctl, which comes with the nvidia-imex package");
  }
  if (look.is_gone()) return none(Judgement::skipped, daemon_gone, "");
  const auto view = choice->ctl->domain(site::imex_ctl_limit);
  if (view) return {*view, {}};
  const bool hangs = view.error().code == base::ExitCode::time_out;
  if (!hangs && !look.known) return none(Judgement::skipped, view.error().what + "; " + daemon_unknown, "");
  return none(Judgement::fail, view.error().what,
              hangs ? "a daemon that does not answer is wedged: restart the job, and the node if that does not help"
                    : view.error().cure);
}

}  // namespace

std::optional<std::int64_t> daemon_start_ns(Context& context, pid_t pid) {
  const auto ticks = context.host.processes.start_time(pid);
  const auto boot = host::boot_time_ns(context.host.files);
  if (!ticks || !boot) return std::nullopt;
  // USER_HZ is 100 on every Linux architecture of ours.
  return *boot + static_cast<std::int64_t>(*ticks) * 10'000'000;
}

void add_domain_findings(const imex::DomainView& view, const std::vector<std::string>& names, Findings& findings) {
  const std::string size = base::counted(view.nodes.size(), "node");
  const std::string state = base::printable(view.state, 30);
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
  const auto mute = imex::mute_nodes(view);
  if (!mute.empty()) {
    findings.fail(subject, "command port",
                  base::counted(mute.size(), "peer") +
                      (mute.size() == 1 ? " is connected but tells no status (node "
                                        : " are connected but tell no status (nodes ") +
                      imex::show_ids(mute) + "): TCP port 50005 (IMEX_CMD_PORT) is blocked between the nodes?",
                  "open port 50005 between the nodes in the security group, beside 50000");
  }
  const auto faults = imex::explain_faults(view, names);
  for (const imex::DomainFault& fault : faults) findings.fail(subject, "connections", fault.what, fault.cure);
  if (!faults.empty() || !mute.empty()) {  // one fault is one fail
    findings.skip(subject, "domain",
                  size + ", state " + (state.empty() ? "not told" : state) + ": see the lines above");
  } else if (view.state.empty() || view.state == "UP") {  // as the prolog judges it
    findings.ok(subject, "domain",
                size + ", every node READY, every pair connected" + (state.empty() ? "" : ", state " + state));
  } else {
    findings.fail(subject, "domain", size + ", every pair shown as connected, but the domain state is " + state,
                  "ask again in a few seconds; when it lasts, see /var/log/nvidia-imex.log here and restart the job");
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
  Known known;
  known.ours = imex::read_state(context.host.files, known.damage);
  const std::string driver = check_driver(context, findings);
  check_imex_version(context, findings, driver);
  check_fabric(context, findings);
  check_state(known, findings);
  const UnitLook look = look_at_unit(context);
  check_channel(context, findings, conf, known, look);
  tell_unit(known, look, findings);
  const auto config = imex::read_daemon_config(context.host.files, std::string(site::imex_config));
  if (!config) {
    findings.fail(subject, "daemon config", config.error().what, config.error().cure);
    return;
  }
  const DomainLook domain = look_at_domain(context, *config, look);
  check_list(context, findings, *config, known, look, domain.view);
  check_ports(context, findings, *config, look);
  if (domain.view) {
    add_domain_findings(*domain.view, {}, findings);
  } else {
    findings.add(domain.why);
  }
  tell_report(context, findings, *config, domain.view);
}

}  // namespace commands
