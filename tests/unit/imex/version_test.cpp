// Versions of the driver and of IMEX: read from their own words, compared in what both print.
#include "imex/version.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <iterator>

#include "places.h"

TEST_CASE("words that are no version are none") {
  for (const char* text : {"", "NVRM version:", "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64\n",
                           "GCC version:  gcc version 15.3.0 (GCC)\n", "570.172.08"}) {
    INFO(text);
    CHECK(imex::parse_driver_version(text).empty());
  }
  for (const char* text :
       {"", "IMEX version is: unknown", "v570.172", "570", "570.", ".570", "1.2.x", "command not found"}) {
    INFO(text);
    CHECK(imex::parse_imex_version(text).empty());
  }
}

TEST_CASE("the driver's version is the first on its own line") {
  std::ifstream stream(tests::data_dir() / "nvidia-smi-580-h200" / "drv.txt", std::ios::binary);
  REQUIRE(stream);
  const std::string captured{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  CHECK(imex::parse_driver_version(captured) == "580.159.04");
  CHECK(imex::parse_driver_version(
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.172.08  Release Build\n") == "570.172.08");
}

TEST_CASE("the daemon's version is its first word of digits and dots") {
  CHECK(imex::parse_imex_version("IMEX version is: 570.172.08\n") == "570.172.08");
}

TEST_CASE("versions that differ in what both print do not agree") {
  CHECK_FALSE(imex::versions_agree("570.172.08", "570.173"));
  CHECK_FALSE(imex::versions_agree("570.172.08", "580.172.08"));
  CHECK_FALSE(imex::versions_agree("570.172.08", "570.172.09"));
  CHECK_FALSE(imex::versions_agree("", "570.172"));
  CHECK_FALSE(imex::versions_agree("570.172", ""));
  CHECK_FALSE(imex::versions_agree("", ""));
}

TEST_CASE("the shorter version agrees with the longer one, and leading zeros do not count") {
  CHECK(imex::versions_agree("570.172.08", "570.172"));
  CHECK(imex::versions_agree("570.172", "570.172.08"));
  CHECK(imex::versions_agree("570.172.08", "570.172.8"));
}
