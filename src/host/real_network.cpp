#include "host/real_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <vector>

#include "base/text.h"
#include "host/descriptor.h"
#include "host/os_error.h"

namespace host {

namespace {

// 0: no such socket, 1: there is one, negative: -errno. Read in pieces, since a busy node has a long list; the kernel
// tells the listening ones first.
int search_table(const char* table, unsigned port) {
  const Descriptor file(open(table, O_RDONLY | O_CLOEXEC));
  if (!file) return -errno;
  std::string rest;
  std::vector<char> buffer(65'536);  // not on the stack, whose limit may be small
  for (;;) {
    const ssize_t got = read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) return is_listening_line(rest, port) ? 1 : 0;
    rest.append(buffer.data(), static_cast<std::size_t>(got));
    std::string_view left = rest;
    for (std::size_t end; (end = left.find('\n')) != std::string_view::npos; left.remove_prefix(end + 1)) {
      if (is_listening_line(left.substr(0, end), port)) return 1;
    }
    rest.erase(0, rest.size() - left.size());
  }
}

}  // namespace

bool is_listening_line(std::string_view line, unsigned port) {
  // "  0: 0100007F:C350 00000000:0000 0A ...": slot, local address and port, remote ones, state (0A: listening)
  const auto fields = base::words(line);
  if (fields.size() < 4 || fields[3] != "0A") return false;
  const std::string_view local = fields[1];
  const std::size_t colon = local.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view digits = local.substr(colon + 1);
  unsigned found = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), found, 16);
  return error == std::errc{} && end == digits.data() + digits.size() && found == port;
}

base::Result<std::vector<std::string>> RealNetwork::own_addresses() const {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) {
    return os_failure(base::ExitCode::surroundings, "cannot ask the kernel for this node's addresses", errno);
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, &freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN];
    const char* written = nullptr;
    if (one->ifa_addr->sa_family == AF_INET) {
      written = inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text, sizeof text);
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      written =
          inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr, text, sizeof text);
    }
    if (written != nullptr && std::find(addresses.begin(), addresses.end(), text) == addresses.end()) {
      addresses.emplace_back(text);
    }
  }
  return addresses;
}

base::Result<bool> RealNetwork::listening(unsigned port) const {
  const int four = search_table("/proc/net/tcp", port);
  if (four == 1) return true;
  const int six = search_table("/proc/net/tcp6", port);  // not there where IPv6 is off
  if (six == 1) return true;
  if (four < 0) return os_failure(base::ExitCode::surroundings, "cannot read /proc/net/tcp", -four);
  if (six < 0 && six != -ENOENT) return os_failure(base::ExitCode::surroundings, "cannot read /proc/net/tcp6", -six);
  return false;
}

}  // namespace host
