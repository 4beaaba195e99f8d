#include "mig/profiles.h"

#include <catch2/catch_test_macros.hpp>

#include "captured.h"

using namespace mig;

TEST_CASE("profile names: what is none") {
  for (const char* name : {"", "g.5gb", "1g", "1g.", "1g.gb", "1g.5", "g", "0g.5gb", "1g.0gb", "1.5gb", "-1g.5gb",
                           "1g.5gbx", "1g.5gb+", "1g.5gb+ me", "99999999999g.5gb", "1g.5gb;reboot", "9"}) {
    CAPTURE(name);
    CHECK_FALSE(parse_shape(name));
  }
}

TEST_CASE("profile names: slices, memory, attributes, parts") {
  const auto plain = parse_shape("3G.71GB");
  REQUIRE(plain);
  CHECK(plain->slices == 3);
  CHECK(plain->memory_gb == 71);
  CHECK(plain->attributes.empty());
  CHECK(plain->compute_slices == 0);
  CHECK(parse_shape("1g.24gb+me.all")->attributes == "+me.all");
  CHECK(parse_shape("1g.24gb-me")->attributes == "-me");
  CHECK(parse_shape("MIG 1g.18gb+me")->attributes == "+me");
  CHECK(parse_shape("1c.3g.71gb")->compute_slices == 1);
}

TEST_CASE("-lgip: a damaged or empty listing is an error") {
  const std::string good = captured::h200("lgip");
  CHECK_FALSE(parse_profiles(""));
  CHECK_FALSE(parse_profiles("No MIG-supported devices found.\n"));
  CHECK_FALSE(parse_profiles("Failed to display GPU instance profiles: Unknown Error\n"));
  CHECK_FALSE(parse_profiles("|   0  MIG 1g.18gb         19     7/7   \n"));
  CHECK_FALSE(parse_profiles("|   0  MIG 1g.18gb         xx     7/7        16.00      No     16     1     0   |\n"));
  CHECK_FALSE(parse_profiles("|   0  MIG nonsense        19     7/7        16.00      No     16     1     0   |\n"));
  CHECK_FALSE(parse_profiles("|   0  MIG 1g.18gb         19     7         16.00      No     16     1     0   |\n"));
  CHECK_FALSE(parse_profiles(good + good));  // an ID twice on one GPU
}

TEST_CASE("-lgip: the real H200 listing") {
  const auto boards = parse_profiles(captured::h200("lgip"));
  REQUIRE(boards);
  REQUIRE(boards->size() == 1);
  const Board& board = boards->at(0);
  REQUIRE(board.size() == 7);
  CHECK(board[0].name == "1g.18gb");
  CHECK(board[0].id == 19);
  CHECK(board[0].total == 7);
  CHECK(board[1].name == "1g.18gb+me");
  CHECK(board[1].total == 1);
  CHECK(board[4].name == "3g.71gb");
  CHECK(board[4].memory_gib == "69.75");
  CHECK(board[6].slices() == 7);
}

TEST_CASE("-lgip: the narrow form of older drivers, and a free count of 0") {
  const auto boards = parse_profiles(
      "|   0  MIG 1g.5gb        19     0/7        4.75       No     14     0     0   |\n"
      "|                                                             1     0     0   |\n"
      "|   1  MIG 4g.20gb        5     0/1        19.50      No     56     2     0   |\n");
  REQUIRE(boards);
  CHECK(boards->at(0).front().total == 7);
  CHECK(boards->at(1).front().name == "4g.20gb");
}

TEST_CASE("-lgipp: lines that do not fit the profiles are an error") {
  const auto profiles = parse_profiles(captured::h200("lgip"));
  REQUIRE(profiles);
  const std::string good = captured::h200("lgipp");
  CHECK_FALSE(add_placements(*profiles, ""));
  CHECK_FALSE(add_placements(*profiles, "No devices were found\n"));
  CHECK_FALSE(add_placements(*profiles, good.substr(0, good.rfind("GPU"))));  // one profile without places
  CHECK_FALSE(add_placements(*profiles, good + "GPU  0 Profile ID 99 Placements: {0}:1\n"));
  CHECK_FALSE(add_placements(*profiles, good + "GPU  1 Profile ID 19 Placements: {0}:1\n"));
  CHECK_FALSE(add_placements(*profiles, good + "GPU  0 Profile ID 19 Placements: {0,x}:1\n"));
  CHECK_FALSE(add_placements(*profiles, good + "GPU  0 Profile ID 19 Placements: {0}:0\n"));
  CHECK_FALSE(add_placements(*profiles, good + "GPU  0 Profile ID 19 Placements: {0\n"));
}

TEST_CASE("-lgipp: the real H200 listing, both forms of the line") {
  const Board board = captured::h200_boards().at(0);
  CHECK(board[0].starts == std::vector<unsigned>{0, 1, 2, 3, 4, 5, 6});
  CHECK(board[0].size == 1);
  CHECK(board[2].starts == std::vector<unsigned>{0, 2, 4, 6});
  CHECK(board[2].size == 2);
  CHECK(board[6].starts == std::vector<unsigned>{0});
  CHECK(board[6].size == 8);
}
