// A queue of answers; a call that nobody set up is an exception that shows it.
#pragma once

#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "fakes/fake_clock.h"
#include "host/http.h"

namespace fakes {

class FakeHttp : public host::Http {
 public:
  explicit FakeHttp(FakeClock& clock) : clock_(clock) {}

  FakeHttp& answer(long status, const std::string& body) {
    answers_.emplace_back(host::HttpAnswer{status, body});
    return *this;
  }
  FakeHttp& hang() {
    answers_.emplace_back(base::Error{base::ExitCode::time_out, "no answer within the limit", ""});
    return *this;
  }
  FakeHttp& fail(const std::string& what) {
    answers_.emplace_back(base::Error{base::ExitCode::source, what, ""});
    return *this;
  }

  base::Result<host::HttpAnswer> send(const host::HttpRequest& request) override {
    calls.push_back(request);
    if (answers_.empty()) throw std::logic_error("FakeHttp: nobody set up: " + request.method + " " + request.url);
    base::Result<host::HttpAnswer> answer = answers_.front();
    answers_.pop_front();
    if (!answer && answer.error().code == base::ExitCode::time_out) clock_.pass(request.limit);
    return answer;
  }

  std::vector<host::HttpRequest> calls;

 private:
  FakeClock& clock_;
  std::deque<base::Result<host::HttpAnswer>> answers_;
};

}  // namespace fakes
