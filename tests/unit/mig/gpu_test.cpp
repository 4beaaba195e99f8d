#include "mig/gpu.h"

#include <catch2/catch_test_macros.hpp>

#include "captured.h"

using namespace mig;

TEST_CASE("a GPU row that cannot be understood is an error, never a GPU with MIG off") {
  for (const char* text : {"No devices were found\n", "0, 00000000:36:00.0, 0x2335\n",
                           "x, 00000000:36:00.0, 0x233510DE, GPU-1, Disabled, Disabled, Enabled, 580, NVIDIA H200\n",
                           "0, 36, 0x233510DE, GPU-1, Disabled, Disabled, Enabled, 580, NVIDIA H200\n",
                           "Field \"nosuch\" is not a valid field to query.\n"}) {
    CAPTURE(text);
    const auto gpus = parse_gpus(text);
    REQUIRE_FALSE(gpus);
    CHECK(gpus.error().code == base::ExitCode::source);
  }
}

TEST_CASE("no row is no GPU") {
  for (const char* text : {"", "\n\n", "WARNING: infoROM is corrupted at gpu 0000:36:00.0\n"}) {
    const auto gpus = parse_gpus(text);
    REQUIRE(gpus);
    CHECK(gpus->empty());
  }
}

TEST_CASE("a GPU twice is an error") {
  CHECK_FALSE(
      parse_gpus("0, 00000000:36:00.0, 0x1, GPU-1, Disabled, Disabled, Enabled, 580, X\n0, 00000000:37:00.0, 0x1, "
                 "GPU-2, Disabled, Disabled, Enabled, 580, X\n"));
  CHECK_FALSE(
      parse_gpus("0, 00000000:36:00.0, 0x1, GPU-1, Disabled, Disabled, Enabled, 580, X\n1, 0000:36:00.0, 0x1, GPU-2, "
                 "Disabled, Disabled, Enabled, 580, X\n"));
}

TEST_CASE("modes: only Enabled and Disabled are modes, N/A is no MIG, anything else is unknown") {
  const auto mode = [](const std::string& current, const std::string& pending) {
    const auto gpus = parse_gpus("0, 00000000:36:00.0, 0x20B010DE, GPU-1, " + current + ", " + pending +
                                 ", Disabled, 580.159.04, NVIDIA A100\n");
    REQUIRE(gpus);
    return gpus->front();
  };
  CHECK(mode("Enabled", "Enabled").on());
  CHECK(mode("Disabled", "Disabled").off());
  const Gpu pending = mode("Disabled", "Enabled");
  CHECK_FALSE(pending.on());
  CHECK_FALSE(pending.off());
  CHECK(pending.mode_words == "Disabled, Enabled");
  CHECK(mode("[N/A]", "[N/A]").current == Mode::unsupported);
  CHECK(mode("N/A", "N/A").off());
  CHECK(mode("[Not Supported]", "[Not Supported]").current == Mode::unsupported);
  CHECK(mode("Requested functionality has been deprecated", "N/A").current == Mode::unsupported);
  CHECK(mode("[Unknown Error]", "[GPU is lost]").current == Mode::unknown);
  CHECK_FALSE(mode("[Unknown Error]", "[Unknown Error]").off());
}

TEST_CASE("all fields, in index order, a comma in the name and a warning line between the rows") {
  const auto gpus = parse_gpus(
      "1, 00000000:37:00.0, 0x233510DE, GPU-2, Enabled, Enabled, Enabled, 580.159.04, NVIDIA H200, special\n"
      "WARNING: infoROM is corrupted at gpu 0000:36:00.0\n"
      "0, 00000000:36:00.0, 0x233510DE, GPU-1, Disabled, Disabled, Disabled, 580.159.04, NVIDIA H200\n");
  REQUIRE(gpus);
  REQUIRE(gpus->size() == 2);
  CHECK(gpus->at(0).bus_id == "00000000:36:00.0");
  CHECK(gpus->at(0).uuid == "GPU-1");
  CHECK_FALSE(gpus->at(0).persistence);
  CHECK(gpus->at(1).name == "NVIDIA H200, special");
  CHECK(gpus->at(1).persistence);
  CHECK(gpus->at(1).device_id == "0x233510DE");
  CHECK(gpus->at(1).driver == "580.159.04");
  CHECK(gpus->at(1).show() == "GPU 1 (00000000:37:00.0)");
}

TEST_CASE("bus ids: what is none, and the spellings of one") {
  for (const char* text : {"", "0", "0-3", "36:00", "x:00.0", "0000:36:00.00", "0000:36:000.0", "1:2:3:4.0", "GPU-1"}) {
    CAPTURE(text);
    CHECK_FALSE(canonical_bus_id(text));
  }
  for (const char* text : {"36:00.0", "0000:36:00.0", "00000000:36:00.0", "00000000:36:00.0 "})
    CHECK(canonical_bus_id(text) == "0:36:00.0");
  CHECK(canonical_bus_id("0001:AB:0C.0") == "1:ab:0c.0");
}

TEST_CASE("compute processes: the header and an empty listing are none") {
  CHECK(parse_compute_apps("").empty());
  CHECK(parse_compute_apps("pid, gpu_uuid, process_name\n").empty());
  const auto apps = parse_compute_apps("4711, GPU-1, /usr/bin/python3, with comma\n[N/A], GPU-1, x\n");
  REQUIRE(apps.size() == 1);
  CHECK(apps[0].pid == "4711");
  CHECK(apps[0].name == "/usr/bin/python3, with comma");
}

TEST_CASE("the real H200 answers the query in the order that was asked for, and has no compute process") {
  const auto gpus = parse_gpus(captured::h200("gpu-query"));
  REQUIRE(gpus);
  REQUIRE(gpus->size() == 1);
  CHECK(gpus->front().bus_id == "00000000:00:06.0");
  CHECK(gpus->front().device_id == "0x233510DE");
  CHECK(gpus->front().off());
  CHECK(gpus->front().persistence);
  CHECK(gpus->front().driver == "580.159.04");
  CHECK(gpus->front().name == "NVIDIA H200");
  CHECK(parse_compute_apps(captured::h200("apps-noheader")).empty());
}
