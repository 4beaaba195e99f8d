// Keeps what was said, for tests to read.
#pragma once

#include <string>
#include <vector>

#include "host/log.h"

namespace fakes {

class MemoryLog : public host::Log {
 public:
  void debug(const std::string& text) override { lines.push_back("DEBUG " + text); }
  void info(const std::string& text) override { lines.push_back("INFO " + text); }
  void warn(const std::string& text) override { lines.push_back("WARN " + text); }
  void error(const std::string& text) override { lines.push_back("ERROR " + text); }

  bool has(const std::string& part) const {
    for (const std::string& line : lines) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }

  std::vector<std::string> lines;
};

}  // namespace fakes
