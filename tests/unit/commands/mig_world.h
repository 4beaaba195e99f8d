// A make-believe node for the MIG commands: one H200, nothing installed but what a test puts there.
#pragma once

#include <map>
#include <string>

#include "commands/context.h"
#include "fakes/fake_clock.h"
#include "fakes/fake_files.h"
#include "fakes/fake_http.h"
#include "fakes/fake_locks.h"
#include "fakes/fake_machine.h"
#include "fakes/fake_network.h"
#include "fakes/fake_processes.h"
#include "fakes/memory_log.h"
#include "flow/findings.h"
#include "mig/gpu.h"

namespace mig_world {

inline const std::string bus = "00000000:36:00.0";
inline const std::string query = "nvidia-smi --query-gpu=" + std::string(mig::gpu_query) + " --format=csv,noheader";
inline const std::string none = "No GPU instances found: Not Found\n";
inline const std::string lgi =
    "|   0  MIG 3g.71gb       9        2          4:4     |\n|   0  MIG 3g.71gb       9        1          0:4     |\n";
inline const std::string lci =
    "|   0      2       MIG 3g.71gb           2         0          0:3     |\n|   0      1       MIG 3g.71gb           "
    "2         0          0:3     |\n";

inline std::string row(const std::string& current, const std::string& pending) {
  return "0, " + bus + ", 0x233510DE, GPU-1, " + current + ", " + pending + ", Enabled, 580.159.04, NVIDIA H200\n";
}

struct World {
  explicit World(std::map<std::string, std::string> variables = {}) : environment(std::move(variables)) {
    files.file("/usr/bin/nvidia-smi", "", 0755)
        .file("/proc/sys/kernel/random/boot_id", "boot-1\n")
        .file("/proc/sys/kernel/hostname", "gpu-1\n");
  }
  World& answer(const std::string& line, host::Exit exit) {
    processes.answer(line, std::move(exit));
    return *this;
  }
  // MIG on, split into two whole 3g.71gb.
  World& split() {
    return answer(query, fakes::exited(0, row("Enabled", "Enabled")))
        .answer("nvidia-smi mig -lgi", fakes::exited(0, lgi))
        .answer("nvidia-smi mig -lci", fakes::exited(0, lci));
  }

  host::Environment environment;
  fakes::FakeFiles files;
  fakes::FakeClock clock;
  fakes::FakeProcesses processes{clock};
  fakes::FakeHttp http{clock};
  fakes::FakeNetwork network;
  fakes::FakeLocks locks{clock};
  fakes::FakeMachine machine;
  fakes::MemoryLog log;
  flow::Report report;
  flow::Runner runner{log, clock, report};
  commands::Context context{
      {environment, files, processes, http, network, locks, clock, machine}, runner, nullptr, false};
};

// The one finding of a check, or an empty one.
inline flow::Finding finding(const flow::Findings& findings, const std::string& check) {
  for (const flow::Finding& one : findings.all()) {
    if (one.check == check) return one;
  }
  return {};
}

}  // namespace mig_world
