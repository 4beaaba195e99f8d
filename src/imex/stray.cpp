#include "imex/stray.h"

#include <algorithm>

#include "base/text.h"
#include "site/site.h"

namespace imex {

using base::Error;
using base::ExitCode;

namespace {

std::string link_of(const host::Files& files, const std::string& path) {
  const auto target = files.read_link(path);
  return target ? *target : "";
}

// A container's daemon has other namespaces and is no business of this host's.
bool in_our_namespaces(const host::Files& files, const std::string& process) {
  for (const std::string_view kind : {"net", "mnt"}) {
    const std::string place = "/ns/" + std::string(kind);
    if (link_of(files, process + place) != link_of(files, "/proc/self" + place)) return false;
  }
  return true;
}

}  // namespace

base::Status check_no_stray_daemon(const host::Files& files, const host::Network& network, const DaemonConfig& config,
                                   const systemd::UnitState& unit) {
  const auto entries = files.list("/proc");
  if (entries) {
    for (const std::string& entry : *entries) {
      const auto pid = base::parse_number(entry);
      if (!pid ||
          std::find(unit.processes.begin(), unit.processes.end(), static_cast<pid_t>(*pid)) != unit.processes.end())
        continue;
      const std::string process = "/proc/" + entry;
      std::string program = link_of(files, process + "/exe");
      if (program.ends_with(" (deleted)")) program.resize(program.size() - 10);
      if (program != site::imex_daemon.front() || !in_our_namespaces(files, process)) continue;
      return Error{
          ExitCode::change, "a daemon outside the unit runs: process " + entry + " (" + program + ")",
          "find out who started it (`cat /proc/" + entry + "/cgroup`) and stop it; IMEX takes one daemon a node"};
    }
  }
  if (!unit.processes.empty()) return base::ok();  // the ports are the unit's own
  for (const unsigned port : {config.server_port, config.command_port}) {
    if (port == config.command_port && !config.command_enabled) continue;
    const auto listening = network.listening(port);
    if (!listening || !*listening) continue;
    return Error{ExitCode::change,
                 "TCP port " + std::to_string(port) + " of nvidia-imex is in use though the unit is stopped",
                 "see `ss -ltnp sport = :" + std::to_string(port) +
                     "`; keep the port free with net.ipv4.ip_local_reserved_ports=50000,50005"};
  }
  return base::ok();
}

}  // namespace imex
