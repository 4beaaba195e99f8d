// Lines for the node's syslog, sent without ever waiting.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "host/descriptor.h"
#include "host/root.h"

namespace host {

// glibc's syslog() waits when nobody reads /dev/log (it holds about eleven messages), which would hold the job. Here a
// line that cannot be taken at once is dropped and counted. Under a root /dev/log is the root's.
class SyslogSocket {
 public:
  enum class Severity { error = 3, warning = 4, info = 6, debug = 7 };

  SyslogSocket(const std::string& path, const Root& root, std::string tag);

  // "<14>May  4 06:08:10 TAG[PID]: text", facility user as logger's. Control characters and bytes that are no UTF-8 are
  // made visible; more than 8 KiB is cut.
  void send(Severity severity, std::string_view text);

  std::size_t dropped() const { return dropped_; }

 private:
  bool connect();
  bool send_once(const std::string& line);

  std::string path_;  // where the kernel finds it; empty: nowhere
  std::string tag_;
  Descriptor socket_;
  bool stream_ = false;
  std::size_t dropped_ = 0;
};

// The line alone, for a given time: what send() sends.
std::string syslog_line(SyslogSocket::Severity severity, std::chrono::system_clock::time_point when,
                        const std::string& tag, int pid, std::string_view text);

}  // namespace host
