// Plain HTTP to one literal address: no proxy whatever the environment says, no redirects, no name look-up.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace host {

struct HttpRequest {
  std::string method;  // GET or PUT
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::chrono::milliseconds connect_limit{0};
  std::chrono::milliseconds limit{0};  // the whole call
  std::size_t body_cap = 0;            // more bytes than this is an error
};

struct HttpAnswer {
  long status = 0;
  std::string body;
};

class Http {
 public:
  virtual ~Http() = default;
  // Error: source (no answer, too long an answer) or time_out; the text names the URL and the cause.
  virtual base::Result<HttpAnswer> send(const HttpRequest& request) = 0;
};

}  // namespace host
