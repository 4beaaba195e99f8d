// What the prolog did on this node, so that the epilog and the next run know: /run/gpu-prolog/imex.json. It
// speaks of this boot only (it lies in /run and holds the boot id).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/files.h"

namespace imex {

// One run of one job. The id alone is not enough: a requeued job keeps it.
struct RunIdentity {
  std::string job_id;
  std::string sluid;          // Slurm 25.11+, else empty
  std::string restart_count;  // may be empty
  std::string start_time;     // may be empty
};

// The job id and whatever both sides know agree.
bool same_run(const RunIdentity& a, const RunIdentity& b);

// The same between a prolog and an epilog. Slurm counts a restart before the run that ends has had its epilog: of one
// requeued run the prolog was told 0 and the epilog 1, with the same start time and SLUID (seen on 24.11 and 26.05). So
// one more is the same run where start time or SLUID say so.
bool is_epilog_of(const RunIdentity& prolog, const RunIdentity& epilog);

enum class Phase {
  changing,  // a prolog is between stop and start, or was killed there
  started,   // the daemon runs for this job
  stopped,   // our epilog stopped it gracefully and emptied the list
};

struct State {
  RunIdentity run;
  Phase phase = Phase::changing;
  std::string boot_id;
  std::string unit;
  std::string nodes_config;            // path
  std::vector<std::string> addresses;  // the job's list on this node, in order
  pid_t main_pid = 0;                  // of the daemon; 0 before it is started
  std::uint64_t main_start_time = 0;   // clock ticks since boot
  pid_t prolog_pid = 0;
};

std::string_view show(Phase phase);

std::string render_state(const State& state);
// Error: surroundings for anything that is no state of ours.
base::Result<State> parse_state(std::string_view text);

// nullopt: none, a damaged one (a WARN is the caller's business: `damage` says what), or one of another boot. A state
// that others than root could have written is damaged.
std::optional<State> read_state(const host::Files& files, std::string& damage);
// Makes /run/gpu-prolog (0755) where it is missing; a folder of somebody else is refused by the lock before. Error:
// change.
base::Status write_state(host::Files& files, const State& state);

std::string read_boot_id(const host::Files& files);  // empty where the kernel tells none

}  // namespace imex
