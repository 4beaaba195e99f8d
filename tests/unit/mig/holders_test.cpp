#include "mig/holders.h"

#include <catch2/catch_test_macros.hpp>

#include "fakes/fake_files.h"

using namespace mig;

namespace {

fakes::FakeFiles& process(fakes::FakeFiles& files, const std::string& pid, const std::string& exe,
                          const std::vector<std::string>& open) {
  files.link("/proc/" + pid + "/exe", exe).directory("/proc/" + pid + "/fd");
  int fd = 3;
  for (const std::string& path : open) files.link("/proc/" + pid + "/fd/" + std::to_string(fd++), path);
  return files;
}

}  // namespace

TEST_CASE("who holds a GPU or a capability is found, nobody else") {
  fakes::FakeFiles files;
  process(files, "100", "/usr/bin/python3", {"/dev/null", "/dev/nvidia1", "/dev/nvidia0", "/dev/nvidia0"});
  process(files, "101", "/usr/bin/version", {"/dev/nvidiactl", "/dev/nvidia-uvm", "/home/x/dev/nvidia0.log"});
  process(files, "102", "/usr/bin/dcgm (deleted)", {"/dev/nvidia-caps/nvidia-cap7"});
  process(files, "103", "/usr/bin/self", {"/dev/nvidia0"});
  files.directory("/proc/sys");
  files.directory("/proc/104/fd")
      .file("/proc/104/comm", "hidden\n")
      .link("/proc/104/fd/3", "/dev/nvidia0");  // its exe cannot be read
  const auto holders = find_holders(files, 103);
  REQUIRE(holders.size() == 3);
  CHECK(holders[0].program == "python3");
  CHECK(holders[0].files == std::vector<std::string>{"/dev/nvidia0", "/dev/nvidia1"});
  CHECK(holders[1].program == "dcgm");
  CHECK(holders[2].program == "hidden");
  CHECK(show(holders[1]) == "dcgm (pid 102: /dev/nvidia-caps/nvidia-cap7)");
}

TEST_CASE("the driver's own services are told apart by their executable") {
  CHECK(is_service({1, "nvidia-persistenced", {}}));
  CHECK(is_service({1, "nv-fabricmanager", {}}));
  CHECK_FALSE(is_service({1, "python3", {}}));
  CHECK_FALSE(is_service({1, "nvidia-persistenced2", {}}));
}

TEST_CASE("modules and persistence mode are named, and nobody where there is nobody") {
  fakes::FakeFiles files;
  files.link("/sys/module/nvidia/holders/nvidia_drm", "x").link("/sys/module/nvidia/holders/nvidia_uvm", "x");
  CHECK(module_holders(files) == std::vector<std::string>{"nvidia_drm"});
  Gpu gpu;
  gpu.persistence = true;
  CHECK(show_holders({}, {"nvidia_drm"}, {gpu}) == "kernel module nvidia_drm, persistence mode on GPU 0");
  CHECK(show_holders({}, {}, {}) == "nobody that can be seen");
}

TEST_CASE("slurmd is told by its executable, also after an upgrade, and not by words of other processes") {
  fakes::FakeFiles files;
  process(files, "100", "/opt/slurm/sbin/slurmd (deleted)", {});
  process(files, "101", "/usr/bin/vim", {"/etc/slurmd"});
  process(files, "102", "/usr/sbin/slurmdbd", {});
  files.file("/proc/103/comm", "slurmd\n");
  CHECK(slurm_daemons(files, 1) == std::vector<std::string>{"slurmd (pid 100)"});
}

TEST_CASE("NVIDIA GPUs and switches on the PCI bus") {
  fakes::FakeFiles files;
  const auto function = [&](const std::string& id, const std::string& vendor, const std::string& device_class) {
    files.file("/sys/bus/pci/devices/" + id + "/vendor", vendor + "\n")
        .file("/sys/bus/pci/devices/" + id + "/class", device_class + "\n");
  };
  CHECK(pci_gpus(files).empty());
  function("0000:36:00.0", "0x10de", "0x030200");
  function("0000:37:00.0", "0x10de", "0x030000");
  function("0000:37:00.1", "0x10de", "0x040300");
  function("0000:00:05.0", "0x1d0f", "0x030200");
  function("0000:f1:00.0", "0x10de", "0x068000");
  CHECK(pci_gpus(files) == std::vector<std::string>{"0000:36:00.0", "0000:37:00.0"});
  CHECK(pci_switches(files) == std::vector<std::string>{"0000:f1:00.0"});
}

TEST_CASE("signs that the boot is over") {
  fakes::FakeFiles files;
  CHECK(boot_finished(files).empty());
  files.directory("/run/systemd/sessions");
  CHECK(boot_finished(files).empty());
  fakes::FakeFiles logged_in;
  logged_in.file("/run/systemd/sessions/1", "");
  CHECK_FALSE(boot_finished(logged_in).empty());
  files.file("/run/cloud-init/result.json", "{}");
  CHECK(boot_finished(files).find("result.json") != std::string::npos);
}
