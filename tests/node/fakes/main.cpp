// One small static program behind every make-believe tool of a node; its own file name says which one it is.
#include <string.h>

#include "common.h"

int main(int argc, char** argv) {
  const char* slash = strrchr(argv[0], '/');
  const std::string name = slash != nullptr ? slash + 1 : argv[0];
  if (name == "systemctl") return fake::systemctl_main(argc, argv);
  if (name == "scontrol") return fake::scontrol_main(argc, argv);
  if (name == "getent") return fake::getent_main(argc, argv);
  if (name == "nvidia-imex-ctl") return fake::imex_ctl_main(argc, argv);
  if (name == "nvidia-imex") return fake::imex_main(argc, argv);
  if (name == "manager") return fake::manager_main(argc, argv);
  return fake::launcher_main(argc, argv);  // slurmd, slurmstepd or any other parent
}
