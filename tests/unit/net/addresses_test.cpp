// Peers' addresses: what may stand in a node list, which of them this host is, and what getent's words mean.
#include "net/addresses.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "fakes/fake_processes.h"

using namespace std::chrono_literals;
using net::Peer;
using Addresses = std::vector<std::string>;

namespace {

std::vector<Peer> peers(const Addresses& addresses) {
  std::vector<Peer> all;
  for (const std::string& address : addresses) all.push_back({"ultra-" + std::to_string(all.size() + 1), address});
  return all;
}

struct World {
  fakes::FakeClock clock;
  fakes::FakeProcesses processes{clock};

  base::Result<std::string> resolve(host::Exit exit, host::milliseconds left = 100s) {
    processes.answer("getent ahosts ultra-1.example", std::move(exit));
    return net::resolve(processes, "/usr/bin/getent", "ultra-1", "ultra-1.example", host::Deadline(clock, left));
  }
};

}  // namespace

TEST_CASE("addresses that no peer can use are refused, naming node and address, by every node alike") {
  for (const char* bad : {"0.0.0.0", "::", "127.0.0.1", "127.255.0.9", "::1", "0.1.2.3", "224.0.0.1", "239.1.1.1",
                          "255.255.255.255", "240.0.0.1", "ff02::1"}) {
    INFO(bad);
    const auto status = net::check_peers(peers({"10.0.0.1", bad}), 18);
    REQUIRE_FALSE(status);
    CHECK(status.error().code == base::ExitCode::source);
    CHECK(status.error().blame == base::Blame::shared);
    CHECK(status.error().what.find("node ultra-2 has the address " + std::string(bad)) == 0);
    CHECK(status.error().cure == "correct NodeAddr of ultra-2 (scontrol show node ultra-2)");
  }
}

TEST_CASE("one address for two nodes is refused, naming both") {
  const auto status = net::check_peers(peers({"10.0.0.1", "10.0.0.2", "10.0.0.1"}), 18);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == base::ExitCode::source);
  CHECK(status.error().what == "node ultra-3 has the address 10.0.0.1, as node ultra-1 has");
}

TEST_CASE("more nodes than a domain takes are a change that cannot be made") {
  Addresses many;
  for (int i = 1; i <= 19; ++i) many.push_back("10.0.0." + std::to_string(i));
  const auto status = net::check_peers(peers(many), 18);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == base::ExitCode::change);
  CHECK(status.error().blame == base::Blame::shared);
  CHECK(status.error().what == "the node list would have 19 nodes, an IMEX domain takes at most 18");
  many.pop_back();
  CHECK(net::check_peers(peers(many), 18));
}

TEST_CASE("addresses of one host each are fit for a list") {
  CHECK(net::check_peers(peers({"10.0.0.1", "fd00::1", "fe80::1", "223.255.255.255", "1.0.0.1"}), 18));
  CHECK(net::check_peers({}, 18));
}

TEST_CASE("a host that is not in the list fails alone, with both sets of addresses") {
  const auto place = net::own_place(peers({"10.0.0.1", "10.0.0.2"}), {"127.0.0.1", "10.0.0.9"});
  REQUIRE_FALSE(place);
  CHECK(place.error().code == base::ExitCode::change);
  CHECK(place.error().blame == base::Blame::local);
  CHECK(place.error().what.find(
            "none of this host's own addresses (127.0.0.1 10.0.0.9) is in the node list (10.0.0.1 10.0.0.2)") == 0);
  CHECK_FALSE(net::own_place({}, {"10.0.0.1"}));
}

TEST_CASE("this host is the first peer that has one of its addresses") {
  CHECK(net::own_place(peers({"10.0.0.1", "10.0.0.2", "10.0.0.3"}), {"127.0.0.1", "10.0.0.3"}).value() == 2);
  CHECK(net::own_place(peers({"10.0.0.1", "10.0.0.2"}), {"10.0.0.2", "10.0.0.1"}).value() == 0);
}

