// One fault, one drain: who fails for a fault that every node of the block sees alike.
#include "commands/imex_blame.h"

#include <catch2/catch_test_macros.hpp>

using commands::first_name;
using commands::is_blamed;
using Names = std::vector<std::string>;

TEST_CASE("a list that does not begin with a name of a node has no first name") {
  for (const std::string& raw :
       {std::string(), std::string(","), std::string("["), std::string("[]"), std::string("-a"), std::string(".a"),
        std::string("a[x"), std::string("a[]"), std::string("a[,1]"), std::string("\n"), std::string("a;rm"),
        std::string("a$b"), std::string("a]"), std::string(300, 'a')}) {
    INFO(raw);
    CHECK(first_name(raw).empty());
  }
}

TEST_CASE("a list that is malformed further on still has a first name") {
  CHECK(first_name("ultra-[1-18") == "ultra-1");
  CHECK(first_name("ultra-1,,") == "ultra-1");
  CHECK(first_name("ultra-1,ultra-[") == "ultra-1");
}

TEST_CASE("the first name of a list in any of its forms") {
  CHECK(first_name("ultra-1") == "ultra-1");
  CHECK(first_name("ultra-1,ultra-2") == "ultra-1");
  CHECK(first_name("ultra-[1-18]") == "ultra-1");
  CHECK(first_name("ultra-[007,9]") == "ultra-007");
  CHECK(first_name("rack[1-2]-node[05-18].example,x") == "rack1-node05.example");
}

TEST_CASE("where the block is known its first node is blamed, whatever the job's list says") {
  CHECK(is_blamed("ultra-19", {"ultra-19", "ultra-20"}, "ultra-[1-36]"));
  CHECK_FALSE(is_blamed("ultra-20", {"ultra-19", "ultra-20"}, "ultra-[1-36]"));
  CHECK_FALSE(is_blamed("ultra-1", {"ultra-19", "ultra-20"}, "ultra-[1-36]"));
}

TEST_CASE("where the block is not known the first node of the job's list is blamed") {
  CHECK(is_blamed("ultra-1", {}, "ultra-[1-18"));
  CHECK_FALSE(is_blamed("ultra-2", {}, "ultra-[1-18"));
}

TEST_CASE("where nobody can be told to be first, whoever sees the fault fails: else nobody would") {
  CHECK(is_blamed("ultra-1", {}, ""));
  CHECK(is_blamed("ultra-2", {}, "a;rm -rf"));
}
