// What a step may say while it works. Where it goes (file, syslog, terminal) is flow's business; saying
// something never fails and never waits.
#pragma once

#include <string>

namespace host {

class Log {
 public:
  virtual ~Log() = default;
  virtual void debug(const std::string& text) = 0;
  virtual void info(const std::string& text) = 0;
  virtual void warn(const std::string& text) = 0;
  virtual void error(const std::string& text) = 0;
};

}  // namespace host
