// A make-believe UltraServer node: one systemd unit, scontrol, nvidia-imex-ctl, IMDS and files. All is well until a
// test changes it; every change that reaches the node is written into one journal, in order.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "commands/context.h"
#include "commands/imex_epilog.h"
#include "commands/imex_prolog.h"
#include "fakes/fake_clock.h"
#include "fakes/fake_files.h"
#include "fakes/fake_http.h"
#include "fakes/fake_locks.h"
#include "fakes/fake_machine.h"
#include "fakes/fake_network.h"
#include "fakes/fake_processes.h"
#include "fakes/memory_log.h"
#include "host/dry_files.h"
#include "host/dry_locks.h"
#include "imex/nodes_config.h"
#include "imex/state.h"

namespace imex_node {

using namespace std::chrono_literals;
using imex::Phase;
using Journal = std::vector<std::string>;  // of changes, in order

inline const std::string list_path = "/etc/nvidia-imex/nodes_config.cfg";
inline const std::string state_path = "/run/gpu-prolog/imex.json";
inline const std::string channel0 = "/dev/nvidia-caps-imex-channels/channel0";
inline const std::string conf_path = "/run/slurm/conf/slurm.conf";
inline const std::string old_list = "10.0.0.8\n10.0.0.9\n";
inline const std::string stop = "systemctl stop nvidia-imex";
inline const std::string start = "systemctl start nvidia-imex";
inline const std::string kill_it = "systemctl kill --signal=KILL nvidia-imex";
inline const std::string boot = "8a9f0c6e-0000-4000-8000-000000000001";

// The tools, answering as the node's state has it; `scripted` answers come first and stay.
class Tools : public fakes::FakeProcesses {
 public:
  Tools(fakes::FakeClock& clock, fakes::FakeFiles& files) : FakeProcesses(clock), clock_(clock), files_(files) {
    living[main_pid] = 500;
  }

  host::Exit run(const host::Command& command) override {
    std::string line = command.program.substr(command.program.rfind('/') + 1);
    for (const std::string& argument : command.arguments) line += " " + argument;
    calls.push_back(line);
    limits.push_back(command.limit);
    if (changes_.contains(line) || line.starts_with("systemctl cancel ")) files_.changes.push_back(line);
    if (effect) effect(line);
    const auto found = scripted.find(line);
    const host::Exit exit = found != scripted.end() ? found->second : answer_as_is(line);
    if (exit.ending == host::Exit::Ending::timed_out) clock_.pass(command.limit);
    return exit;
  }

  void die(const std::string& how) {
    living.erase(main_pid);
    main_pid = 0;
    active = how;
  }

  bool called(const std::string& beginning) const {
    return std::any_of(calls.begin(), calls.end(),
                       [&](const std::string& line) { return line.starts_with(beginning); });
  }

  std::map<std::string, host::Exit> scripted;
  std::string enabled = "enabled";
  std::string active = "active";
  pid_t main_pid = 700;
  unsigned queued_job = 0;
  std::string status = "READY";      // of the daemon, while it lives
  std::set<std::string> dead_peers;  // addresses
  std::map<std::string, std::string> node_addresses{{"ultra-1", "10.0.0.1"}, {"ultra-2", "10.0.0.2"}};

 private:
  host::Exit answer_as_is(const std::string& line) {
    if (line == "systemctl is-enabled nvidia-imex") return fakes::exited(enabled == "enabled" ? 0 : 1, enabled + "\n");
    if (line.starts_with("systemctl show nvidia-imex ")) {
      return fakes::exited(
          0, "ActiveState=" + active + "\nSubState=x\nResult=success\nMainPID=" + std::to_string(main_pid) +
                 "\nControlPID=0\nJob=" + (queued_job != 0 ? std::to_string(queued_job) : "") + "\nControlGroup=\n");
    }
    if (line.starts_with("systemctl cancel ")) {
      queued_job = 0;
      return fakes::exited(0);
    }
    if (line == "systemctl stop nvidia-imex" || line == "systemctl kill --signal=KILL nvidia-imex") {
      die("inactive");
      return fakes::exited(0);
    }
    if (line == "systemctl reset-failed nvidia-imex") return fakes::exited(0);
    if (line == "systemctl start nvidia-imex") {
      main_pid = next_pid_++;
      living[main_pid] = 600;
      active = "active";
      return fakes::exited(0);
    }
    if (line.starts_with("scontrol getaddrs ")) {
      std::string answer;
      for (const auto& [node, address] : node_addresses) answer += node + ": " + address + ":6818\n";
      return fakes::exited(0, answer);
    }
    if (line == "scontrol show topology") return fakes::exited(1, "", "Topology plugin unsupported\n");
    if (line == "nvidia-imex-ctl -q") {
      return main_pid != 0 ? fakes::exited(0, status + "\n")
                           : fakes::exited(0, "Query Status returned error code: 14\n");
    }
    if (line == "nvidia-imex-ctl -N -j") return fakes::exited(0, domain());
    if (line == "nvidia-imex-ctl -N" || line.starts_with("nvidia-imex-ctl -i "))
      return fakes::exited(255, "", "Query Status returned error code: 14\n");
    throw std::logic_error("imex_node: nobody set up: " + line);
  }

