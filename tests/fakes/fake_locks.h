// A lock that is free, or held by somebody for good.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fakes/fake_clock.h"
#include "host/locks.h"

namespace fakes {

class FakeLocks : public host::Locks {
 public:
  explicit FakeLocks(FakeClock& clock) : clock_(clock) {}

  base::Result<std::unique_ptr<host::Lock>> acquire(const std::string& path, const std::string& holder,
                                                    std::chrono::milliseconds limit) override {
    limits.push_back(limit);
    if (!held_by.empty()) {
      clock_.pass(limit);
      return base::Error{base::ExitCode::time_out, "the lock " + path + " is held by " + held_by,
                         "see what that process waits for"};
    }
    holders.push_back(holder);
    if (taken) taken();
    return std::unique_ptr<host::Lock>(std::make_unique<Held>(*this));
  }

  std::string holder(const std::string&) override { return held_by; }

  std::string held_by;  // empty: the lock is free
  std::vector<std::string> holders;
  std::vector<std::chrono::milliseconds> limits;
  std::function<void()> taken;  // what the world does the moment we have it
  std::function<void()> released;

 private:
  class Held : public host::Lock {
   public:
    explicit Held(FakeLocks& locks) : locks_(locks) {}
    ~Held() override {
      if (locks_.released) locks_.released();
    }

   private:
    FakeLocks& locks_;
  };

  FakeClock& clock_;
};

}  // namespace fakes
