// The config file's form, checked line by line: CLI11 reads TOML leniently and lets a line that is none pass.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cli {

struct ConfigEntry {
  std::string section;              // empty: before the first [section]
  std::string key;                  // empty: the [section] line itself, so that an empty section is judged too
  std::vector<std::string> values;  // unquoted; several for an array
  std::size_t line = 0;             // counted from 1
};

// Blank lines, # comments, [section], and key = value with a string, number, boolean or a one-line array of
// those. Error: usage, naming `path` and line: anything else, a section or key given twice.
base::Result<std::vector<ConfigEntry>> parse_config_text(const std::string& path, std::string_view text);

}  // namespace cli