  // The domain as the list on this node's disk makes it.
  std::string domain() const {
    const auto text = files_.read(list_path, 1U << 20U);
    const auto addresses = imex::parse_nodes_config(text ? *text : "");
    const auto is_dead = [&](const std::string& address) { return dead_peers.contains(address); };
    std::string nodes;
    for (std::size_t from = 0; from < addresses.size(); ++from) {
      std::string links;
      for (std::size_t to = 0; to < addresses.size(); ++to) {
        const bool lost = is_dead(addresses[from]) || is_dead(addresses[to]);
        links +=
            (to == 0 ? "\"" : ",\"") + std::to_string(to) + R"(":{"status":")" + (lost ? link : "CONNECTED") + "\"}";
      }
      nodes += (from == 0 ? "\"" : ",\"") + std::to_string(from) + R"(":{"host":")" + addresses[from] +
               R"(","status":")" + (is_dead(addresses[from]) ? dead_status : "READY") +
               R"(","version":"570.172","connections":{)" + links + "}}";
    }
    return "{\"nodes\":{" + nodes + "},\"status\":\"" + (dead_peers.empty() ? "UP" : "DEGRADED") + "\"}";
  }

 public:
  std::string dead_status = "UNAVAILABLE";  // of a dead peer
  std::string link = "NEVER_CONNECTED";     // with a dead peer

 private:
  fakes::FakeClock& clock_;
  fakes::FakeFiles& files_;
  pid_t next_pid_ = 900;
  const std::set<std::string> changes_{"systemctl stop nvidia-imex", "systemctl kill --signal=KILL nvidia-imex",
                                       "systemctl reset-failed nvidia-imex", "systemctl start nvidia-imex"};
};

class Node {
 public:
  Node() {
    files.file("/proc/devices", "Character devices:\n234 nvidia-caps-imex-channels\n")
        .file("/proc/sys/kernel/random/boot_id", boot + "\n")
        .link("/proc/self/ns/net", "net:[1]")
        .link("/proc/self/ns/mnt", "mnt:[2]")
        .file(list_path, old_list)
        .directory("/dev")
        .directory("/run")
        .directory("/var/spool/slurmd");
    for (const char* tool : {"systemctl", "nvidia-imex-ctl", "scontrol", "getent"})
      files.file(std::string("/usr/bin/") + tool, "", 0755);
    files.allow_changes();
    network.addresses = {"127.0.0.1", "10.0.0.1"};
    locks.taken = [this] { files.changes.push_back("lock"); };
    locks.released = [this] { files.changes.push_back("unlock"); };
  }

  // --- what a test changes -------------------------------------------------------------------------------
  Node& is_type(const std::string& type) {
    type_ = type;
    return *this;
  }
  Node& unknown_type() { return is_type(""); }
  Node& is_second() {
    environment["SLURMD_NODENAME"] = "ultra-2";
    network.addresses = {"127.0.0.1", "10.0.0.2"};
    return *this;
  }
  Node& conf(const std::string& text) {
    files.file(conf_path, text);
    return *this;
  }
  Node& foreign_job(const std::string& id) {
    files.file("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_" + id + "/step_0/user/task_0/cgroup.procs", "555\n");
    tools.living[555] = 1;
    return *this;
  }
  Node& without_tool(const std::string& name) {
    files.tree.erase("/usr/bin/" + name);
    return *this;
  }
  // What the prolog of this very run (or of another) noted.
  Node& noted(imex::Phase phase, const std::string& job = "7", pid_t main_pid = 700, std::uint64_t start_time = 500) {
    imex::State state;
    state.run = {job, "", "", ""};
    state.phase = phase;
    state.boot_id = boot;
    state.unit = "nvidia-imex";
    state.nodes_config = list_path;
    state.addresses = {"10.0.0.1", "10.0.0.2"};
    state.main_pid = main_pid;
    state.main_start_time = start_time;
    state.prolog_pid = 111;
    files.file(state_path, imex::render_state(state));
    return *this;
  }