TEST_CASE("loopback and unspecified are known in both families") {
  CHECK(net::is_loopback("127.0.0.1"));
  CHECK(net::is_loopback("::1"));
  CHECK_FALSE(net::is_loopback("10.127.0.1"));
  CHECK_FALSE(net::is_loopback("::"));
  CHECK(net::is_unspecified("0.0.0.0"));
  CHECK(net::is_unspecified("::"));
  CHECK_FALSE(net::is_unspecified("0.0.0.1"));
}

TEST_CASE("getent's words: distinct addresses in order, all else passed over") {
  CHECK(net::parse_ahosts("").empty());
  CHECK(net::parse_ahosts("ultra-1 10.0.0.1\n:::\n10.0.0\n10.0.0.1x STREAM\n\n").empty());
  CHECK(net::parse_ahosts("10.0.0.2        STREAM ultra-1.example\n10.0.0.2        DGRAM\n10.0.0.2        RAW\n"
                          "fd00:0::1       STREAM\nfd00::1 DGRAM\n") == Addresses{"10.0.0.2", "fd00::1"});
}

TEST_CASE("an IPv4 address in IPv6's clothes is that IPv4 address") {
  CHECK(net::parse_ahosts("::ffff:10.0.0.1 STREAM x\n10.0.0.1 STREAM x\n") == Addresses{"10.0.0.1"});
}

TEST_CASE("a name that is not known is a fault that every node sees") {
  World world;
  const auto address = world.resolve(fakes::exited(2));
  REQUIRE_FALSE(address);
  CHECK(address.error().code == base::ExitCode::source);
  CHECK(address.error().blame == base::Blame::shared);
  CHECK(address.error().what == "cannot look up the address of node ultra-1 (NodeAddr ultra-1.example): exit 2");
  CHECK(address.error().cure.find("give ultra-1 a NodeAddr that is an IP address") == 0);
}

TEST_CASE("a resolver that hangs runs out of time") {
  World world;
  const auto address = world.resolve(fakes::timed_out());
  REQUIRE_FALSE(address);
  CHECK(address.error().code == base::ExitCode::time_out);
  CHECK(address.error().blame == base::Blame::shared);
  CHECK(world.processes.limits.front() == 5s);
}

TEST_CASE("a getent that could not be started is this node's fault, and says nothing of the name") {
  World world;
  host::Exit no_processes;
  no_processes.status = EAGAIN;
  const auto address = world.resolve(no_processes);
  REQUIRE_FALSE(address);
  CHECK(address.error().blame == base::Blame::local);
  CHECK(address.error().cure.find("out of memory or processes") != std::string::npos);
}

TEST_CASE("the look-up gets what the run has left, where that is less") {
  World world;
  REQUIRE(world.resolve(fakes::exited(0, "10.0.0.1 STREAM x\n"), 2s));
  CHECK(world.processes.limits.front() == 2s);
}

TEST_CASE("a name that is only this host's loopback resolves to nothing that peers can reach") {
  World world;
  const auto address = world.resolve(fakes::exited(0, "127.0.1.1 STREAM ultra-1\n::1 STREAM\n"));
  REQUIRE_FALSE(address);
  CHECK(address.error().code == base::ExitCode::source);
  CHECK(address.error().what.find("resolves to no address that peers can reach") != std::string::npos);
}

TEST_CASE("several addresses are refused: nobody knows which the peers would take") {
  World world;
  const auto address = world.resolve(fakes::exited(0, "10.0.0.1 STREAM x\nfd00::1 STREAM x\n"));
  REQUIRE_FALSE(address);
  CHECK(address.error().code == base::ExitCode::source);
  CHECK(address.error().what.find("resolves to several addresses (10.0.0.1 fd00::1), exactly one is needed") !=
        std::string::npos);
}

TEST_CASE("one address that remains beside loopback is the answer") {
  World world;
  CHECK(world.resolve(fakes::exited(0, "127.0.1.1 STREAM x\n10.0.0.1 STREAM x\n10.0.0.1 DGRAM\n")).value() ==
        "10.0.0.1");
}
