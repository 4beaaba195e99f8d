// Children of the real kernel.
#pragma once

#include <string>
#include <vector>

#include "host/processes.h"
#include "host/root.h"

namespace host {

// What processes.h promises; further: a child runs in /, with umask 022, and is not started at all when its limit is
// zero (timed_out) or a stop signal has come (interrupted). After the child's own end the rest of its group is killed
// and its output is not waited for: a grandchild that keeps our pipes open would hold us until PrologEpilogTimeout.
class RealProcesses : public Processes {
 public:
  // `slurm_conf` is what children get as SLURM_CONF, empty: nothing. Under a root, tools are run from inside it only.
  RealProcesses(std::string slurm_conf, Root root);

  Exit run(const Command& command) override;
  // A thread for each, 18 at a time: a child dies with the thread that started it, and each thread waits for its own.
  std::vector<Exit> run_all(const std::vector<Command>& commands) override;
  bool alive(pid_t pid) const override;
  std::optional<std::uint64_t> start_time(pid_t pid) const override;
  pid_t parent() const override;
  pid_t self() const override;
  bool is_root() const override;

 private:
  std::string slurm_conf_;
  Root root_;
};

}  // namespace host
