#include "host/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>

namespace host {

namespace {

constexpr std::array stop_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};
constexpr std::array ignored_signals{SIGPIPE, SIGXFSZ};

static_assert(std::atomic<int>::is_always_lock_free, "a signal handler touches these");
std::atomic<int> first{0};
std::atomic<int> came{0};
std::atomic<int> acknowledged{0};
std::atomic<int> read_end{-1};
std::atomic<int> write_end{-1};

std::array<struct sigaction, stop_signals.size() + ignored_signals.size()> former;

extern "C" void note_stop_signal(int number) {
  const int kept = errno;
  int none = 0;
  first.compare_exchange_strong(none, number);
  came.fetch_add(1);
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(write_end.load(), &byte, 1);  // full: readable all the same
  errno = kept;
}

}  // namespace

void catch_stop_signals() {
  if (read_end.load() >= 0) return;
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) ends[0] = ends[1] = -1;  // signals still count, waits end a bit later
  read_end = ends[0];
  write_end = ends[1];
  std::size_t at = 0;
  for (const int number : stop_signals) {
    struct sigaction& old = former[at++];
    sigaction(number, nullptr, &old);
    if (old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = note_stop_signal;
    sigfillset(&action.sa_mask);
    action.sa_flags = SA_RESTART;  // waits that must end watch stop_fd(); nothing else is to see EINTR
    sigaction(number, &action, nullptr);
  }
  for (const int number : ignored_signals) {
    struct sigaction action {};
    action.sa_handler = SIG_IGN;
    sigaction(number, &action, &former[at++]);
  }
}

int stop_signal() { return first.load(); }

bool stopping() { return came.load() > acknowledged.load(); }

bool stopping_at_once() { return came.load() > acknowledged.load() + 1; }

void acknowledge_stop_signal() {
  acknowledged = came.load();  // first: a signal that comes during the draining counts, and every wait asks stopping()
  char drained[64];
  while (read(read_end.load(), drained, sizeof drained) > 0) {
  }
}

int stop_fd() { return read_end.load(); }

void release_stop_signals() {
  if (read_end.load() < 0) return;
  std::size_t at = 0;
  for (const int number : stop_signals) sigaction(number, &former[at++], nullptr);
  for (const int number : ignored_signals) sigaction(number, &former[at++], nullptr);
  close(read_end.exchange(-1));
  close(write_end.exchange(-1));
  first = came = acknowledged = 0;
}

}  // namespace host
