// A lock between gpu-prolog runs on one node.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"

namespace host {

class Lock {
 public:
  virtual ~Lock() = default;  // released here, and by the kernel if we are killed
};

inline std::string describe(const std::unique_ptr<Lock>&) { return "held"; }

class Locks {
 public:
  virtual ~Locks() = default;
  // Waits at most `limit`. `holder` (one line: command, job, pid) is written into the file for whoever
  // waits. Error: time_out naming the present holder; surroundings when the file cannot be made; a stop
  // signal ends the wait with time_out too.
  virtual base::Result<std::unique_ptr<Lock>> acquire(const std::string& path, const std::string& holder,
                                                      std::chrono::milliseconds limit) = 0;
  // Who holds it at this moment, for whoever only looks: nothing is made or waited for. Empty: nobody, or a file that
  // we may not open.
  virtual std::string holder(const std::string& path) = 0;
};

}  // namespace host