  // --- running -------------------------------------------------------------------------------------------
  int prolog(const commands::ImexPrologOptions& options = {},
             const std::optional<base::Error>& config_error = std::nullopt) {
    environment.emplace("SLURM_SCRIPT_CONTEXT", "prolog_slurmd");
    return run([&](commands::Context& context) { return commands::imex_prolog(context, options, config_error); });
  }
  // As a person at the node would: no context of slurmd's.
  int prolog_by_hand(const commands::ImexPrologOptions& options) {
    environment.erase("SLURM_SCRIPT_CONTEXT");
    return run([&](commands::Context& context) { return commands::imex_prolog(context, options, std::nullopt); });
  }
  int epilog(const commands::ImexEpilogOptions& options = {},
             const std::optional<base::Error>& config_error = std::nullopt) {
    environment["SLURM_SCRIPT_CONTEXT"] = "epilog_slurmd";
    return run([&](commands::Context& context) { return commands::imex_epilog(context, options, config_error); });
  }

  // --- what a test looks at ------------------------------------------------------------------------------
  std::string list() const { return files.read(list_path, 1U << 20U).value(); }
  bool list_has_no_nodes() const { return imex::parse_nodes_config(list()).empty(); }
  std::optional<imex::State> state() const {
    std::string damage;
    return imex::read_state(files, damage);
  }
  bool changed(const std::string& beginning) const {
    return std::any_of(files.changes.begin(), files.changes.end(),
                       [&](const std::string& line) { return line.starts_with(beginning); });
  }
  // Nothing of the old domain was touched: the daemon, its list, the device, the state.
  bool nothing_changed() const {
    for (const std::string& line : files.changes) {
      if (line != "lock" && line != "unlock") return false;
    }
    return tools.living.contains(700) && list() == old_list;
  }
  host::milliseconds took() const {
    return std::chrono::duration_cast<host::milliseconds>(clock.now().time_since_epoch());
  }
  bool logged(const std::string& level, const std::string& part) const {
    return std::any_of(log.lines.begin(), log.lines.end(), [&](const std::string& line) {
      return line.starts_with(level + " ") && line.find(part) != std::string::npos;
    });
  }

  std::map<std::string, std::string> environment{{"SLURM_JOB_ID", "7"},
                                                 {"SLURMD_NODENAME", "ultra-1"},
                                                 {"SLURM_JOB_NODELIST", "ultra-[1-2]"},
                                                 {"SLURM_JOB_PARTITION", "gpu"},
                                                 {"SLURM_JOB_EXCLUSIVE", "NODE"}};
  fakes::FakeClock clock;
  fakes::FakeFiles files;
  Tools tools{clock, files};
  fakes::FakeHttp http{clock};
  fakes::FakeNetwork network;
  fakes::FakeLocks locks{clock};
  fakes::FakeMachine machine;
  fakes::MemoryLog log;
  flow::Report report;
  host::Plan plan;
  bool dry_run = false;  // then a change that reaches `files` throws

 private:
  template <class Command>
  int run(Command command) {
    if (type_.empty()) {
      http.answer(404, "");
    } else {
      http.answer(200, "token").answer(200, type_);
    }
    report = {};
    report.dry_run = dry_run;
    const host::Environment values(environment);
    flow::Runner runner(log, clock, report);
    host::DryFiles dry_files(files, plan);
    host::DryLocks dry_locks;
    host::Files& its_files = dry_run ? static_cast<host::Files&>(dry_files) : files;
    host::Locks& its_locks = dry_run ? static_cast<host::Locks&>(dry_locks) : locks;
    commands::Context context{
        {values, its_files, tools, http, network, its_locks, clock, machine}, runner, dry_run ? &plan : nullptr, false};
    return command(context);
  }

  std::string type_ = "p6e-gb200.36xlarge";
};

}  // namespace imex_node
