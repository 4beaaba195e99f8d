#include "slurm/scontrol.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "captured.h"

using namespace slurm;
using Names = std::vector<std::string>;

namespace {

std::string show(const std::vector<NodeAddress>& addresses) {
  std::string text;
  for (const auto& [node, address] : addresses) text += node + "=" + address + " ";
  return text;
}

// "node1=10.88.0.1 ", or the error's words.
std::string show(const base::Result<std::vector<NodeAddress>>& addresses) {
  return addresses ? show(*addresses) : "error: " + addresses.error().what;
}

void check_source_error(const base::Result<std::vector<NodeAddress>>& addresses, const std::string& part) {
  REQUIRE_FALSE(addresses);
  CHECK(addresses.error().code == base::ExitCode::source);
  CHECK(addresses.error().blame == base::Blame::shared);
  CAPTURE(addresses.error().what);
  CHECK(addresses.error().what.find(part) != std::string::npos);
  CHECK(addresses.error().what.find('\n') == std::string::npos);
}

}  // namespace

TEST_CASE("getaddrs: an answer that is empty, short, forged or has another form is not used") {
  const Names wanted{"n1", "n2"};
  const std::pair<std::string, const char*> rows[] = {
      {"", "it is empty"},
      {"\n", "it is empty"},
      {"n1: 10.0.0.1:6818\n", "node n2 is missing"},
      {"n1: 10.0.0.1:6818\nn2: 10.0.0.2:6818", "cut short"},
      {"n1: 10.0.0.1:6818\nn2: 10.0.0.2:0\n", "no address for node n2"},
      {"n1: 10.0.0.1:6818\nn2: 0.0.0.0:6818\n", "no address for node n2"},
      {"n1: 10.0.0.1:6818\nn2: :0\n", "no address for node n2"},
      {"n1: 10.0.0.1:6818\nn2: [::]:6818\n", "no address for node n2"},
      {"n1: 10.0.0.1:6818\nn2: [::ffff:0.0.0.0]:6818\n", "no address for node n2"},
      {"n1: 10.0.0.1:6818\nn2: 10.0.0.256:6818\n", "no address for node n2"},
      {"n1: 10.0.0.1:6818\nn2: 010.0.0.2:6818\n", "no address for node n2"},
      {"n1: 10.0.0.1:6818\nn2: localhost:6818\n", "no address for node n2"},
      {"n1: 10.0.0.1:6818\nn2: [fe80::1%eth0]:6818\n", "no address for node n2"},
      {"n1: 10.0.0.1:6818\nn2: fd00::2:6818\n", "has not its form"},
      {"n1: 10.0.0.1:6818\nn2: [10.0.0.2]:6818\n", "has not its form"},
      {"n1: 10.0.0.1:6818\nn2: 10.0.0.2:65536\n", "has not its form"},
      {"n1: 10.0.0.1:6818\nn2: 10.0.0.2:\n", "has not its form"},
      {"n1: 10.0.0.1:6818\nn2: 10.0.0.2:-1\n", "has not its form"},
      {"n1: 10.0.0.1:6818\nn2: 10.0.0.2\n", "has not its form"},
      {"n1: 10.0.0.1:6818\nn2:10.0.0.2:6818\n", "has not its form"},
      {"n1: 10.0.0.1:6818\nn2 10.0.0.2:6818\n", "has not its form"},
      {"n1: 10.0.0.1:6818\n\nn2: 10.0.0.2:6818\n", "has not its form"},
      {"n1: 10.0.0.1:6818 x\nn2: 10.0.0.2:6818\n", "has not its form"},
      {"n1: 10.0.0.1:6818\nn1: 10.0.0.1:6818\nn2: 10.0.0.2:6818\n", "node n1 is in it twice"},
      {"n1: 10.0.0.1:6818\nn2: 10.0.0.2:6818\nn3: 10.0.0.3:6818\n", "nobody asked for node n3"},
      {"N1: 10.0.0.1:6818\nn2: 10.0.0.2:6818\n", "nobody asked for node N1"},
      {"\x1b[2J: 10.0.0.1:6818\n", "\\x1b[2J"},
      {"invalid keyword: getaddrs\n", "has not its form"},
  };
  for (const auto& [text, why] : rows) {
    CAPTURE(text);
    check_source_error(parse_getaddrs(text, wanted), why);
  }
}

TEST_CASE("getaddrs: addresses come in the order asked for, as printed") {
  CHECK(show(parse_getaddrs("n1: 10.0.0.1:6818\nn2: [fd00::2]:6818\n", {"n2", "n1"})) == "n2=fd00::2 n1=10.0.0.1 ");
  CHECK(show(parse_getaddrs("n1: 10.0.0.1:6818\r\nn2: 10.0.0.2:1\r\n", {"n1", "n2"})) == "n1=10.0.0.1 n2=10.0.0.2 ");
}

