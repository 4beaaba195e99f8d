// Syslog daemons that read, that do not, that are gone and that come back.
#include "host/syslog_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "temporary_folder.h"

using host::Root;
using host::SyslogSocket;
using tests::TemporaryFolder;
using Severity = host::SyslogSocket::Severity;

namespace {

host::Descriptor listen_at(const std::string& path, int type) {
  host::Descriptor made(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) made.reset();
  if (made && type == SOCK_STREAM && listen(made.get(), 4) != 0) made.reset();
  return made;
}

// One message, at most 10 s waited for; empty: none.
std::string message_of(int from) {
  pollfd watched{from, POLLIN, 0};
  if (poll(&watched, 1, 10'000) <= 0) return "";
  char buffer[20'000];
  const ssize_t got = recv(from, buffer, sizeof buffer, 0);
  return got > 0 ? std::string(buffer, static_cast<std::size_t>(got)) : "";
}

}  // namespace

TEST_CASE("a line has priority, local time, tag and pid") {
  setenv("TZ", "UTC0", 1);
  tzset();
  const auto when = std::chrono::system_clock::from_time_t(1'777'874'890);  // 2026-05-04 06:08:10 UTC
  CHECK(host::syslog_line(Severity::info, when, "91_nvidia_imex_prolog", 42, "PROLOG Start JobId=7") ==
        "<14>May  4 06:08:10 91_nvidia_imex_prolog[42]: PROLOG Start JobId=7");
  CHECK(host::syslog_line(Severity::error, when, "t", 1, "x").starts_with("<11>"));
  CHECK(host::syslog_line(Severity::warning, when, "t", 1, "x").starts_with("<12>"));
  CHECK(host::syslog_line(Severity::debug, when, "t", 1, "x").starts_with("<15>"));
  CHECK(host::syslog_line(Severity::info, when, "t", 1, "a\n<11>forged\x1b[2J")
            .ends_with("t[1]: a\\x0a<11>forged\\x1b[2J"));
  CHECK(host::syslog_line(Severity::info, when, "t", 1, std::string(100'000, 'x')).size() < 9000);
  unsetenv("TZ");
  tzset();
}

TEST_CASE("a line reaches a daemon that reads") {
  const TemporaryFolder folder;
  const host::Descriptor daemon = listen_at(folder / "log", SOCK_DGRAM);
  REQUIRE(daemon);
  SyslogSocket syslog(folder / "log", Root(), "91_nvidia_imex_prolog");
  syslog.send(Severity::info, "PROLOG Start JobId=7");
  const std::string got = message_of(daemon.get());
  CHECK(got.starts_with("<14>"));
  CHECK(got.ends_with(" 91_nvidia_imex_prolog[" + std::to_string(getpid()) + "]: PROLOG Start JobId=7"));
  CHECK(syslog.dropped() == 0);
}

TEST_CASE("a socket that nobody reads never holds us, and what it does not take is counted") {
  const TemporaryFolder folder;
  const host::Descriptor daemon = listen_at(folder / "log", SOCK_DGRAM);
  SyslogSocket syslog(folder / "log", Root(), "t");
  for (int i = 0; i < 5000; ++i) syslog.send(Severity::info, "line " + std::to_string(i));
  CHECK(syslog.dropped() > 0);
  CHECK(syslog.dropped() < 5000);
  const std::size_t before = syslog.dropped();
  CHECK(message_of(daemon.get()).ends_with("line 0"));
  syslog.send(Severity::info, "room again");
  CHECK(syslog.dropped() == before);
}

TEST_CASE("no socket, or one with nobody behind it, costs lines and nothing else") {
  const TemporaryFolder folder;
  SyslogSocket missing(folder / "log", Root(), "t");
  missing.send(Severity::info, "x");
  CHECK(missing.dropped() == 1);
  { const host::Descriptor gone = listen_at(folder / "log", SOCK_DGRAM); }
  SyslogSocket refused(folder / "log", Root(), "t");
  refused.send(Severity::info, "x");
  CHECK(refused.dropped() == 1);
  folder.file("plain", "", 0644);
  SyslogSocket plain(folder / "plain", Root(), "t");
  plain.send(Severity::info, "x");
  CHECK(plain.dropped() == 1);
  CHECK(tests::content_of(folder / "plain").empty());
}

TEST_CASE("a daemon that comes late or was restarted gets the next line") {
  const TemporaryFolder folder;
  SyslogSocket syslog(folder / "log", Root(), "t");
  syslog.send(Severity::info, "too early");
  CHECK(syslog.dropped() == 1);
  {
    const host::Descriptor first = listen_at(folder / "log", SOCK_DGRAM);
    syslog.send(Severity::info, "one");
    CHECK(message_of(first.get()).ends_with(": one"));
  }
  unlink((folder / "log").c_str());
  const host::Descriptor second = listen_at(folder / "log", SOCK_DGRAM);
  syslog.send(Severity::info, "two");
  CHECK(message_of(second.get()).ends_with(": two"));
  CHECK(syslog.dropped() == 1);
}

TEST_CASE("a daemon that wants a stream gets one") {
  const TemporaryFolder folder;
  const host::Descriptor daemon = listen_at(folder / "log", SOCK_STREAM);
  SyslogSocket syslog(folder / "log", Root(), "t");
  syslog.send(Severity::info, "streamed");
  const host::Descriptor client(accept4(daemon.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::string got = message_of(client.get());
  CHECK(got.ends_with(std::string("streamed\0", 9)));
  CHECK(syslog.dropped() == 0);
}

TEST_CASE("under a root the root's socket is used, however long its path") {
  const TemporaryFolder folder;
  const std::string deep = folder / std::string(120, 'd');
  std::filesystem::create_directories(deep + "/dev");
  std::filesystem::create_directory_symlink(deep + "/dev", folder / "short");
  std::filesystem::create_symlink("/run/log", deep + "/dev/log");
  std::filesystem::create_directory(deep + "/run");
  std::filesystem::create_directory_symlink(deep + "/run", folder / "run");
  const host::Descriptor daemon = listen_at(folder / "run/log", SOCK_DGRAM);
  REQUIRE(daemon);
  SyslogSocket syslog("/dev/log", Root(deep), "t");
  syslog.send(Severity::info, "inside");
  CHECK(message_of(daemon.get()).ends_with(": inside"));
}
