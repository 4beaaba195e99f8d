#include "host/curl_http.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <memory>

#include "base/build_info.h"
#include "base/duration.h"
#include "base/text.h"
#include "host/interrupt.h"
#include "host/os_error.h"

namespace host {

namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t header_cap = std::size_t{16} * 1024;  // IMDS sends about 300 bytes
constexpr milliseconds grace{200};                          // for curl's own limit to be told before ours ends the call

static_assert(LIBCURL_VERSION_NUM >= 0x075500, "CURLOPT_PROTOCOLS_STR is from 7.85");

struct Transfer {
  std::string body;
  std::size_t body_cap = 0;
  std::size_t header_bytes = 0;
  bool body_too_long = false;
  bool headers_too_long = false;
};

extern "C" std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  const std::size_t length = size * count;
  if (length > transfer.body_cap - transfer.body.size()) {
    transfer.body_too_long = true;
    return CURL_WRITEFUNC_ERROR;
  }
  transfer.body.append(bytes, length);
  return length;
}

extern "C" std::size_t take_header(char*, std::size_t size, std::size_t count, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  transfer.header_bytes += size * count;
  if (transfer.header_bytes <= header_cap) return size * count;
  transfer.headers_too_long = true;
  return CURL_WRITEFUNC_ERROR;
}

extern "C" std::size_t give_nothing(char*, std::size_t, std::size_t, void*) { return 0; }

std::string url_part(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return "";
  std::string found = text;
  curl_free(text);
  return found;
}

// Empty: the URL may be asked.
std::string refusal(const std::string& text) {
  if (text.find('\0') != std::string::npos) return "it holds a zero byte";
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), &curl_url_cleanup);
  if (url == nullptr || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    return "it is no URL";
  }
  if (url_part(url.get(), CURLUPART_SCHEME) != "http") return "only http:// is used here";
  if (!url_part(url.get(), CURLUPART_USER).empty() || !url_part(url.get(), CURLUPART_PASSWORD).empty()) {
    return "it holds a user name";
  }
  std::string host = url_part(url.get(), CURLUPART_HOST);
  if (host == "localhost") return "";
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  unsigned char address[sizeof(in6_addr)];
  if (inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1) return "";
  return "its host is no IP address (names are not looked up)";
}

std::string cause(CURLcode code, CURL* easy, const Transfer& transfer, const HttpRequest& request) {
  if (transfer.body_too_long) return "the answer is larger than " + std::to_string(transfer.body_cap) + " bytes";
  if (transfer.headers_too_long) return "the answer's headers are larger than " + std::to_string(header_cap) + " bytes";
  switch (code) {
    case CURLE_COULDNT_CONNECT: {
      long os_error = 0;
      curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_error);
      return os_error == 0 ? "no connection" : os_words(static_cast<int>(os_error));
    }
    case CURLE_OPERATION_TIMEDOUT: {
      curl_off_t connected = 0;
      curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME_T, &connected);
      if (connected > 0) return "no whole answer within " + base::show_duration(request.limit);
      return "no connection within " + base::show_duration(std::min(request.connect_limit, request.limit));
    }
    case CURLE_FILESIZE_EXCEEDED: return "the answer is larger than " + std::to_string(transfer.body_cap) + " bytes";
    case CURLE_GOT_NOTHING: return "the connection was closed without an answer";
    case CURLE_PARTIAL_FILE: return "the answer was cut short";
    case CURLE_RECV_ERROR: return "the connection broke while the answer was read";
    case CURLE_SEND_ERROR: return "the connection broke while the request was sent";
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY: return "the answer is no HTTP";
    case CURLE_TOO_LARGE: return "the answer's headers are too large";
    default: return curl_easy_strerror(code);
  }
}

// curl counts 0 as "no limit".
long limit_of(milliseconds limit) { return static_cast<long>(std::clamp<long long>(limit.count(), 1, LONG_MAX)); }

}  // namespace

CurlHttp::CurlHttp() = default;

CurlHttp::~CurlHttp() {
  if (easy_ != nullptr) curl_easy_cleanup(easy_);
  if (multi_ != nullptr) curl_multi_cleanup(static_cast<CURLM*>(multi_));
}

bool CurlHttp::prepare() {
  static const bool initialised = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  if (!initialised) return false;
  if (multi_ == nullptr) multi_ = curl_multi_init();
  if (easy_ == nullptr) easy_ = curl_easy_init();
  return multi_ != nullptr && easy_ != nullptr;
}