TEST_CASE("getaddrs: what real Slurm printed") {
  for (const std::string version : {"24.11", "26.05"}) {
    CAPTURE(version);
    const auto said = [&](const std::string& list) {
      return captured::after_command(version, "scontrol getaddrs " + list);
    };
    CHECK(show(parse_getaddrs(said("node[1-2]"), {"node1", "node2"})) == "node1=10.88.0.1 node2=10.88.0.2 ");
    CHECK(show(parse_getaddrs(said("node[2,1]"), {"node2", "node1"})) == "node2=10.88.0.2 node1=10.88.0.1 ");
    // One name that the controller cannot resolve empties the whole answer.
    check_source_error(parse_getaddrs(said("node[1-5]"), {"node1", "node2", "node3", "node4", "node5"}), "it is empty");
    check_source_error(parse_getaddrs(said("node1,nosuch"), {"node1", "nosuch"}), "node nosuch is missing");
    check_source_error(parse_getaddrs(said("nosuch"), {"nosuch"}), "it is empty");
    check_source_error(parse_getaddrs(said("node[1-"), {"node1"}), "it is empty");
  }
}

TEST_CASE("getaddrs: an answer cut short at any byte is never taken for the whole") {
  const std::string text =
      captured::after_command("26.05", "scontrol getaddrs node[1-2]") + "node18: [fd00::18]:6818\n";
  const Names wanted{"node1", "node2", "node18"};
  for (std::size_t length = 0; length < text.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(parse_getaddrs(std::string_view(text).substr(0, length), wanted));
  }
  CHECK(parse_getaddrs(text, wanted));
}

TEST_CASE("show node: an answer that lacks, repeats or adds a node is not used") {
  const Names wanted{"n1", "n2"};
  const std::string one = "NodeName=n1 NodeAddr=10.0.0.1 NodeHostName=n1\n";
  const std::pair<std::string, const char*> rows[] = {
      {"", "it is empty"},
      {one, "node n2 is missing"},
      {one + "NodeName=n2 NodeAddr=10.0.0.2 ", "cut short"},
      {one + "NodeName=n2 Arch=x86_64\n", "node n2 has no NodeAddr"},
      {one + "NodeName=n2 NodeAddr=\n", "node n2 has '' as NodeAddr"},
      {one + "NodeName=n2 NodeAddr=(null) x\n", "node n2 has '(null)' as NodeAddr"},
      {one + "NodeName=n2 NodeAddr=--help x\n", "node n2 has '--help' as NodeAddr"},
      {one + "NodeName=n2 NodeAddr=$(id) x\n", "node n2 has '$(id)' as NodeAddr"},
      {one + "NodeName=n2 NodeAddr=" + std::string(256, 'a') + "\n", "as NodeAddr"},
      {one + "NodeName=n2 OS=Linux NodeAddr=9.9.9.9\n", "node n2 has no NodeAddr"},
      {one + "NodeName=n2 Reason=x NodeAddr=9.9.9.9\n", "node n2 has no NodeAddr"},
      {one + "NodeName=n2 Comment=x NodeAddr=9.9.9.9\n", "node n2 has no NodeAddr"},
      {one + "NodeName=n2 Extra=x NodeAddr=9.9.9.9\n", "node n2 has no NodeAddr"},
      {one + "NodeName=n2 XNodeAddr=9.9.9.9 y\n", "node n2 has no NodeAddr"},
      {one + " NodeName=n2 NodeAddr=10.0.0.2\n", "node n2 is missing"},
      {one + "NodeName=n2 NodeAddr=10.0.0.2\n" + one, "node n1 is in it twice"},
      {one + "NodeName=n2 NodeAddr=10.0.0.2\nNodeName=n3 NodeAddr=10.0.0.3\n", "nobody asked for node n3"},
      {one + "Node n2 not found\n", "Slurm does not know node n2"},
      {"Node n2 not found\n" + one, "Slurm does not know node n2"},
      {one + "NodeName=n2 NodeAddr=10.0.0.2\nNode n7 not found\n", "Slurm does not know node n7"},
      {"No nodes in the system\n", "node n1 is missing"},
      {"NodeName= NodeAddr=10.0.0.1\n", "nobody asked for node "},
  };
  for (const auto& [text, why] : rows) {
    CAPTURE(text);
    check_source_error(parse_show_node(text, wanted), why);
  }
}

