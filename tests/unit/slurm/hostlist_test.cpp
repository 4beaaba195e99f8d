#include "slurm/hostlist.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "captured.h"

using namespace slurm;
using Names = std::vector<std::string>;

namespace {

constexpr std::size_t limit = 65'536;

std::string numbered(const std::string& prefix, int number) { return prefix + std::to_string(number); }

}  // namespace

TEST_CASE("what is no node list is refused, on every node alike") {
  const std::string rows[] = {
      "",
      " ",
      ",",
      "a,",
      ",a",
      "a,,b",
      "a b",
      "a\nb",
      "a\n",
      std::string("a\0b", 3),
      "$(reboot)",
      "`id`",
      "a;b",
      "a|b",
      "../../etc",
      "/etc/passwd",
      "--help",
      "-ultra-1",
      "ok,--help",
      ".hidden",
      "a[1-",
      "a[1-3",
      "a1-3]",
      "a]1[",
      "a[[1-2]]",
      "a[1-[2]]",
      "a[]",
      "a[1,]",
      "a[,1]",
      "a[1-2-3]",
      "a[-1]",
      "a[1-]",
      "a[3-1]",
      "a[x]",
      "a[0x1-0x3]",
      "a[1-2 ]",
      "a[1:3]",
      "a[000x111]",
      "a[1-99999999999999999999]",
      "a[18446744073709551615]",
      "block{b1}",
      "a*",
      "a\\",
      "a=b",
      "ultr\xC3\xA4-1",
      "\xFF",
      std::string(256, 'a'),
      std::string(250, 'a') + "[100000-100001]",
      std::string(200, 'a') + "[1-2]" + std::string(100, 'b'),
  };
  for (const std::string& bad : rows) {
    CAPTURE(bad);
    const auto nodes = expand_hostlist(bad, limit);
    REQUIRE_FALSE(nodes);
    CHECK(nodes.error().code == base::ExitCode::surroundings);
    CHECK(nodes.error().blame == base::Blame::shared);
    CHECK(nodes.error().what.find("node list") != std::string::npos);
    CHECK(nodes.error().what.find('\n') == std::string::npos);
    CHECK_FALSE(nodes.error().cure.empty());
  }
}

TEST_CASE("the refusal says what is wrong") {
  CHECK(expand_hostlist("a[1-3", limit).error().what == "the node list 'a[1-3' cannot be used: a '[' has no ']'");
  CHECK(expand_hostlist("a[[1-2]]", limit).error().what ==
        "the node list 'a[[1-2]]' cannot be used: brackets stand within brackets");
  CHECK(expand_hostlist("a$b", limit).error().what ==
        "the node list 'a$b' cannot be used: '$' cannot be part of a node name");
  CHECK(expand_hostlist("n[1-19]", 18).error().what ==
        "the node list 'n[1-19]' cannot be used: it names more than 18 nodes");
}

