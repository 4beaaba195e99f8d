#include "ec2/instance_type.h"

#include <algorithm>

#include "base/ip_literal.h"
#include "base/text.h"
#include "site/site.h"

namespace ec2 {

namespace {

using namespace std::chrono_literals;

constexpr std::string_view token_path = "/latest/api/token";
constexpr std::string_view type_path = "/latest/meta-data/instance-type";

// What a call's answer means for the next one.
enum class Next { use, try_again, give_up };

Next judge(long status) {
  if (status == 200) return Next::use;
  // 400, 403, 404: the service has been told off or has no such value; asking again changes nothing. 401: the
  // token went stale; 5xx and 429: it is busy.
  return status == 401 || status == 429 || status >= 500 ? Next::try_again : Next::give_up;
}

struct Call {
  Next next = Next::give_up;
  std::string value;
  std::string why;
};

Call call(host::Http& http, const host::Deadline& deadline, const std::string& method, const std::string& url,
          const std::string& header) {
  host::HttpRequest request;
  request.method = method;
  request.url = url;
  request.headers = {header};
  request.connect_limit = deadline.limit(site::imds_connect_limit);
  request.limit = deadline.limit(site::imds_call_limit);
  request.body_cap = site::imds_body_cap;
  const auto answer = http.send(request);
  if (!answer) return {Next::try_again, "", answer.error().what};
  return {judge(answer->status), std::string(base::trim(answer->body)),
          method + " " + url + " answered " + std::to_string(answer->status)};
}

bool is_token(std::string_view text) {
  if (text.empty() || text.size() > 1024) return false;
  for (const char c : text) {
    if (c <= ' ' || c > '~') return false;  // it goes into a header line
  }
  return true;
}

Call ask_once(host::Http& http, const host::Deadline& deadline, const std::string& endpoint) {
  Call token =
      call(http, deadline, "PUT", endpoint + std::string(token_path), "X-aws-ec2-metadata-token-ttl-seconds: 21600");
  if (token.next != Next::use) return token;
  if (!is_token(token.value)) return {Next::give_up, "", "IMDS answered with something that is no token"};
  if (deadline.over()) return {Next::give_up, "", "no time left to ask IMDS"};
  Call type =
      call(http, deadline, "GET", endpoint + std::string(type_path), "X-aws-ec2-metadata-token: " + token.value);
  if (type.next != Next::use) return type;
  if (!looks_like_type(type.value)) {
    return {Next::give_up, "", "IMDS answered '" + base::printable(type.value, 60) + "', which is no instance type"};
  }
  return type;
}

}  // namespace

bool looks_like_type(std::string_view text) {
  if (text.size() < 4 || text.size() > 64) return false;
  std::size_t dots = 0;
  for (const char c : text) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    if (!fits) return false;
    if (c == '.') ++dots;
  }
  return dots == 1 && text.front() != '.' && text.front() != '-' && text.back() != '.' && text.back() != '-';
}

std::optional<std::string> acceptable_endpoint(std::string_view text) {
  constexpr std::string_view scheme = "http://";
  if (!base::equals_ignoring_case(text.substr(0, scheme.size()), scheme)) return std::nullopt;
  std::string_view rest = text.substr(scheme.size());
  while (rest.ends_with('/')) rest.remove_suffix(1);
  std::string host;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    if (!base::is_ipv6_literal(rest.substr(1, end - 1))) return std::nullopt;
    host = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
  } else {
    const std::size_t end = rest.find(':');
    host = rest.substr(0, end);
    if (base::equals_ignoring_case(host, "localhost")) host = "127.0.0.1";
    if (!base::is_ipv4_literal(host)) return std::nullopt;
    rest.remove_prefix(std::min(end, rest.size()));
  }
  if (rest.empty()) return std::string(scheme) + host;
  if (!rest.starts_with(':')) return std::nullopt;
  const auto port = base::parse_number(rest.substr(1));
  if (!port || *port == 0 || *port > 65'535) return std::nullopt;
  return std::string(scheme) + host + ":" + std::to_string(*port);
}

std::optional<std::string> imds_endpoint(const host::Environment& environment, bool has_root, host::Log& log) {
  const auto asked = environment.get(std::string(site::imds_endpoint_variable));
  if (asked && !asked->empty()) {
    if (auto endpoint = acceptable_endpoint(*asked)) return endpoint;
    log.warn(std::string(site::imds_endpoint_variable) + "=" + base::printable(*asked) +
             " is not used: it must be http:// with an IP address or localhost");
  }
  if (has_root) return std::nullopt;
  return std::string(site::imds_endpoint);
}

InstanceType find_instance_type(host::Http& http, host::Clock& clock, const host::Files& files, host::Log& log,
                                const std::optional<std::string>& endpoint, host::milliseconds limit) {
  std::string why = "IMDS is not asked under --root";
  if (endpoint) {
    log.debug("asking " + *endpoint + " for the instance type");
    const host::Deadline deadline(clock, limit);
    for (int attempt = 1; attempt <= site::imds_tries; ++attempt) {
      const Call asked = ask_once(http, deadline, *endpoint);
      if (asked.next == Next::use) return {asked.value, "IMDS"};
      why = asked.why;
      if (asked.next == Next::give_up || deadline.over() || attempt == site::imds_tries) break;
      if (!clock.sleep(deadline.limit(200ms))) break;
      if (deadline.over()) break;
    }
    log.debug("no instance type from IMDS: " + why);
  }
  const auto product = files.read(std::string(site::dmi_product_name), 4096);
  if (!product) return {"", why + "; " + product.error().what};
  const std::string name(base::trim(*product));
  if (looks_like_type(name)) return {name, "DMI"};
  return {"", why + "; DMI product name '" + base::printable(name, 60) + "' is no instance type"};
}

std::optional<std::string> supported_by(const std::string& type, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (!prefix.empty() && type.starts_with(prefix)) return prefix;
  }
  return std::nullopt;
}

}  // namespace ec2
