#include "host/syslog_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/text.h"

namespace host {

namespace {

constexpr int facility_user = 1 << 3;
constexpr std::size_t text_cap = std::size_t{8} * 1024;

}  // namespace

std::string syslog_line(SyslogSocket::Severity severity, std::chrono::system_clock::time_point when,
                        const std::string& tag, int pid, std::string_view text) {
  static constexpr const char* months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm local{};
  localtime_r(&seconds, &local);
  char head[64];
  std::snprintf(head, sizeof head, "<%d>%s %2d %02d:%02d:%02d ", facility_user | static_cast<int>(severity),
                months[local.tm_mon % 12], local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec);
  return head + tag + "[" + std::to_string(pid) + "]: " + base::printable(text, text_cap);
}

SyslogSocket::SyslogSocket(const std::string& path, const Root& root, std::string tag) : tag_(std::move(tag)) {
  const auto located = root.locate(path, Root::LastLink::follow);
  if (located) path_ = *located;
}

bool SyslogSocket::connect() {
  if (path_.empty()) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A path longer than an address holds (a deep --root) is reached through its open folder.
  Descriptor folder;
  std::string name = path_;
  if (name.size() >= sizeof address.sun_path) {
    const std::size_t slash = path_.rfind('/');
    folder = Descriptor(open(path_.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder) return false;
    name = "/proc/self/fd/" + std::to_string(folder.get()) + path_.substr(slash);
    if (name.size() >= sizeof address.sun_path) return false;
  }
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  for (const int type : {SOCK_DGRAM, SOCK_STREAM}) {
    socket_ = Descriptor(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_) return false;
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      stream_ = type == SOCK_STREAM;
      return true;
    }
    if (errno != EPROTOTYPE) break;  // somebody listens there, but with streams
  }
  socket_.reset();
  return false;
}

bool SyslogSocket::send_once(const std::string& line) {
  if (!socket_ && !connect()) return false;
  const std::size_t length = line.size() + (stream_ ? 1 : 0);  // a zero byte ends a message in a stream
  ssize_t sent;
  do {
    sent = ::send(socket_.get(), line.c_str(), length, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(length)) return true;
  const bool full = sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EMSGSIZE);
  if (!full) socket_.reset();  // gone, or a stream with half a message in it: the next line begins anew
  return false;
}

void SyslogSocket::send(Severity severity, std::string_view text) {
  const std::string line = syslog_line(severity, std::chrono::system_clock::now(), tag_, getpid(), text);
  const bool was_connected = static_cast<bool>(socket_);
  if (send_once(line)) return;
  // A syslog daemon that was restarted has a new socket at the same path.
  if (was_connected && !socket_ && send_once(line)) return;
  ++dropped_;
}

}  // namespace host
