// HTTP by libcurl, with everything that the environment, a server or a name service could add switched off.
#pragma once

#include <string>

#include "host/http.h"

namespace host {

// What http.h promises; further: only http:// to an IP literal or localhost, no user name in the URL, no cookies, no
// HTTP/0.9, at most 16 KiB of headers, and a stop signal ends a call (time_out). The connection is kept for the next
// call to the same server.
class CurlHttp : public Http {
 public:
  CurlHttp();
  ~CurlHttp() override;
  CurlHttp(const CurlHttp&) = delete;
  CurlHttp& operator=(const CurlHttp&) = delete;

  base::Result<HttpAnswer> send(const HttpRequest& request) override;

 private:
  bool prepare();

  // CURL and CURLM, which curl defines as void; made at the first call, so that a run that asks nothing pays nothing.
  void* easy_ = nullptr;
  void* multi_ = nullptr;
};

}  // namespace host