TEST_CASE("a list of a thousand million hosts is refused before any of them is made") {
  for (const char* bad : {"a[0-999999999]", "a[1-1000]b[1-1000]c[1-1000]", "a[0-65536]", "a[0-65535],b",
                          "a[1-999999999999999999]", "a[1-60000]b[1-60000]", "a[1-65536,1-65536]",
                          // 2^64 hosts: a count that wraps around to 0
                          "a[0-65535][0-65535][0-65535][0-65535]"}) {
    CAPTURE(bad);
    const auto nodes = expand_hostlist(bad, limit);
    REQUIRE_FALSE(nodes);
    CHECK(nodes.error().what.find("more than 65536 nodes") != std::string::npos);
  }
  // The limit itself still passes, and a caller's absurd limit does not lift ours.
  CHECK(expand_hostlist("a[0-65535]", limit)->size() == 65'536);
  CHECK_FALSE(expand_hostlist("a[0-999999999]", static_cast<std::size_t>(-1)));
}

TEST_CASE("very many brackets do not exhaust the stack") {
  std::string text = "a";
  for (int i = 0; i < 40'000; ++i) text += "[1]";
  CHECK_FALSE(expand_hostlist(text, limit));
}

TEST_CASE("host lists expand in their own order") {
  const std::pair<const char*, Names> rows[] = {
      {"ultra-1", {"ultra-1"}},
      {"ultra-[1-3]", {"ultra-1", "ultra-2", "ultra-3"}},
      {"n[3,1]", {"n3", "n1"}},
      {"n[2,2]", {"n2", "n2"}},
      {"node4,node1,node2", {"node4", "node1", "node2"}},
      {"ultra-[1-2,08-10]x,b7", {"ultra-1x", "ultra-2x", "ultra-08x", "ultra-09x", "ultra-10x", "b7"}},
      {"a[8-10]", {"a8", "a9", "a10"}},
      {"a[08-10]", {"a08", "a09", "a10"}},
      {"a[1-03]", {"a1", "a2", "a3"}},
      {"a[001]", {"a001"}},
      {"a[01-02]b[1-2]", {"a01b1", "a01b2", "a02b1", "a02b2"}},
      {"a[1-2]b[1-2]c", {"a1b1c", "a1b2c", "a2b1c", "a2b2c"}},
      {"[1-2]", {"1", "2"}},
      {"q-st-p6e-gb200_1.x", {"q-st-p6e-gb200_1.x"}},
      {"a[1],b[2],c", {"a1", "b2", "c"}},
  };
  for (const auto& [text, expected] : rows) {
    CAPTURE(text);
    const auto nodes = expand_hostlist(text, limit);
    REQUIRE(nodes);
    CHECK(*nodes == expected);
  }
}

TEST_CASE("it expands as scontrol show hostnames does") {
  for (const std::string version : {"24.11", "26.05"}) {
    const std::string said = captured::after_command(version, "scontrol show hostnames node[1-3,08-10]");
    Names expected;
    for (const auto line : base::lines(said)) expected.emplace_back(line);
    REQUIRE(expected.size() == 6);
    CHECK(*expand_hostlist("node[1-3,08-10]", limit) == expected);
  }
}

TEST_CASE("a list cut short at any byte is refused or is a list of its own, never a crash") {
  const std::string text = "ultra-[1-3,08-10]x[1-2],b7,c[9-11]";
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto nodes = expand_hostlist(text.substr(0, length), limit);
    if (!nodes) continue;
    for (const std::string& node : *nodes) CHECK(is_node_name(node));
  }
}

TEST_CASE("node names are no options and no paths") {
  for (const char* bad : {"", "-a", ".", "..", ".a", "a/b", "a b", "a:b", "a[1]", "a,b", "\xC3\xA4"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_node_name(bad));
  }
  CHECK_FALSE(is_node_name(std::string(256, 'a')));
  CHECK_FALSE(is_node_name(std::string_view("a\0", 2)));
  CHECK(is_node_name(std::string(255, 'a')));
  CHECK(is_node_name("ip-10-0-0-1.ec2.internal"));
}

TEST_CASE("names fold as a person would write them") {
  const std::pair<Names, const char*> rows[] = {
      {{}, ""},
      {{"a"}, "a"},
      {{"a1"}, "a1"},
      {{"a1", "a2"}, "a[1-2]"},
      {{"a1", "a2", "a5"}, "a[1-2,5]"},
      {{"a3", "a1"}, "a[3,1]"},
      {{"a2", "a2"}, "a[2,2]"},
      {{"a8", "a9", "a10"}, "a[8-10]"},
      {{"a08", "a09", "a10"}, "a[08-10]"},
      {{"a9", "a010"}, "a[9,010]"},
      {{"a1", "b1", "b2"}, "a1,b[1-2]"},
      {{"login", "login"}, "login,login"},
      {{"a1x", "a2x"}, "a1x,a2x"},
      {{"1", "2"}, "[1-2]"},
  };
  for (const auto& [names, expected] : rows) {
    CAPTURE(expected);
    CHECK(fold_hostlist(names) == expected);
  }
}

TEST_CASE("what was folded expands to the same names in the same order") {
  const std::vector<Names> rows = {
      {"ultra-1", "ultra-2", "ultra-3", "b", "ultra-9", "ultra-010", "ultra-011", "x7y", "x8y"},
      {"n000000000000000000001", "n000000000000000000002"},
      {"n999999999999999999", "n1000000000000000000"},
      {"a99", "a100", "a101", "a0101"},
      {"q1-dy-1", "q1-dy-2", "q2-dy-1", "q2-dy-2", "q2-dy-4"},
  };
  for (const Names& names : rows) CHECK(*expand_hostlist(fold_hostlist(names), limit) == names);

  // Every neighbourhood of numbers from a small alphabet: 7^4 lists.
  const Names some{"n1", "n2", "n3", "n02", "n10", "m2", "z"};
  for (const auto& a : some) {
    for (const auto& b : some) {
      for (const auto& c : some) {
        for (const auto& d : some) {
          const Names names{a, b, c, d};
          const auto back = expand_hostlist(fold_hostlist(names), limit);
          REQUIRE(back);
          REQUIRE(*back == names);
        }
      }
    }
  }
}

TEST_CASE("ten thousand nodes expand and fold") {
  Names names;
  for (int i = 1; i <= 10'000; ++i) names.push_back(numbered("ultra-", i));
  CHECK(fold_hostlist(names) == "ultra-[1-10000]");
  CHECK(*expand_hostlist("ultra-[1-10000]", limit) == names);
}
