#include <string>
#include <vector>

#include "imexd.hpp"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string name = argc > 0 ? argv[0] : "";
  const std::string base = name.substr(name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1);
  return base == "nvidia-imex-ctl" ? imexd::ctl_main(arguments) : imexd::daemon_main(arguments);
}
