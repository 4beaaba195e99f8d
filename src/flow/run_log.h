// Where a run's words go: the log file, syslog and the terminal, through one spdlog logger with a sink for each.
// A sink that cannot take a line drops it: a log never fails, delays or changes a run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "flow/report.h"
#include "host/log.h"

namespace spdlog {
class logger;
}

namespace flow {

enum class Level { debug, info, warn, error };

// The script's line: "2026-05-04T06:08:10.580 [INFO] [PID:n] [JOB:n] text", local time.
struct LogOptions {
  std::string job;  // may be empty
  Level level = Level::info;
  std::function<void(std::string_view line)> file;                   // the whole line with its '\n'; empty: none
  std::function<void(Level level, std::string_view text)> syslog;    // "[INFO] [PID:n] [JOB:n] text"
  std::function<void(Level level, std::string_view text)> terminal;  // the text alone, for a person
};

class RunLog : public host::Log {
 public:
  explicit RunLog(const LogOptions& options);
  ~RunLog() override;

  void debug(const std::string& text) override;
  void info(const std::string& text) override;
  void warn(const std::string& text) override;
  void error(const std::string& text) override;

  // Warnings are kept for the report as well.
  void keep_warnings_in(Report& report) { report_ = &report; }

 private:
  std::shared_ptr<spdlog::logger> logger_;
  Report* report_ = nullptr;
};

}  // namespace flow
