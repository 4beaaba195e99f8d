// Where a run's words go: the log file, syslog and the terminal, through one spdlog logger. A sink that
// cannot take a line drops it: a log never fails, delays or changes a run.
#pragma once

#include <memory>
#include <string>

#include "flow/report.h"
#include "host/log.h"

namespace spdlog {
class logger;
}

namespace flow {

enum class Level { debug, info, warn, error };

struct LogOptions {
  std::string file;        // empty: none
  std::string syslog_tag;  // empty: none
  std::string dev_log;     // path of the syslog socket
  std::string job;         // for [JOB:...]; may be empty
  bool to_stderr = false;  // steps and warnings for the person at the terminal
  bool colour = false;
  Level level = Level::info;
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
