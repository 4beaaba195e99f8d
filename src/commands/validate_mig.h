// validate mig: what MIG is on this node, compared with what it should be and with what Slurm believes. Reads only.
//
// Options of `validate mig`: --layout, --layout-file, --layout-name as for mig-setup (without them: the layout in the
// status file of the last mig-setup), --gate [flag] judge this boot's status file only, in milliseconds (for
// ExecCondition= of slurmd.service), and validate's own --strict and --json.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "commands/context.h"
#include "flow/findings.h"

namespace commands {

struct ValidateMigOptions {
  std::vector<std::string> layouts;
  std::string layout_file;
  std::string layout_name;
  bool gate = false;
};

// Error: validate itself cannot run (usage: the layout makes no sense). What is wrong with the node is a finding.
base::Status validate_mig(Context& context, const ValidateMigOptions& options, flow::Findings& findings);

// Has this node anything to do with MIG: mig-setup ran here, a layout was given, or there are instances.
bool mig_applies(Context& context, const ValidateMigOptions& options);

}  // namespace commands
