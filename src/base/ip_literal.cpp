#include "base/ip_literal.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace base {

namespace {

// inet_pton reads up to a NUL: what stands behind one must not pass unseen.
bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

}  // namespace

bool is_ipv4_literal(std::string_view text) {
  in_addr four{};
  return !has_nul(text) && text.size() < INET_ADDRSTRLEN && inet_pton(AF_INET, std::string(text).c_str(), &four) == 1;
}

bool is_ipv6_literal(std::string_view text) {
  in6_addr six{};
  return !has_nul(text) && text.size() < INET6_ADDRSTRLEN && inet_pton(AF_INET6, std::string(text).c_str(), &six) == 1;
}

std::optional<std::string> canonical_address(std::string_view text) {
  char shown[INET6_ADDRSTRLEN];
  in_addr four{};
  if (is_ipv4_literal(text)) {
    inet_pton(AF_INET, std::string(text).c_str(), &four);
    return std::string(inet_ntop(AF_INET, &four, shown, sizeof shown));
  }
  if (!is_ipv6_literal(text)) return std::nullopt;
  in6_addr six{};
  inet_pton(AF_INET6, std::string(text).c_str(), &six);
  if (IN6_IS_ADDR_V4MAPPED(&six)) {
    std::memcpy(&four, &six.s6_addr[12], sizeof four);
    return std::string(inet_ntop(AF_INET, &four, shown, sizeof shown));
  }
  return std::string(inet_ntop(AF_INET6, &six, shown, sizeof shown));
}

}  // namespace base
