// "slurm 25.11.7", "slurm-wlm 26.05.5": what `scontrol --version` prints.
#pragma once

#include <string>
#include <string_view>

namespace slurm {

std::string parse_version(std::string_view text);  // "25.11.7"; empty: none

}  // namespace slurm
