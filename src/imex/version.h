// Versions of the driver and of IMEX, which must match: "570.172.08" against IMEX' "570.172".
#pragma once

#include <string>
#include <string_view>

namespace imex {

// From /proc/driver/nvidia/version: "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.172.08  Release
// Build ..."; empty: none found.
std::string parse_driver_version(std::string_view text);

// From `nvidia-imex --version`: the first word that is digits and dots; empty: none.
std::string parse_imex_version(std::string_view text);

// Equal in the components that both print.
bool versions_agree(std::string_view a, std::string_view b);

}  // namespace imex
