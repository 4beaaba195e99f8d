// mig-setup: the MIG layout of this node made right before slurmd starts, or a clear reason why not.
//
// Options of the command line (section [mig-setup] of the config file); the type in brackets:
//   - --layout TEXT [list of strings, repeatable]: what every GPU is split into: '3g.20gb:1,1g.5gb:2', profile IDs
//     '9,14,19,19', or none; 'SEL=...' for some GPUs only (SEL: 0, 0-3, bus id, UUID, model:H200)
//   - --layout-file FILE [string]: layouts as JSON, or mig-parted's YAML (then with --layout-name)
//   - --layout-name LABEL [string]: which of mig-parted's mig-configs
//   - --driver-timeout TIME [duration, 120s]: how long to wait for the driver and for every GPU
//   - --expect-gpus N [number, default: the NVIDIA functions on the PCI bus]: wait until this many GPUs answer
//   - --force [flag]: change GPUs although slurmd or a GPU process runs
//   - --reboot WHEN [no|if-pending|force, no]: reboot where the mode stays pending: never, at most once per launch and
//     only early in the boot, or also later
//   - --print FORM [gres|aws-cli|aws-json|json, gres]: form of what stdout gets
//   - --if-supported [flag]: exit 0 and do nothing where no GPU knows MIG
//   - --deadline TIME [duration, 600s]: limit of the whole run
//   - --check [flag]: check the layout against --board or this node's driver; changes nothing
//   - --board FILE [string, only with --check]: saved output of `nvidia-smi mig -lgip` and `-lgipp` instead of a GPU
//   - --plan-from GRES [string]: 'gpu:3g.20gb:8,...' as configured now: tell what changing to the layout means for
//   Slurm
// and the global --dry-run and --json (the command line sets print = json for it: the object is the same).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

#include "commands/context.h"
#include "site/site.h"

namespace commands {

enum class MigReboot { no, if_pending, force };
enum class MigPrint { gres, aws_cli, aws_json, json };

struct MigSetupOptions {
  std::vector<std::string> layouts;
  std::string layout_file;  // empty: not given, as everywhere here
  std::string layout_name;
  site::milliseconds driver_timeout = site::driver_limit;
  std::optional<unsigned> expect_gpus;
  bool force = false;
  MigReboot reboot = MigReboot::no;
  MigPrint print = MigPrint::gres;
  bool if_supported = false;
  site::milliseconds deadline = site::mig_deadline;
  bool check = false;
  std::string board_file;
  std::string plan_from;
};

// What makes no sense whatever the node is. Error: usage.
base::Status check_mig_words(const MigSetupOptions& options);

// The status object for words or a config file that cannot be understood: a run that never began.
std::string mig_refused_json(const base::Error& error);

// The exit code. `out` is what stdout gets (with its last newline), also empty; a stdout that cannot take it changes
// nothing about the outcome.
int mig_setup(Context& context, const MigSetupOptions& options, std::string& out);

}  // namespace commands
