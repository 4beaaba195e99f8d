// A TCP server on loopback that does to each connection what the test says: slow, rude and endless answers too.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tests {

class Connection {
 public:
  Connection(int descriptor, const std::atomic<bool>& over) : descriptor_(descriptor), over_(over) {}

  // False once the client is gone or the test is over.
  bool say(const std::string& text) const {
    return !over_ && ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  bool pause(std::chrono::milliseconds duration) const {
    const auto end = std::chrono::steady_clock::now() + duration;
    while (!over_ && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return !over_;
  }
  // One request up to its empty line; empty when the client is gone.
  std::string request() {
    while (!over_) {
      if (const std::size_t end = seen_.find("\r\n\r\n"); end != std::string::npos) {
        const std::string one = seen_.substr(0, end + 4);
        seen_.erase(0, end + 4);
        return one;
      }
      pollfd watched{descriptor_, POLLIN, 0};
      if (poll(&watched, 1, 20) <= 0) continue;
      char buffer[4096];
      const ssize_t got = recv(descriptor_, buffer, sizeof buffer, 0);
      if (got <= 0) return "";
      seen_.append(buffer, static_cast<std::size_t>(got));
    }
    return "";
  }

 private:
  int descriptor_;
  const std::atomic<bool>& over_;
  std::string seen_;
};

class ScriptedServer {
 public:
  using Script = std::function<void(Connection&)>;

  ScriptedServer(int family, Script script) : script_(std::move(script)) {
    listener_ = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in6 address6{};
    sockaddr_in address4{};
    address6.sin6_family = AF_INET6;
    address6.sin6_addr = in6addr_loopback;
    address4.sin_family = AF_INET;
    address4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool six = family == AF_INET6;
    sockaddr* const address = six ? reinterpret_cast<sockaddr*>(&address6) : reinterpret_cast<sockaddr*>(&address4);
    socklen_t length = six ? sizeof address6 : sizeof address4;
    if (listener_ < 0 || bind(listener_, address, length) != 0 || listen(listener_, 16) != 0 ||
        getsockname(listener_, address, &length) != 0) {
      throw std::runtime_error("cannot listen on loopback");
    }
    port_ = ntohs(six ? address6.sin6_port : address4.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedServer() {
    over_ = true;
    thread_.join();
    close(listener_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  int port() const { return port_; }
  int connections() const { return connections_; }

 private:
  void serve() {
    while (!over_) {
      pollfd watched{listener_, POLLIN, 0};
      if (poll(&watched, 1, 20) <= 0) continue;
      const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor < 0) continue;
      ++connections_;
      Connection connection(descriptor, over_);
      script_(connection);
      close(descriptor);
    }
  }

  Script script_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> over_{false};
  std::atomic<int> connections_{0};
  std::thread thread_;
};

}  // namespace tests
