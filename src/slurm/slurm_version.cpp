#include "slurm/slurm_version.h"

#include "base/text.h"

namespace slurm {

std::string parse_version(std::string_view text) {
  const auto words = base::words(text);
  if (words.size() < 2 || !words[0].starts_with("slurm")) return "";
  const auto parts = base::split(words[1], '.');
  if (parts.size() < 2 || !base::parse_number(parts[0])) return "";
  return std::string(words[1]);
}

}  // namespace slurm
