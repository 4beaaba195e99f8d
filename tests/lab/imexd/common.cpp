#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include "imexd.hpp"

namespace imexd {

namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) {
    return "";
  }
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

void take_pair(const std::string& line, std::map<std::string, std::string>& values) {
  const std::string text = trimmed(line);
  const auto equals = text.find('=');
  if (text.empty() || text[0] == '#' || equals == std::string::npos) {
    return;
  }
  values[trimmed(text.substr(0, equals))] = trimmed(text.substr(equals + 1));
}

bool read_pairs(const std::string& file, std::map<std::string, std::string>& values) {
  std::ifstream in(file);
  if (!in) {
    return false;
  }
  for (std::string line; std::getline(in, line);) {
    take_pair(line, values);
  }
  return true;
}

std::string from_hosts(const std::string& name) {
  std::ifstream in("/etc/hosts");
  for (std::string line; std::getline(in, line);) {
    const auto parts = words(line.substr(0, line.find('#')));
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (parts[i] == name) {
        return parts[0];
      }
    }
  }
  return "";
}

std::string canonical(const std::string& text) {
  unsigned char raw[sizeof(in6_addr)];
  char out[INET6_ADDRSTRLEN];
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, text.c_str(), raw) == 1 && inet_ntop(family, raw, out, sizeof(out)) != nullptr) {
      return out;
    }
  }
  return "";
}

}  // namespace

std::string Settings::text(const std::string& key, const std::string& fallback) const {
  const auto found = values.find(key);
  return found == values.end() ? fallback : found->second;
}
bool Settings::flag(const std::string& key) const {
  const std::string value = text(key, "0");
  return !value.empty() && value != "0";
}
double Settings::number(const std::string& key, double fallback) const {
  const std::string value = text(key, "");
  return value.empty() ? fallback : std::atof(value.c_str());
}
double Settings::scale() const { return number("time_scale", 1.0); }
double Settings::seconds(const std::string& key, double fallback) const { return number(key, fallback) * scale(); }

std::string Config::text(const std::string& key, const std::string& fallback) const {
  const auto found = values.find(key);
  return found == values.end() || found->second.empty() ? fallback : found->second;
}
int Config::number(const std::string& key, int fallback) const {
  const std::string value = text(key, "");
  return value.empty() ? fallback : std::atoi(value.c_str());
}
std::string Config::node_file() const { return text("IMEX_NODE_CONFIG_FILE", "/etc/nvidia-imex/nodes_config.cfg"); }
int Config::server_port() const { return number("SERVER_PORT", 50000); }
int Config::command_port() const { return number("IMEX_CMD_PORT", 50005); }
bool Config::command_enabled() const { return number("IMEX_CMD_ENABLED", 1) != 0; }

Settings read_settings() {
  Settings settings;
  const char* file = std::getenv("IMEX_LAB_FILE");
  read_pairs(file != nullptr ? file : "/etc/nvidia-imex/lab.cfg", settings.values);
  if (const char* scale = std::getenv("IMEX_TIME_SCALE")) {
    settings.values["time_scale"] = scale;
  }
  if (const char* folder = std::getenv("IMEX_RUN_DIR")) {
    settings.values["run_dir"] = folder;
  }
  if (const char* faults = std::getenv("IMEX_FAULTS")) {
    std::istringstream in(faults);
    for (std::string pair; std::getline(in, pair, ',');) {
      take_pair(pair, settings.values);
    }
  }
  return settings;
}

bool read_config(const std::string& file, Config& config) {
  config.file = file;
  return read_pairs(file, config.values);
}

bool read_node_list(const std::string& file, NodeList& list) {
  std::ifstream in(file);
  if (!in) {
    return false;
  }
  for (std::string line; std::getline(in, line);) {
    const std::string entry = trimmed(line);
    if (entry.empty() || entry[0] == '#') {
      continue;
    }
    std::string address = canonical(entry);
    if (address.empty()) {
      address = canonical(from_hosts(entry));
    }
    list.entries.push_back(entry);
    list.addresses.push_back(address);
  }
  return true;
}

std::uint64_t identity(const NodeList& list) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const auto& entry : list.entries) {
    for (const char c : entry + "\n") {
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    }
  }
  return hash;
}

std::string hex(std::uint64_t value) {
  char out[17];
  std::snprintf(out, sizeof(out), "%016llx", static_cast<unsigned long long>(value));
  return out;
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> result;
  for (std::string word; in >> word;) {
    result.push_back(word);
  }
  return result;
}

double monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string stamp() {
  timeval now{};
  gettimeofday(&now, nullptr);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  char out[64];
  std::snprintf(out, sizeof(out), "%d/%d/%d %02d:%02d:%02d.%03d", local.tm_mon + 1, local.tm_mday, local.tm_year + 1900,
                local.tm_hour, local.tm_min, local.tm_sec, static_cast<int>(now.tv_usec / 1000));
  return out;
}

std::string default_version() { return "570.172"; }

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

namespace {

socklen_t fill(const std::string& address, int port, sockaddr_storage& out) {
  std::memset(&out, 0, sizeof(out));
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out);
  if (inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<std::uint16_t>(port));
    return sizeof(*v4);
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out);
  if (inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<std::uint16_t>(port));
    return sizeof(*v6);
  }
  return 0;
}

bool fill_path(const std::string& path, sockaddr_un& out) {
  std::memset(&out, 0, sizeof(out));
  out.sun_family = AF_UNIX;
  if (path.size() >= sizeof(out.sun_path)) {
    return false;
  }
  std::memcpy(out.sun_path, path.c_str(), path.size());
  return true;
}

}  // namespace

int tcp_listen(const std::string& address, int port) {
  sockaddr_storage where{};
  const socklen_t size = fill(address, port, where);
  if (size == 0) {
    errno = EINVAL;
    return -1;
  }
  const int fd = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, reinterpret_cast<sockaddr*>(&where), size) != 0 || listen(fd, 128) != 0) {
    const int kept = errno;
    close(fd);
    errno = kept;
    return -1;
  }
  return fd;
}

int tcp_connect(const std::string& address, int port, const std::string& from) {
  sockaddr_storage where{};
  const socklen_t size = fill(address, port, where);
  if (size == 0) {
    errno = EINVAL;
    return -1;
  }
  const int fd = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_storage source{};
  const socklen_t source_size = from.empty() ? 0 : fill(from, 0, source);
  if ((source_size != 0 && bind(fd, reinterpret_cast<sockaddr*>(&source), source_size) != 0) ||
      (connect(fd, reinterpret_cast<sockaddr*>(&where), size) != 0 && errno != EINPROGRESS)) {
    const int kept = errno;
    close(fd);
    errno = kept;
    return -1;
  }
  return fd;
}

int unix_listen(const std::string& path) {
  sockaddr_un where{};
  if (!fill_path(path, where)) {
    return -1;
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  unlink(path.c_str());
  if (bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof(where)) != 0 || listen(fd, 64) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

int unix_connect(const std::string& path) {
  sockaddr_un where{};
  if (!fill_path(path, where)) {
    return -1;
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof(where)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

}  // namespace imexd
