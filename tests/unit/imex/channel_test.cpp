// channel0: what of /proc/devices counts, and every state of the device and its folder that a node can be in.
#include "imex/channel.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <fstream>
#include <iterator>

#include "fakes/fake_files.h"
#include "fakes/memory_log.h"
#include "places.h"

using Outcome = imex::Channel::Outcome;
using Changes = std::vector<std::string>;

namespace {

const std::string folder = "/dev/nvidia-caps-imex-channels";
const std::string channel0 = folder + "/channel0";
const std::string made_channel = "make_char_device " + channel0 + " 234:0 0666";

struct Node {
  fakes::FakeFiles files;
  fakes::MemoryLog log;

  Node() {
    files.file("/proc/devices",
               "Character devices:\n  1 mem\n195 nvidia\n234 nvidia-caps-imex-channels\n\nBlock devices:\n");
    files.directory("/dev").allow_changes();
  }
  base::Result<imex::Channel> ensure() { return imex::ensure_channel(files, log); }
};

std::string captured_devices() {
  std::ifstream stream(tests::data_dir() / "nvidia-smi-580-h200" / "devices.txt", std::ios::binary);
  REQUIRE(stream);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("a name that only resembles the channel driver's is another driver's") {
  for (const char* name : {"nvidia-caps-imex-channel", "nvidia-caps-imex-channels2", "xnvidia-caps-imex-channels",
                           "nvidia-caps", "NVIDIA-CAPS-IMEX-CHANNELS", "nvidia-caps-imex-channels:"}) {
    INFO(name);
    CHECK(imex::parse_channel_major("Character devices:\n234 " + std::string(name) + "\n") == std::nullopt);
  }
}

TEST_CASE("a line of another form is not taken for a major") {
  for (const char* line :
       {"nvidia-caps-imex-channels", "nvidia-caps-imex-channels 234", "234 nvidia-caps-imex-channels x",
        "0 nvidia-caps-imex-channels", "4096 nvidia-caps-imex-channels", "-234 nvidia-caps-imex-channels",
        "0x234 nvidia-caps-imex-channels", "99999999999999999999 nvidia-caps-imex-channels",
        "234nvidia-caps-imex-channels"}) {
    INFO(line);
    CHECK(imex::parse_channel_major("Character devices:\n" + std::string(line) + "\n") == std::nullopt);
  }
  CHECK(imex::parse_channel_major("") == std::nullopt);
}

TEST_CASE("a block device of that name has another number space") {
  CHECK(imex::parse_channel_major("Character devices:\n  1 mem\n\nBlock devices:\n234 nvidia-caps-imex-channels\n") ==
        std::nullopt);
}

TEST_CASE("the kernel pads majors below 100 with spaces") {
  CHECK(imex::parse_channel_major("Character devices:\n 99 nvidia-caps-imex-channels\n") == 99U);
  CHECK(imex::parse_channel_major("Character devices:\n  9 nvidia-caps-imex-channels\n") == 9U);
}

TEST_CASE("the major of a real H200 node is found among its neighbours") {
  CHECK(imex::parse_channel_major(captured_devices()) == 242U);
}

TEST_CASE("without a major the guide's advice is given and /dev is left alone") {
  Node node;
  node.files.file("/proc/devices", "Character devices:\n195 nvidia\n");
  const auto channel = node.ensure();
  REQUIRE_FALSE(channel);
  CHECK(channel.error().code == base::ExitCode::change);
  CHECK(channel.error().blame == base::Blame::local);
  CHECK(channel.error().what == "no IMEX channel device: /proc/devices has no nvidia-caps-imex-channels");
  CHECK(channel.error().cure.find("verify that the NVIDIA driver is installed and loaded (`nvidia-smi`)") == 0);
  CHECK(node.files.changes.empty());
}

TEST_CASE("an unreadable /proc/devices is told as such") {
  Node node;
  node.files.fail_read("/proc/devices", EIO);
  const auto channel = node.ensure();
  REQUIRE_FALSE(channel);
  CHECK(channel.error().code == base::ExitCode::change);
  CHECK(channel.error().what.find("/proc/devices") != std::string::npos);
  CHECK(node.files.changes.empty());
}

TEST_CASE("a channel that cannot be opened for another reason than a missing driver fails") {
  Node node;
  node.files.probe_answers(channel0, EACCES);
  const auto channel = node.ensure();
  REQUIRE_FALSE(channel);
  CHECK(channel.error().code == base::ExitCode::change);
  CHECK(channel.error().what == "cannot open " + channel0 + ": Permission denied");
  CHECK(channel.error().cure.find("nodev") != std::string::npos);
}

TEST_CASE("a folder that cannot be made, a device that cannot be made: told with their place") {
  Node node;
  SECTION("folder") { node.files.fail_change(folder, EROFS); }
  SECTION("device") { node.files.fail_change(channel0, EPERM); }
  SECTION("a folder stands where channel0 belongs") { node.files.directory(channel0).fail_change(channel0, EISDIR); }
  const auto channel = node.ensure();
  REQUIRE_FALSE(channel);
  CHECK(channel.error().code == base::ExitCode::change);
  CHECK(channel.error().what.find(folder) != std::string::npos);
  CHECK_FALSE(channel.error().cure.empty());
}

TEST_CASE("a device that is still wrong after it was made is no success") {
  // Something else that manages /dev puts its own device back at once.
  class Contended : public fakes::FakeFiles {
   public:
    base::Status make_char_device(const std::string& path, unsigned, unsigned, mode_t) override {
      device(path, 99, 7);
      return base::ok();
    }
  };
  Contended files;
  files.file("/proc/devices", "Character devices:\n234 nvidia-caps-imex-channels\n").directory("/dev").allow_changes();
  fakes::MemoryLog log;
  const auto channel = imex::ensure_channel(files, log);
  REQUIRE_FALSE(channel);
  CHECK(channel.error().code == base::ExitCode::change);
  CHECK(channel.error().what.find("still wrong (device 99:7 instead of 234:0)") != std::string::npos);
}

TEST_CASE("no driver behind the major is a warning: the channel can be right before the fabric is") {
  for (const int error : {ENXIO, ENODEV}) {
    Node node;
    node.files.probe_answers(channel0, error);
    const auto channel = node.ensure();
    REQUIRE(channel);
    CHECK(channel->outcome == Outcome::made);
    CHECK(node.log.has("WARN " + channel0 + " exists, but no driver answers behind device 234:0"));
  }
}

TEST_CASE("a missing channel is made, with its folder") {
  Node node;
  const auto channel = node.ensure();
  REQUIRE(channel);
  CHECK(channel->outcome == Outcome::made);
  CHECK(node.files.changes == Changes{"make_directory " + folder + " 0755", made_channel});
  CHECK(imex::describe(*channel) == "made " + channel0 + " (device 234:0, mode 0666)");
  CHECK(node.log.lines.empty());
}

TEST_CASE("a right channel is left alone") {
  Node node;
  node.files.directory(folder).device(channel0, 234, 0);
  const auto channel = node.ensure();
  REQUIRE(channel);
  CHECK(channel->outcome == Outcome::right_already);
  CHECK(node.files.changes.empty());
}

TEST_CASE("whatever else is at channel0's place is repaired, and it is said what it was") {
  Node node;
  node.files.directory(folder);
  std::string was;
  SECTION("another major, as after a driver reload") {
    node.files.device(channel0, 511, 0);
    was = "device 511:0 instead of 234:0";
  }
  SECTION("another channel's minor") {
    node.files.device(channel0, 234, 1);
    was = "device 234:1 instead of 234:0";
  }
  SECTION("a plain file, as a program leaves that writes to a missing device") {
    node.files.file(channel0, "");
    was = "no character device";
  }
  SECTION("a link, which is not followed") {
    node.files.device("/dev/other", 234, 0).link(channel0, "/dev/other");
    was = "no character device";
  }
  SECTION("another user's device, who could take the mode away again") {
    node.files.device(channel0, 234, 0);
    node.files.tree.at(channel0).status.uid = 1000;
    was = "owned by uid 1000";
  }
  const auto channel = node.ensure();
  REQUIRE(channel);
  CHECK(channel->outcome == Outcome::repaired);
  CHECK(channel->found == was);
  CHECK(node.files.changes == Changes{made_channel});
  CHECK(imex::describe(*channel).find("it was: " + was) != std::string::npos);
  CHECK(imex::find_channel_fault(node.files).value() == "");
}

TEST_CASE("a wrong mode alone is set, the device stays") {
  Node node;
  node.files.directory(folder).device(channel0, 234, 0, 0600);
  CHECK(imex::find_channel_fault(node.files).value() == "mode 0600 instead of 0666");
  const auto channel = node.ensure();
  REQUIRE(channel);
  CHECK(channel->outcome == Outcome::repaired);
  CHECK(node.files.changes == Changes{"set_permissions " + channel0 + " 0666"});
}

TEST_CASE("a wrong folder is put right") {
  Node node;
  SECTION("its mode") {
    node.files.directory(folder, 0700).device(channel0, 234, 0);
    REQUIRE(node.ensure());
    CHECK(node.files.changes == Changes{"make_directory " + folder + " 0755"});
  }
  SECTION("a plain file in its place") {
    node.files.file(folder, "");
    REQUIRE(node.ensure());
    CHECK(node.files.changes == Changes{"remove " + folder, "make_directory " + folder + " 0755", made_channel});
  }
}

TEST_CASE("a look at the channel changes nothing") {
  fakes::FakeFiles files;  // throws on a change
  files.file("/proc/devices", "Character devices:\n234 nvidia-caps-imex-channels\n");
  CHECK(imex::find_channel_fault(files).value() == "missing");
}
