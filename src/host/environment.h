// The variables we were started with, read once in main.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace host {

class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> values) : values_(std::move(values)) {}
  static Environment from_process();

  // nullopt: not set. A set but empty variable is an empty string.
  std::optional<std::string> get(const std::string& name) const;
  std::string get_or(const std::string& name, const std::string& otherwise) const;
  const std::map<std::string, std::string>& all() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

unsigned effective_user();  // the uid that we run as

}  // namespace host
