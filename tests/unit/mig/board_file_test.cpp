#include "mig/board_file.h"

#include <catch2/catch_test_macros.hpp>

#include "captured.h"

using namespace mig;
using captured::h200;

TEST_CASE("a board file with a half missing is refused") {
  for (const std::string& text : {std::string(), h200("lgip"), h200("lgipp"), h200("L"), std::string("text\n")}) {
    const auto board = parse_board_file(text, std::nullopt);
    REQUIRE_FALSE(board);
    CHECK(board.error().code == base::ExitCode::usage);
    CHECK(board.error().cure.find("-lgipp") != std::string::npos);
  }
}

TEST_CASE("both listings in either order, with names where -L is there too") {
  const auto board = parse_board_file(h200("lgipp") + h200("lgip") + h200("L"), std::nullopt);
  REQUIRE(board);
  REQUIRE(board->gpus.size() == 1);
  CHECK(board->gpus.front().name == "NVIDIA H200");
  CHECK(board->boards.at(0).size() == 7);
  CHECK(parse_board_file(h200("lgip") + h200("lgipp"), std::nullopt)->gpus.front().name.empty());
}

TEST_CASE("one saved board stands for as many GPUs as are asked for") {
  const auto board = parse_board_file(h200("lgip") + h200("lgipp"), 8);
  REQUIRE(board);
  CHECK(board->gpus.size() == 8);
  CHECK(board->gpus.back().index == 7);
  CHECK(board->boards.at(7).size() == 7);
}

TEST_CASE("a board that was saved twice is told as such, and not as a line that cannot be read") {
  const std::string once = h200("lgip") + h200("lgipp") + h200("L");
  const auto twice = parse_board_file(once + once, std::nullopt);
  REQUIRE_FALSE(twice);
  CHECK(twice.error().what.find("saved twice") != std::string::npos);
  CHECK(twice.error().what.find("cannot be read") == std::string::npos);
}

TEST_CASE("GPUs that only -L lists: as another one of their product, else without MIG") {
  const std::string more = "GPU 1: NVIDIA H200 (UUID: GPU-2)\nGPU 2: NVIDIA L4 (UUID: GPU-3)\n";
  const auto board = parse_board_file(h200("lgip") + h200("lgipp") + h200("L") + more, std::nullopt);
  REQUIRE(board);
  REQUIRE(board->gpus.size() == 3);
  CHECK(board->gpus[1].current == Mode::disabled);
  CHECK(board->boards.at(1).size() == 7);
  CHECK(board->gpus[2].current == Mode::unsupported);
  CHECK_FALSE(board->boards.contains(2));
}
