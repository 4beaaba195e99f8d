// A log file that can never hold up, fail or mislead a run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "host/descriptor.h"
#include "host/root.h"

namespace host {

// Appends lines to a regular file with one name. A link, a FIFO, a device, a file with a second name or another user's
// is not written to; neither is a folder made. What goes wrong is told once by take_problem() and then forgotten.
class LogFile {
 public:
  LogFile() = default;  // writes nowhere
  static LogFile open(const std::string& path,
                      const Root& root);  // made with mode 0644, as the script's was: filters read it

  // One write for a line, so that lines of runs at the same time do not mix. A missing '\n' is added; control
  // characters and bytes that are no UTF-8 are made visible.
  void write(std::string_view line);

  // "cannot write to the log /var/log/x: no space left on device", the first time it is asked after the first problem.
  std::optional<std::string> take_problem();

 private:
  void fail(const std::string& problem);

  std::string path_;
  Descriptor file_;
  bool torn_ = false;  // the last line is not whole: the next one begins a new line
  bool failed_ = false;
  std::optional<std::string> problem_;
};

}  // namespace host
