// Captured output of a real nvidia-smi (driver 580.159.04, H200): the file without the "$ command" and "rc=" lines.
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "mig/profiles.h"
#include "places.h"

namespace captured {

inline std::string h200(const std::string& name) {
  std::ifstream file(tests::data_dir() / "nvidia-smi-580-h200" / (name + ".txt"));
  if (!file) throw std::runtime_error("no capture " + name);
  std::ostringstream whole;
  whole << file.rdbuf();
  std::string text = whole.str();
  text.erase(0, text.find('\n') + 1);
  return text.substr(0, text.rfind("rc="));
}

inline mig::Boards h200_boards() {
  auto profiles = mig::parse_profiles(h200("lgip"));
  if (!profiles) throw std::runtime_error(profiles.error().what);
  auto boards = mig::add_placements(*profiles, h200("lgipp"));
  if (!boards) throw std::runtime_error(boards.error().what);
  return *boards;
}

// RTX PRO 6000 Blackwell Server Edition: four slices in a grid of twelve memory units, as posted by its users.
inline mig::Board rtx_pro_6000() {
  const std::vector<unsigned> quarter{0, 3, 6, 9};
  return {{"1g.24gb", 14, 4, "23.62", quarter, 3},     {"1g.24gb+me", 21, 1, "23.62", quarter, 3},
          {"1g.24gb+gfx", 47, 4, "23.62", quarter, 3}, {"1g.24gb+me.all", 65, 1, "23.62", quarter, 3},
          {"1g.24gb-me", 67, 4, "23.62", quarter, 3},  {"2g.48gb", 5, 2, "47.38", {0, 6}, 6},
          {"2g.48gb+gfx", 35, 2, "47.38", {0, 6}, 6},  {"4g.96gb", 0, 1, "95.12", {0}, 12},
          {"4g.96gb+gfx", 32, 1, "95.12", {0}, 12}};
}

}  // namespace captured
