#include "host/real_network.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "host/descriptor.h"
#include "scripted_server.h"

using host::RealNetwork;

TEST_CASE("loopback is among the own addresses, canonical and without doubles or zones") {
  const auto addresses = RealNetwork().own_addresses();
  REQUIRE(addresses);
  CHECK(std::count(addresses->begin(), addresses->end(), "127.0.0.1") == 1);
  for (const std::string& address : *addresses) {
    unsigned char bytes[16];
    const int family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
    CHECK(inet_pton(family, address.c_str(), bytes) == 1);
    CHECK(std::count(addresses->begin(), addresses->end(), address) == 1);
  }
}

TEST_CASE("addresses of an interface that is down do not count") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // In a network namespace of its own lo begins down; giving it an address and no more leaves it so.
    if (unshare(CLONE_NEWNET) != 0) _exit(2);
    const host::Descriptor any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    request.ifr_name[0] = 'l';
    request.ifr_name[1] = 'o';
    auto& address = reinterpret_cast<sockaddr_in&>(request.ifr_addr);
    address.sin_family = AF_INET;
    inet_pton(AF_INET, "10.1.2.3", &address.sin_addr);
    ioctl(any.get(), SIOCSIFADDR, &request);
    request.ifr_flags = 0;
    if (ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) _exit(3);
    const auto down = RealNetwork().own_addresses();
    if (!down || !down->empty()) _exit(4);
    request.ifr_flags = IFF_UP;
    if (ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) _exit(5);
    const auto up = RealNetwork().own_addresses();
    _exit(up && std::count(up->begin(), up->end(), "10.1.2.3") == 1 ? 0 : 6);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) SKIP("needs root (a network namespace)");
  CHECK(status == 0);
}

TEST_CASE("a listening port is found while somebody listens, IPv4 and IPv6") {
  unsigned port = 0;
  {
    const tests::ScriptedServer server(AF_INET, [](tests::Connection&) {});
    port = static_cast<unsigned>(server.port());
    CHECK(RealNetwork().listening(port).value());
  }
  CHECK_FALSE(RealNetwork().listening(port).value());
  try {
    const tests::ScriptedServer server(AF_INET6, [](tests::Connection&) {});
    CHECK(RealNetwork().listening(static_cast<unsigned>(server.port())).value());
  } catch (const std::runtime_error&) {
    SKIP("the rest needs IPv6 on loopback");
  }
}

TEST_CASE("only a socket in state LISTEN on exactly that port counts") {
  const std::string rest = " 00000000:00000000 00:00000000 00000000     0        0 1 1";
  CHECK_FALSE(host::is_listening_line("  sl  local_address rem_address   st tx_queue rx_queue", 50000));
  CHECK_FALSE(host::is_listening_line("", 50000));
  CHECK_FALSE(host::is_listening_line("0: 0100007F 00000000:0000 0A" + rest, 50000));
  CHECK_FALSE(host::is_listening_line("0: 0100007F:C350 00000000:0000 01" + rest, 50000));  // established
  CHECK_FALSE(host::is_listening_line("0: 0100007F:C350 0100007F:C350 06" + rest, 50000));  // time-wait
  CHECK_FALSE(host::is_listening_line("0: 0100007F:C3500 00000000:0000 0A" + rest, 50000));
  CHECK_FALSE(host::is_listening_line("0: C350:C351 00000000:C350 0A" + rest, 50000));
  CHECK(host::is_listening_line("   0: 00000000:C350 00000000:0000 0A" + rest, 50000));
  CHECK(host::is_listening_line(
      "   1: 00000000000000000000000000000000:C350 00000000000000000000000000000000:0000 0A" + rest, 50000));
}
