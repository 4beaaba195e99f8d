// The status file of mig-setup: what the last run found and did, for the gate in front of slurmd, for validate and for
// --print=json. The JSON form is an interface (docs/mig.md): only ever extended.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/exit_code.h"
#include "base/result.h"
#include "host/files.h"
#include "mig/gres.h"
#include "mig/layout.h"
#include "mig/plan.h"

namespace mig {

struct GpuStatus {
  unsigned index = 0;
  std::string bus_id;
  std::string uuid;
  std::string name;
  std::string mode_current;
  std::string mode_pending;
  std::string layout;  // wanted; empty: this GPU was not selected
  std::vector<ProfileName> instances;
  std::vector<std::string> placements;  // "3g.20gb at 4" where known or planned
  std::string state;  // right, unselected, unsupported, failed, pending, planned (not proven yet), unknown
  std::string error;
};

struct Status {
  std::string version;  // of gpu-prolog
  std::string boot_id;
  std::string time;    // UTC
  std::string result;  // running, unchanged, changed, unsupported, pending, rebooting, failed; planned (dry run), fits
                       // (--check)
  int exit_code = 0;
  std::string message;
  std::string cure;
  std::string layout;  // in one line
  std::vector<GpuStatus> gpus;
  std::vector<GresEntry> gres;
  std::vector<std::string> warnings;
  bool dry_run = false;
  std::vector<std::string> planned;  // of a dry run: what would be called
};

// Is this the status of a run of this boot that was about the GPUs? A run that was refused before it touched one (wrong
// words, a GPU in use) says nothing about them, so it leaves such a status as it is.
bool stands(const base::Result<std::optional<Status>>& found, std::string_view boot_id);

// GPUs that an earlier run of this boot left failed, pending or not finished, and that the run of `now` did not come
// to: a run for other GPUs does not make them right.
std::vector<GpuStatus> left_undone(const Status& now, const Status& earlier);
// `now` with these in it.
Status with(Status now, const std::vector<GpuStatus>& undone);

std::string to_json(const Status& status);
// Error (surroundings): no status file of ours, and why.
base::Result<Status> parse_status(const std::string& text);

// The status as it lies on this node: this boot's in /run, the copy in /var/lib only where /run has none; nullopt where
// neither is there. Error (surroundings): one that is there and is not to be believed: a link, a pipe, a file or folder
// that others than root could have written (`of_root`: that is asked for), damaged.
base::Result<std::optional<Status>> read_status(const host::Files& files, bool of_root);

// The rules that the last run had, GPU by GPU, by bus id.
base::Result<std::vector<Rule>> rules_of(const Status& status);

// May slurmd start? Judged from the file alone, so that it costs milliseconds.
struct GateVerdict {
  bool open = false;
  std::string found;
  std::string cure;
};
GateVerdict gate(const base::Result<std::optional<Status>>& found, std::string_view boot_id);

std::string utc(std::chrono::system_clock::time_point time);  // 2026-05-04T06:08:10Z

}  // namespace mig
