#include "mig/caps.h"

#include <catch2/catch_test_macros.hpp>

#include "captured.h"
#include "fakes/fake_files.h"

using namespace mig;

namespace {

const std::vector<GpuInstance> one{{0, "3g.71gb", 9, 1, 4, 4}};

std::vector<Gpu> node() {
  Gpu gpu;
  gpu.bus_id = "00000000:00:06.0";
  return {gpu};
}

const std::string minors =
    "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu3/gi1/access 500\ngpu3/gi1/ci0/access 501\n";

}  // namespace

TEST_CASE("missing capability files are named, by the GPU's minor number and not by its index") {
  fakes::FakeFiles files;
  CHECK(missing_caps(files, node(), one).empty());  // the driver's list cannot be read: nothing is claimed
  files.file("/proc/driver/nvidia-caps/mig-minors", minors);
  CHECK(missing_caps(files, node(), one) ==
        std::vector<std::string>{"/dev/nvidia-caps/nvidia-cap12 (gpu0/gi1/access)",
                                 "/dev/nvidia-caps/nvidia-cap13 (gpu0/gi1/ci0/access)"});
  files.file("/proc/driver/nvidia/gpus/0000:00:06.0/information", "Model: \t NVIDIA H200\nDevice Minor: \t 3\n");
  CHECK(missing_caps(files, node(), one).front() == "/dev/nvidia-caps/nvidia-cap500 (gpu3/gi1/access)");
}

TEST_CASE("capability files that are there are not missing; a plain file is no device") {
  fakes::FakeFiles files;
  files.file("/proc/driver/nvidia-caps/mig-minors", minors)
      .device("/dev/nvidia-caps/nvidia-cap12", 241, 12)
      .file("/dev/nvidia-caps/nvidia-cap13", "");
  CHECK(missing_caps(files, node(), one) ==
        std::vector<std::string>{"/dev/nvidia-caps/nvidia-cap13 (gpu0/gi1/ci0/access)"});
}

TEST_CASE("lines of another form in mig-minors are passed over") {
  const auto parsed = parse_mig_minors("gpu0/gi0/access 3\nbroken\nx y\n a b c\n");
  REQUIRE(parsed.size() == 1);
  CHECK(parsed.at("gpu0/gi0/access") == 3);
}

TEST_CASE("the minor number of the real H200 is read from the driver's file") {
  fakes::FakeFiles files;
  files.file("/proc/driver/nvidia/gpus/0000:00:06.0/information", captured::h200("gpu-information"));
  Gpu gpu = node().front();
  gpu.index = 5;
  CHECK(device_minor(files, gpu) == 0);
  gpu.bus_id = "00000000:00:07.0";
  CHECK(device_minor(files, gpu) == 5);
}

TEST_CASE("a capability file with other numbers than the driver's is another device") {
  fakes::FakeFiles files;
  files.file("/proc/driver/nvidia-caps/mig-minors", minors)
      .file("/proc/devices", "Character devices:\n195 nvidia\n241 nvidia-caps\n242 nvidia-caps-imex-channels\n")
      .device("/dev/nvidia-caps/nvidia-cap12", 241, 12)
      .device("/dev/nvidia-caps/nvidia-cap13", 241, 13);
  CHECK(caps_major(files) == 241);
  CHECK(missing_caps(files, node(), one).empty());
  files.device("/dev/nvidia-caps/nvidia-cap12", 99, 12).device("/dev/nvidia-caps/nvidia-cap13", 241, 14);
  CHECK(
      missing_caps(files, node(), one) ==
      std::vector<std::string>{"/dev/nvidia-caps/nvidia-cap12 (gpu0/gi1/access: it is device 99:12, not 241:12)",
                               "/dev/nvidia-caps/nvidia-cap13 (gpu0/gi1/ci0/access: it is device 241:14, not 241:13)"});
}