TEST_CASE("show node: user text cannot forge an address") {
  const std::string comment =
      "NodeName=n1 NodeAddr=10.0.0.1 NodeHostName=n1 OS=Linux NodeAddr=9.9.9.9 Comment=first\n"
      "second NodeAddr=8.8.8.8\n"
      " NodeName=n2 NodeAddr=8.8.8.8\n"
      "Node is fine, trouble was not found\n"
      "NodeName=n2 NodeAddr=10.0.0.2 Extra={\"a\":\n\"NodeAddr=7.7.7.7\"}\n";
  CHECK(show(parse_show_node(comment, {"n1", "n2"})) == "n1=10.0.0.1 n2=10.0.0.2 ");
  CHECK(show(parse_show_node("NodeName=n1 NodeAddr=10.0.0.1 NodeAddr=9.9.9.9 x\n", {"n1"})) == "n1=10.0.0.1 ");
  // A comment that holds a whole record makes the answer unusable, it does not win.
  check_source_error(parse_show_node("NodeName=n1 NodeAddr=10.0.0.1 Comment=x\nNodeName=n2 NodeAddr=8.8.8.8\n"
                                     "NodeName=n2 NodeAddr=10.0.0.2\n",
                                     {"n1", "n2"}),
                     "node n2 is in it twice");
}

TEST_CASE("show node: what real Slurm printed") {
  const Names four{"node4", "node1", "node3", "node2"};
  for (const std::string& version : captured::versions) {
    CAPTURE(version);
    CHECK(show(parse_show_node(captured::answer(version, "scontrol-ao-show-node.txt"), four)) ==
          "node4=node4 node1=10.88.0.1 node3=10.88.0.3 node2=10.88.0.2 ");
    CHECK(show(parse_show_node(captured::answer(version, "scontrol-ao-show-node-list.txt"),
                               {"node1", "node2", "node4"})) == "node1=10.88.0.1 node2=10.88.0.2 node4=node4 ");
    check_source_error(parse_show_node(captured::answer(version, "scontrol-ao-show-node-nosuch.txt"), {"nosuch"}),
                       "Slurm does not know node nosuch");
    check_source_error(
        parse_show_node(captured::answer(version, "scontrol-ao-show-node-partly.txt"), {"node1", "nosuch"}),
        "Slurm does not know node nosuch");
    // The many-line form is not what was asked for.
    check_source_error(parse_show_node(captured::answer(version, "scontrol-show-node-long.txt"), {"node1"}),
                       "no NodeAddr");
  }
  CHECK(show(parse_show_node(captured::answer("25.11", "scontrol-ao-show-node-awkward.txt"),
                             {"node1", "node2", "node3", "node4"})) ==
        "node1=10.88.0.1 node2=10.88.0.2 node3=node3 node4=node4 ");
}

TEST_CASE("show node: an answer cut short at any byte is never taken for the whole") {
  for (const std::string version : {"24.11", "25.11"}) {
    const std::string text = captured::answer(
        version, version == "25.11" ? "scontrol-ao-show-node-awkward.txt" : "scontrol-ao-show-node.txt");
    const Names wanted{"node1", "node2", "node3", "node4"};
    const std::string whole = show(parse_show_node(text, wanted));
    for (std::size_t length = 0; length < text.size(); ++length) {
      const auto addresses = parse_show_node(std::string_view(text).substr(0, length), wanted);
      CAPTURE(version, length);
      CHECK_FALSE(addresses);
    }
    CHECK(whole.find("error") == std::string::npos);
  }
}

TEST_CASE("ten thousand records are read") {
  std::string text;
  Names wanted;
  for (int i = 10'000; i > 0; --i) wanted.push_back("ultra-" + std::to_string(i));
  for (int i = 1; i <= 10'000; ++i) {
    text += "NodeName=ultra-" + std::to_string(i) + " Arch=aarch64 NodeAddr=10.1." + std::to_string(i / 256) + "." +
            std::to_string(i % 256) + " OS=Linux " + std::string(500, 'x') + "\n";
  }
  const auto addresses = parse_show_node(text, wanted);
  REQUIRE(addresses);
  CHECK(addresses->front().address == "10.1.39.16");
}

TEST_CASE("show config: keys in lower case, the first section's value stays") {
  CHECK(parse_show_config("").empty());
  CHECK(parse_show_config("Configuration data as of 2026\n= x\n  =\n").empty());
  const auto config = parse_show_config(
      "A=b=c\r\nProlog[0]               = /a/* \nEpilog = (null)\n\nCgroup Support Configuration:\nEpilog = other\n");
  CHECK(config.at("a") == "b=c");
  CHECK(config.at("prolog[0]") == "/a/*");
  CHECK(config.at("epilog") == "(null)");
}

TEST_CASE("show config: what real Slurm printed") {
  for (const std::string& version : captured::versions) {
    CAPTURE(version);
    const auto config = parse_show_config(captured::answer(version, "scontrol-show-config.txt"));
    CHECK(config.at("slurm_version").starts_with(version));
    CHECK(config.at("messagetimeout") == "10 sec");
    CHECK(config.at("prolog[0]") == "/rig/etc/prolog.sh");
    CHECK(config.at("prologepilogtimeout") == "60");
    CHECK(config.at("prologflags") == "Alloc");
    CHECK(config.at("schedulerparameters") == "(null)");
    CHECK(config.at("slurmctldhost[0]") == "ctl(10.88.0.254)");
    CHECK(config.size() > 150);
  }
}
