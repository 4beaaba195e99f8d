// flock on a file of root's: the kernel releases it whatever becomes of us.
#pragma once

#include "host/clock.h"
#include "host/locks.h"
#include "host/root.h"

namespace host {

// What locks.h promises; further: the lock file's folder is made with mode 0755 where it is missing (its own folder
// must exist). A folder or lock file that is a link, belongs to another user or can be written by others is refused:
// who can put a file there could hold the lock for ever. Lock files are never removed.
class RealLocks : public Locks {
 public:
  RealLocks(Clock& clock, Root root) : clock_(clock), root_(std::move(root)) {}

  base::Result<std::unique_ptr<Lock>> acquire(const std::string& path, const std::string& holder,
                                              milliseconds limit) override;
  std::string holder(const std::string& path) override;

 private:
  Clock& clock_;
  Root root_;
};

}  // namespace host
