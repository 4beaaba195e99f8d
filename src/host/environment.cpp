#include "host/environment.h"

#include <unistd.h>

#include <string_view>

namespace host {

Environment Environment::from_process() {
  std::map<std::string, std::string> values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::size_t equals = variable.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    // The first of two of the same name is the one that getenv() finds.
    values.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  return Environment(std::move(values));
}

std::optional<std::string> Environment::get(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::string Environment::get_or(const std::string& name, const std::string& otherwise) const {
  return get(name).value_or(otherwise);
}

unsigned effective_user() { return geteuid(); }

}  // namespace host
