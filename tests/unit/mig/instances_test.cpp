#include "mig/instances.h"

#include <catch2/catch_test_macros.hpp>

#include "captured.h"

using namespace mig;

TEST_CASE("instance listings that say nothing or something else are errors, not an empty GPU") {
  for (const char* text :
       {"", "Unknown Error\n", "+----+\n| GPU instances:\n", "|   0  MIG 3g.20gb       9        1  |\n",
        "|   0  MIG 3g.20gb       9        1          4 |\n",
        "|   x  MIG 3g.20gb       9        1          4:4     |\n"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_gpu_instances(text));
  }
  CHECK_FALSE(parse_compute_instances(""));
  CHECK_FALSE(parse_compute_instances("|   0      1       MIG 3g.20gb           2  |\n"));
  CHECK_FALSE(parse_compute_instances("|   0      x       MIG 3g.20gb           2         0          0:3     |\n"));
}

TEST_CASE("-lgi in the widths of three drivers") {
  for (const char* text : {"|   0  MIG 3g.20gb       9        1          4:4     |\n",
                           "|   0  MIG 3g.20gb          9        1          4:4     |\n",
                           "|   0  MIG 3g.20gb            9        1          4:4     |\n"}) {
    const auto instances = parse_gpu_instances(
        std::string("+-----+\n| GPU instances:   |\n| GPU   Name   Profile  Instance   Placement  |\n") + text);
    REQUIRE(instances);
    REQUIRE(instances->size() == 1);
    CHECK(instances->front().profile == "3g.20gb");
    CHECK(instances->front().profile_id == 9);
    CHECK(instances->front().id == 1);
    CHECK(instances->front().start == 4);
    CHECK(instances->front().size == 4);
  }
}

TEST_CASE("-lci with and without placement, parts of a GPU instance") {
  const auto instances = parse_compute_instances(
      "|   0      1       MIG 3g.20gb           2         0          0:3     |\n"
      "|   0      2       MIG 1c.3g.20gb        0         1                  |\n");
  REQUIRE(instances);
  REQUIRE(instances->size() == 2);
  CHECK(instances->at(0).gpu_instance == 1);
  CHECK(instances->at(0).name == "3g.20gb");
  CHECK(instances->at(1).name == "1c.3g.20gb");
  CHECK(instances->at(1).id == 1);
}

TEST_CASE("-L: MIG devices in both paddings and with the UUIDs of old drivers") {
  const auto devices = parse_devices(
      "GPU 0: A100-SXM4-40GB (UUID: GPU-1)\n"
      "  MIG 3g.20gb Device 0: (UUID: MIG-a)\n"
      "  MIG 1g.24gb     Device  1: (UUID: MIG-GPU-1/1/0)\n"
      "GPU 10: X (UUID: GPU-2)\n"
      "  MIG 1g.24gb+me  Device  0: (UUID: MIG-c)\n");
  REQUIRE(devices.size() == 3);
  CHECK(devices[0].gpu == 0);
  CHECK(devices[0].uuid == "MIG-a");
  CHECK(devices[1].uuid == "MIG-GPU-1/1/0");
  CHECK(devices[2].gpu == 10);
  CHECK(devices[2].name == "1g.24gb+me");
  CHECK(parse_devices(captured::h200("L")).empty());
}

TEST_CASE("-L: the GPUs of the real listing") {
  const auto gpus = parse_listed_gpus(captured::h200("L"));
  REQUIRE(gpus.size() == 1);
  CHECK(gpus[0].name == "NVIDIA H200");
  CHECK(gpus[0].uuid == "GPU-11111111-2222-3333-4444-555555555555");
}
