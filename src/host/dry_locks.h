// A dry run takes no lock: it changes nothing that a lock would guard, and must not hold up a run that does.
#pragma once

#include "host/locks.h"

namespace host {

class DryLocks : public Locks {
 public:
  base::Result<std::unique_ptr<Lock>> acquire(const std::string&, const std::string&,
                                              std::chrono::milliseconds) override {
    return std::unique_ptr<Lock>(std::make_unique<NoLock>());
  }

  std::string holder(const std::string&) override { return ""; }

 private:
  class NoLock : public Lock {};
};

}  // namespace host
