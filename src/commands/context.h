// What every command is handed: the outside, the runner that tells its steps, and whether it is a dry run.
#pragma once

#include <string>

#include "flow/runner.h"
#include "host/host.h"
#include "host/plan.h"

namespace commands {

struct Context {
  host::Host host;
  flow::Runner& run;
  host::Plan* plan = nullptr;  // a dry run's; nullptr: changes are made
  bool has_root = false;       // --root DIR other than /

  bool dry_run() const { return plan != nullptr; }
};

}  // namespace commands
