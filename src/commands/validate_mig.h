// validate mig: what MIG is on this node, compared with what it should be and with what Slurm believes. Reads only.
//
// Options of `validate mig`: --layout, --layout-file, --layout-name as for mig-setup (without them: the layout in the
// status file of the last mig-setup), --gate [flag] judge this boot's status file only, in milliseconds (for
// ExecCondition= of slurmd.service), and validate's own --strict and --json.
#pragma once

#include <string>
#include <vector>

namespace commands {

struct ValidateMigOptions {
  std::vector<std::string> layouts;
  std::string layout_file;
  std::string layout_name;
  bool gate = false;
};

}  // namespace commands
