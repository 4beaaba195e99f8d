#include "mig/slurm_view.h"

#include <catch2/catch_test_macros.hpp>

#include "base/text.h"

using namespace mig;

TEST_CASE("a node's record: none, another node's among many, keys forged in a person's text") {
  CHECK_FALSE(parse_node_record("", "n1"));
  CHECK_FALSE(parse_node_record("Node n1 not found\n", "n1"));
  CHECK_FALSE(parse_node_record("NodeName=n2 Gres=gpu:1\nNodeName=n3 Gres=gpu:1\n", "n1"));
  const auto record = parse_node_record("NodeName=n1 Gres=(null) State=IDLE Comment=Gres=gpu:8 State=DOWN\n", "n1");
  REQUIRE(record);
  CHECK(record->gres == "(null)");
  CHECK(record->state == "IDLE");
}

TEST_CASE("a node's record by its host name, with the reason to the end of the line") {
  const auto record = parse_node_record(
      "NodeName=n2 NodeHostName=x Gres=gpu:1\n"
      "NodeName=gpu-1 Arch=x86_64 Gres=gpu:3g.71gb:2(S:0-1) NodeAddr=10.0.0.1 NodeHostName=ip-10-0-0-1 "
      "State=IDLE+DRAIN Reason=gres/gpu count reported lower than configured (0 < 2) [root@now]\n",
      "ip-10-0-0-1");
  REQUIRE(record);
  CHECK(record->name == "gpu-1");
  CHECK(record->gres == "gpu:3g.71gb:2(S:0-1)");
  CHECK(record->reason.find("lower than configured (0 < 2)") != std::string::npos);
}

TEST_CASE("slurmd -G: lines of other gres and none at all") {
  CHECK(parse_slurmd_gres("").entries.empty());
  CHECK(parse_slurmd_gres("slurmd: error: no such option\nslurmd: Gres Name=craynetwork Count=4\n").entries.empty());
  const auto seen = parse_slurmd_gres(
      "slurmd: Gres Name=gpu Type=1g.18gb Count=1 Index=0 ID=7696487 File=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap12 "
      "Links=(null) Flags=HAS_FILE,HAS_TYPE,ENV_NVML,MIG\n"
      "Gres Name=gpu Type=1g.18gb Count=1 Index=1 ID=7696487\n"
      "slurmd: Gres Name=gpu Type=(null) Count=2\n");
  CHECK(gres_text(seen.entries) == "gpu:1g.18gb:2,gpu:2");
  CHECK(seen.whole.empty());
}

TEST_CASE("slurmd -G against what exists: by type, not by number") {
  const std::vector<DeviceCount> mix{
      {"NVIDIA H200", "3g.71gb", 2}, {"NVIDIA H200", "2g.35gb", 2}, {"NVIDIA H200", "1g.18gb", 4}};
  const std::vector<DeviceCount> sevens{{"NVIDIA H200", "7g.141gb", 2}};
  const std::vector<DeviceCount> wholes{{"NVIDIA H200", "", 2}};
  const auto row = [](const std::string& type, unsigned count, const std::string& file) {
    return "slurmd: Gres Name=gpu Type=" + type + " Count=" + std::to_string(count) + " ID=7696487" + file + "\n";
  };
  const std::string gpu = " File=/dev/nvidia0 Links=(null)";
  const std::string cap = " File=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap12 Links=(null)";
  const auto faults = [](const std::string& text, const std::vector<DeviceCount>& devices) {
    return base::join(slurmd_faults(parse_slurmd_gres(text), devices), "; ");
  };
  CHECK(faults(row("3g.71gb", 2, cap) + row("2g.35gb", 2, cap) + row("1g.18gb", 4, cap), mix).empty());
  CHECK(faults(row("nvidia_h200_3g.71gb", 2, gpu) + row("(null)", 6, cap), mix).empty());
  CHECK(faults(row("(null)", 8, ""), mix).empty());
  CHECK(faults(row("7g.141gb", 8, cap), mix).find("gpu:7g.141gb:8, of which 0 exist") != std::string::npos);
  CHECK(faults(row("3g.71gb", 20, cap), mix).find("of which 2 exist") != std::string::npos);
  CHECK(faults(row("3g.71gb", 2, cap), mix).find("nvidia_h200_1g.18gb (4) is not in it") != std::string::npos);
  // One type for all, as configured, takes MIG devices; a GPU's own file alone is a whole GPU.
  CHECK(faults(row("h200", 2, cap), sevens).empty());
  CHECK(faults(row("nvidia_h200", 2, gpu), sevens).find("gpu:nvidia_h200:2 (whole GPUs), of which 0 exist") !=
        std::string::npos);
  CHECK(faults(row("(null)", 2, gpu), sevens).find("whole GPUs") != std::string::npos);
  CHECK(faults(row("nvidia_h200", 2, gpu), wholes).empty());
  CHECK(faults(row("h200", 1, gpu), wholes).find("nvidia_h200 (1) is not in it") != std::string::npos);
  std::vector<DeviceCount> both = sevens;
  both.push_back({"NVIDIA H200", "", 3});
  CHECK(faults(row("nvidia_h200", 3, gpu) + row("nvidia_h200_7g.141gb", 2, cap), both).empty());
  CHECK(faults(row("nvidia_h200", 5, gpu), both).find("of which 3 exist") != std::string::npos);
}

TEST_CASE("slurmd.log: only what its newest start complains of counts") {
  const std::string old_start =
      "[2026-05-03T06:08:10.580] error: Discarding the following config-only GPU due to lack of File specification:\n"
      "[2026-05-03T06:08:10.600] slurmd version 25.11.2 started\n"
      "[2026-05-03T09:00:00.000] Slurmd shutdown completing\n";
  const std::string new_start = "[2026-05-04T06:08:10.600] slurmd version 25.11.2 started\n";
  CHECK(complaints("").empty());
  CHECK(complaints(old_start + new_start).empty());
  CHECK(complaints(old_start).size() == 1);
  const auto found =
      complaints(old_start + "[2026-05-04T06:08:10.500] warning: The following autodetected GPUs are being ignored:\n" +
                 new_start);
  REQUIRE(found.size() == 1);
  CHECK(found.front().find("autodetected GPUs are being ignored") != std::string::npos);
}

TEST_CASE("slurmd.log: every word of a GPU that slurmd cannot use is known") {
  for (const char* line :
       {"error: MIG mode is enabled, but no MIG devices were found", "error: nvmlDeviceGetName: Insufficient Size",
        "fatal: We were configured with nvml functionality, but that lib wasn't found on the system."}) {
    CAPTURE(line);
    CHECK(
        complaints(std::string("[2026-05-04T06:08:10.600] slurmd version 25.11.2 started\n[2026-05-04T06:08:11.000] ") +
                   line + "\n")
            .size() == 1);
  }
}
