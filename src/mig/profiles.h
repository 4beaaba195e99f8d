// GPU instance profiles as each GPU's own driver lists them. No table of profiles exists in this program: ID 5 is a 4g
// on seven-slice boards and a 2g on an RTX PRO 6000, and names of one board changed between drivers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mig {

// "3g.71gb+me": slices, memory, attributes. A leading "1c." is a part of a GPU instance.
struct Shape {
  unsigned compute_slices = 0;  // of "1c.": 0 where the instance is whole
  unsigned slices = 0;
  unsigned memory_gb = 0;
  std::string attributes;  // "", "+me", "+me.all", "-me", "+gfx"
};

// In any case, a leading "MIG " allowed. nullopt: no profile name.
std::optional<Shape> parse_shape(std::string_view name);

struct Profile {
  std::string name;
  unsigned id = 0;
  unsigned total = 0;  // instances that fit an empty GPU. "Free" is no use: it is 0 where MIG is off on some drivers
  std::string memory_gib;
  std::vector<unsigned> starts;  // memory units
  unsigned size = 0;

  unsigned slices() const;
};

using Board = std::vector<Profile>;        // one GPU's
using Boards = std::map<unsigned, Board>;  // by GPU index

// `nvidia-smi mig -lgip` without placements. Error (source): no row, or a row that cannot be read.
base::Result<Boards> parse_profiles(std::string_view text);

// `nvidia-smi mig -lgipp` written into the boards. Error (source): a line that cannot be read, a profile that -lgip did
// not list, or a profile left without placement.
base::Result<Boards> add_placements(Boards boards, std::string_view text);

}  // namespace mig
