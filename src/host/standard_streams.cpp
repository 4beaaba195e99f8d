#include "host/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace host {

namespace {

constexpr int longest_stall_ms = 1000;

}  // namespace

void open_missing_standard_streams() {
  for (int number = 0; number <= 2; ++number) {
    if (fcntl(number, F_GETFD) >= 0) continue;
    int opened = open("/dev/null", O_RDWR);
    if (opened < 0) opened = open("/", O_PATH | O_DIRECTORY);  // holds the number; reads and writes fail
    if (opened >= 0 && opened != number) {  // a lower number is free only if another thread closed it
      dup2(opened, number);
      close(opened);
    }
  }
}

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

std::optional<unsigned> terminal_width(int descriptor) {
  winsize size{};
  if (!is_terminal(descriptor) || ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

bool write_to(int descriptor, std::string_view text) {
  while (!text.empty()) {
    // Asked first: the descriptor is shared with whoever started us, so that it must not be made non-blocking.
    pollfd watched{descriptor, POLLOUT, 0};
    const int ready = poll(&watched, 1, longest_stall_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    // POSIX promises that a pipe that poll calls writable takes PIPE_BUF (4096) bytes without waiting.
    const ssize_t put = write(descriptor, text.data(), text.size() < 4096 ? text.size() : 4096);
    if (put < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (put < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace host
