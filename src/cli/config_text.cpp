#include "cli/config_text.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/text.h"

namespace cli {

using base::Error;
using base::ExitCode;

namespace {

Error bad_line(const std::string& path, std::size_t line, const std::string& why) {
  return Error{ExitCode::usage, "config file " + path + ", line " + std::to_string(line) + ": " + why,
               "see docs/configuration.md for the form, or move the file away to run with the defaults"};
}

bool is_bare_key(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

// One TOML scalar at the front of `text`, taken off it. False: none.
bool take_scalar(std::string_view& text) {
  if (text.empty()) return false;
  if (text.front() == '"') {
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        text.remove_prefix(i + 1);
        return true;
      }
    }
    return false;
  }
  if (text.front() == '\'') {
    const std::size_t end = text.find('\'', 1);
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
    return true;
  }
  std::size_t length = 0;
  while (length < text.size() && text[length] != ',' && text[length] != ']' && text[length] != ' ' &&
         text[length] != '\t' && text[length] != '#')
    ++length;
  const std::string_view word = text.substr(0, length);
  bool is_number = !word.empty();
  std::size_t dots = 0;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool sign = i == 0 && word.size() > 1 && (word[i] == '-' || word[i] == '+');
    if (word[i] == '.') ++dots;
    is_number = is_number && (sign || word[i] == '.' || (word[i] >= '0' && word[i] <= '9'));
  }
  if (word != "true" && word != "false" && !(is_number && dots <= 1 && word.front() != '.' && word.back() != '.'))
    return false;
  text.remove_prefix(length);
  return true;
}

void skip_blank(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

bool is_rest(std::string_view text) {
  skip_blank(text);
  return text.empty() || text.front() == '#';
}

// `loose_comma`: it is an array that ends with a comma, as TOML allows.
bool is_value(std::string_view text, bool& loose_comma) {
  loose_comma = false;
  skip_blank(text);
  if (!text.starts_with('[')) return take_scalar(text) && is_rest(text);
  text.remove_prefix(1);
  for (;;) {
    skip_blank(text);
    if (text.starts_with(']')) return is_rest(text.substr(1));
    if (!take_scalar(text)) return false;
    skip_blank(text);
    loose_comma = text.starts_with(',');
    if (loose_comma) {
      text.remove_prefix(1);
    } else if (!text.starts_with(']')) {
      return false;
    }
  }
}

}  // namespace

base::Result<std::vector<ConfigEntry>> parse_config_text(const std::string& path, std::string_view text) {
  std::vector<ConfigEntry> entries;
  std::set<std::string> sections;
  std::set<std::pair<std::string, std::string>> keys;
  std::string section;
  std::size_t number = 0;
  if (text.starts_with("\xEF\xBB\xBF")) {
    Error error = bad_line(path, 1, "the file begins with a byte order mark (the bytes EF BB BF)");
    error.cure = "save it as UTF-8 without a byte order mark: sed -i '1s/^\\xEF\\xBB\\xBF//' " + path;
    return error;
  }
  for (const std::string_view raw : base::each_line(text)) {
    ++number;
    std::string_view line = base::trim(raw);
    const std::string shown = "'" + base::printable(line, 80) + "'";
    if (line.find('\0') != std::string_view::npos) return bad_line(path, number, "it holds a zero byte");
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[') {
      const std::size_t end = line.find(']');
      const std::string_view name = base::trim(line.substr(1, end == std::string_view::npos ? 0 : end - 1));
      if (end == std::string_view::npos || !is_bare_key(name) || !is_rest(line.substr(end + 1)))
        return bad_line(path, number, shown + " is no [section]");
      section = name;
      if (!sections.insert(section).second) return bad_line(path, number, "section [" + section + "] is given twice");
      entries.push_back({section, "", {}, number});
      continue;
    }
    const std::size_t equals = line.find('=');
    const std::string_view key = base::trim(line.substr(0, equals));
    if (equals == std::string_view::npos || !is_bare_key(key))
      return bad_line(path, number, shown + " is no TOML (key = value)");
    bool loose_comma = false;
    if (!is_value(line.substr(equals + 1), loose_comma)) {
      return bad_line(path, number,
                      shown + " has no TOML value: write \"text\" in quotes, a number, true, false or [\"a\", \"b\"]");
    }
    if (!keys.emplace(section, key).second)
      return bad_line(path, number, "key " + std::string(key) + " is given twice");
    // The form is right: CLI11 reads the values (escapes, arrays).
    std::istringstream one(std::string(line) + "\n");
    try {
      for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(one)) {
        entries.push_back({section, item.name, item.inputs, number});
        // CLI11 takes what follows the last comma for an empty value.
        if (loose_comma && !item.inputs.empty() && item.inputs.back().empty()) entries.back().values.pop_back();
      }
    } catch (const CLI::Error& error) {
      return bad_line(path, number, shown + ": " + error.what());
    }
  }
  return entries;
}

}  // namespace cli
