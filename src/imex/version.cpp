#include "imex/version.h"

#include <algorithm>

#include "base/text.h"

namespace imex {

namespace {

bool is_version(std::string_view word) {
  if (word.empty() || word.find('.') == std::string_view::npos) return false;
  for (const std::string_view part : base::split(word, '.')) {
    if (!base::parse_number(part)) return false;
  }
  return true;
}

std::string first_version(std::string_view text) {
  for (const std::string_view word : base::words(text)) {
    if (is_version(word)) return std::string(word);
  }
  return "";
}

}  // namespace

std::string parse_driver_version(std::string_view text) {
  for (const std::string_view line : base::each_line(text)) {
    if (line.starts_with("NVRM version:")) return first_version(line);
  }
  return "";
}

std::string parse_imex_version(std::string_view text) { return first_version(text); }

bool versions_agree(std::string_view a, std::string_view b) {
  const auto x = base::split(a, '.');
  const auto y = base::split(b, '.');
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (base::parse_number(x[i]) != base::parse_number(y[i])) return false;
  }
  return !a.empty() && !b.empty();
}

}  // namespace imex