base::Result<HttpAnswer> CurlHttp::send(const HttpRequest& request) {
  using base::ExitCode;
  const std::string what = "cannot " + request.method + " " + base::printable(request.url);
  const auto fail = [&](ExitCode code, const std::string& why) { return base::Error{code, what + ": " + why, ""}; };
  if (const std::string wrong = refusal(request.url); !wrong.empty()) return fail(ExitCode::source, wrong);
  if (request.method != "GET" && request.method != "PUT") return fail(ExitCode::bug, "only GET and PUT are known");
  if (stopping()) return fail(ExitCode::time_out, "gpu-prolog was told to stop");
  if (request.limit <= milliseconds::zero()) return fail(ExitCode::time_out, "no time is left for it");
  if (!prepare()) return fail(ExitCode::bug, "libcurl does not start");

  CURL* const easy = easy_;
  CURLM* const multi = static_cast<CURLM*>(multi_);
  Transfer transfer;
  transfer.body_cap = request.body_cap;

  const auto append = [](curl_slist* list, const std::string& line) { return curl_slist_append(list, line.c_str()); };
  curl_slist* lines = append(nullptr, "Expect:");
  for (const std::string& header : request.headers) lines = append(lines, header);
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(lines, &curl_slist_free_all);

  curl_easy_reset(easy);
  CURLcode set = CURLE_OK;
  const auto option = [&](CURLoption name, auto value) {
    if (set == CURLE_OK) set = curl_easy_setopt(easy, name, value);
  };
  const std::string agent = "gpu-prolog/" + std::string(base::build_info().version);
  option(CURLOPT_URL, request.url.c_str());
  option(CURLOPT_HTTPHEADER, headers.get());
  option(CURLOPT_USERAGENT, agent.c_str());
  option(CURLOPT_PROTOCOLS_STR, "http");
  option(CURLOPT_PROXY, "");     // else http_proxy of the environment applies
  option(CURLOPT_NOPROXY, "*");  // else NO_PROXY and ALL_PROXY are read
  option(CURLOPT_FOLLOWLOCATION, 0L);
  option(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  option(CURLOPT_HTTP09_ALLOWED, 0L);
  option(CURLOPT_NOSIGNAL, 1L);
  option(CURLOPT_CONNECTTIMEOUT_MS, limit_of(std::min(request.connect_limit, request.limit)));
  option(CURLOPT_TIMEOUT_MS, limit_of(request.limit));
  option(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(std::max<std::size_t>(request.body_cap, 1)));
  option(CURLOPT_WRITEFUNCTION, &take_body);
  option(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  option(CURLOPT_HEADERFUNCTION, &take_header);
  option(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  option(CURLOPT_READFUNCTION, &give_nothing);
  if (request.method == "PUT") {  // an empty body, said so by Content-Length: 0
    option(CURLOPT_UPLOAD, 1L);
    option(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(0));
  } else {
    option(CURLOPT_HTTPGET, 1L);
  }
  if (set != CURLE_OK) return fail(ExitCode::bug, std::string("libcurl refuses an option: ") + curl_easy_strerror(set));
  if (const CURLMcode added = curl_multi_add_handle(multi, easy); added != CURLM_OK) {
    return fail(ExitCode::bug, std::string("libcurl refuses the call: ") + curl_multi_strerror(added));
  }
  struct Removal {
    CURLM* multi;
    CURL* easy;
    ~Removal() { curl_multi_remove_handle(multi, easy); }
  } const removal{multi, easy};

  const auto end = SteadyClock::now() + request.limit + grace;
  for (;;) {
    int running = 0;
    const CURLMcode performed = curl_multi_perform(multi, &running);
    if (performed != CURLM_OK) return fail(ExitCode::source, curl_multi_strerror(performed));
    if (running == 0) break;
    if (stopping()) return fail(ExitCode::time_out, "gpu-prolog was told to stop");
    const auto left = std::chrono::ceil<milliseconds>(end - SteadyClock::now());
    if (left <= milliseconds::zero()) {
      return fail(ExitCode::time_out, "no whole answer within " + base::show_duration(request.limit));
    }
    curl_waitfd stop{};
    stop.fd = stop_fd();
    stop.events = CURL_WAIT_POLLIN;
    const unsigned extra = stop.fd >= 0 ? 1 : 0;
    curl_multi_poll(multi, &stop, extra, static_cast<int>(std::min<long long>(left.count(), INT_MAX)), nullptr);
  }

  CURLcode code = CURLE_OK;
  int rest = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi, &rest)) {
    if (message->msg == CURLMSG_DONE && message->easy_handle == easy) code = message->data.result;
  }
  if (code != CURLE_OK) {
    const bool late = code == CURLE_OPERATION_TIMEDOUT;
    return fail(late ? ExitCode::time_out : ExitCode::source, cause(code, easy, transfer, request));
  }
  HttpAnswer answer;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer.status);
  answer.body = std::move(transfer.body);
  return answer;
}

}  // namespace host
