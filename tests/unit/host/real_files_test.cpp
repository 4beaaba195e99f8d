// Files on the real disk. What needs root or a mount says so by being skipped aloud.
#include "host/real_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <set>

#include "host/descriptor.h"
#include "temporary_folder.h"

using host::FileStatus;
using host::RealFiles;
using host::Root;
using tests::content_of;
using tests::names_in;
using tests::TemporaryFolder;

namespace {

const std::string old_list = "10.0.0.1\n10.0.0.2\n";
const std::string new_list = "10.0.0.1\n10.0.0.2\n10.0.0.3\n";

mode_t mode_of(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777U : 0;
}

// A small file system of a test's own, mounted at `where` in the mount namespace of this process.
class SmallMount {
 public:
  explicit SmallMount(const std::string& where) : where_(where) {
    mkdir(where.c_str(), 0755);
    mounted_ = mount("tmpfs", where.c_str(), "tmpfs", 0, "size=64k,nr_inodes=20") == 0;
  }
  ~SmallMount() {
    if (mounted_) umount2(where_.c_str(), MNT_DETACH);
  }
  SmallMount(const SmallMount&) = delete;
  SmallMount& operator=(const SmallMount&) = delete;
  bool mounted() const { return mounted_; }
  bool remount(unsigned long flags) const {
    return mount("tmpfs", where_.c_str(), "tmpfs", MS_REMOUNT | flags, nullptr) == 0;
  }

 private:
  std::string where_;
  bool mounted_ = false;
};

// Runs in a child, so that limits and identities set there are gone afterwards.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

// --- reading

TEST_CASE("a file is read whole up to the limit and not beyond") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  const std::string path = folder.file("a", std::string("x\0y", 3), 0644);
  CHECK(files.read(path, 3).value() == std::string("x\0y", 3));
  CHECK(files.read(path, 100).value().size() == 3);
  const auto too_long = files.read(path, 2);
  REQUIRE_FALSE(too_long);
  CHECK(too_long.error().os_error == EFBIG);
  CHECK(too_long.error().what == "cannot read " + path + ": it is larger than 2 bytes");
  CHECK(files.read(folder.file("empty", "", 0644), 0).value().empty());
  const std::string big(300'000, 'b');
  CHECK(files.read(folder.file("big", big, 0644), 300'000).value() == big);
  CHECK_FALSE(files.read(folder / "big", 299'999));
}

TEST_CASE("files of /proc, which have no size, are read to their end") {
  RealFiles files{Root()};
  const auto stat = files.read("/proc/self/stat", 4096);
  REQUIRE(stat);
  CHECK(stat->starts_with(std::to_string(getpid()) + " ("));
  CHECK(files.read("/proc/devices", 1U << 20U)->find("Character devices:") != std::string::npos);
}

TEST_CASE("what is no regular file is not read and never blocks") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0644) == 0);
  const auto fifo = files.read(folder / "fifo", 100);
  REQUIRE_FALSE(fifo);
  CHECK(fifo.error().os_error == EINVAL);
  CHECK(fifo.error().code == base::ExitCode::surroundings);
  CHECK(fifo.error().what == "cannot read " + folder / "fifo" + ": it is a FIFO and not a regular file");
  CHECK(files.read("/dev/zero", 100).error().os_error == EINVAL);
  CHECK(files.read(folder.path(), 100).error().os_error == EISDIR);
  CHECK(files.read(folder / "missing", 100).error().os_error == ENOENT);
  CHECK(files.read("relative", 100).error().os_error == EINVAL);
  CHECK(files.read(std::string("/a\0b", 4), 100).error().os_error == EINVAL);
  std::filesystem::create_symlink("fifo", folder / "link");
  CHECK(files.read(folder / "link", 100).error().os_error == EINVAL);
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(files.read(folder / "loop", 100).error().os_error == ELOOP);
}

TEST_CASE("a status tells kind, permissions, size and device numbers, and a link as a link") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  folder.file("a", "12345", 0640);
  std::filesystem::create_symlink("a", folder / "link");
  mkfifo((folder / "fifo").c_str(), 0600);
  const auto file = files.status(folder / "a").value();
  REQUIRE(file.has_value());
  CHECK(file->kind == FileStatus::Kind::regular);
  CHECK(file->permissions == 0640);
  CHECK(file->size == 5);
  CHECK(file->uid == geteuid());
  CHECK(file->modified_ns > 1'600'000'000'000'000'000);
  CHECK(files.status(folder / "link").value()->kind == FileStatus::Kind::link);
  CHECK(files.status(folder / "fifo").value()->kind == FileStatus::Kind::fifo);
  CHECK(files.status(folder.path()).value()->kind == FileStatus::Kind::directory);
  const auto null = files.status("/dev/null").value();
  REQUIRE(null.has_value());
  CHECK(null->kind == FileStatus::Kind::char_device);
  CHECK(null->device_major == 1);
  CHECK(null->device_minor == 3);
  CHECK_FALSE(files.status(folder / "missing").value().has_value());
  CHECK_FALSE(files.status(folder / "a/below a file").value().has_value());
}

TEST_CASE("links are read and folders are listed in the order of bytes") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  std::filesystem::create_symlink("/some/where", folder / "link");
  CHECK(files.read_link(folder / "link").value() == "/some/where");
  CHECK(files.read_link(folder.file("b", "", 0644)).error().os_error == EINVAL);
  folder.file("B", "", 0644);
  folder.file(".hidden", "", 0644);
  CHECK(files.list(folder.path()).value() == std::vector<std::string>{".hidden", "B", "b", "link"});
  CHECK(files.list(folder / "b").error().os_error == ENOTDIR);
  CHECK(files.list(folder / "missing").error().os_error == ENOENT);
}

TEST_CASE("opening a device says what is behind it") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  CHECK(files.probe_device("/dev/null") == 0);
  CHECK(files.probe_device(folder / "missing") == ENOENT);
  CHECK(files.probe_device(folder.file("file", "", 0644)) == ENODEV);
  std::filesystem::create_symlink("/dev/null", folder / "link");
  CHECK(files.probe_device(folder / "link") == ELOOP);
  if (mknod((folder / "nobody").c_str(), S_IFCHR | 0666, makedev(235, 0)) != 0) SKIP("the rest needs root (mknod)");
  CHECK(files.probe_device(folder / "nobody") == ENXIO);
}

TEST_CASE("local file systems are not taken for network file systems") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  CHECK_FALSE(files.on_network_file_system(folder.path()).value());
  CHECK_FALSE(files.on_network_file_system(folder / "not/there/yet").value());
  CHECK_FALSE(files.on_network_file_system("/proc/self/stat").value());
}

TEST_CASE("what lies in memory or on an overlay does not survive a reboot, also through links and before it is there") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  for (const char* place : {"lower", "upper", "work", "memory", "ram", "overlay"})
    std::filesystem::create_directory(folder / place);
  const std::string layers =
      "lowerdir=" + folder / "lower" + ",upperdir=" + folder / "upper" + ",workdir=" + folder / "work";
  const bool mounted = mount("none", (folder / "memory").c_str(), "tmpfs", 0, nullptr) == 0 &&
                       mount("none", (folder / "ram").c_str(), "ramfs", 0, nullptr) == 0 &&
                       mount("none", (folder / "overlay").c_str(), "overlay", 0, layers.c_str()) == 0;
  std::filesystem::create_symlink(folder / "memory", folder / "link");
  std::filesystem::create_symlink(folder / "memory/marker.json", folder / "file-link");
  std::vector<bool> kept;
  for (const char* path : {"memory", "memory/a/b.json", "ram/a", "overlay/a", "link/a"}) {
    const auto answer = files.survives_reboot(folder / path);
    kept.push_back(!answer || *answer);
  }
  for (const char* place : {"memory", "ram", "overlay"}) umount2((folder / place).c_str(), MNT_DETACH);
  if (!mounted) SKIP("needs root, tmpfs, ramfs and overlay");
  CHECK(kept == std::vector<bool>(5, false));
  CHECK_FALSE(files.survives_reboot("/dev/shm/x").value());
  if (files.survives_reboot(folder.path()).value()) {
    CHECK(files.survives_reboot(folder / "upper/not/there").value());
    CHECK(files.survives_reboot(folder / "file-link").value());  // a file put there replaces the link
  }
}

TEST_CASE("a file on a FUSE mount is told as one that several nodes may share, and a dead daemon does not hold us") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  std::filesystem::create_directory(folder / "shared");
  // Nobody answers on this descriptor. The kernel tells the type alone, since the mount is said to be another user's.
  const host::Descriptor daemon(open("/dev/fuse", O_RDWR | O_CLOEXEC));
  const std::string options = "fd=" + std::to_string(daemon.get()) + ",rootmode=40000,user_id=1234,group_id=1234";
  if (!daemon || mount("fuse", (folder / "shared").c_str(), "fuse", 0, options.c_str()) != 0) {
    SKIP("needs root and /dev/fuse");
  }
  const auto answer = files.on_network_file_system(folder / "shared/nodes_config.cfg");
  umount2((folder / "shared").c_str(), MNT_DETACH);
  REQUIRE(answer);
  CHECK(*answer);
}

// --- replace

TEST_CASE("a file is made and replaced with exactly the content and mode, whatever the umask") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  const mode_t former = umask(077);
  CHECK(files.replace(folder / "nodes_config.cfg", old_list, 0644));
  CHECK(mode_of(folder / "nodes_config.cfg") == 0644);
  umask(0);
  CHECK(files.replace(folder / "nodes_config.cfg", new_list, 0600));
  umask(former);
  CHECK(mode_of(folder / "nodes_config.cfg") == 0600);
  CHECK(content_of(folder / "nodes_config.cfg") == new_list);
  CHECK(files.replace(folder / "nodes_config.cfg", "", 0644));
  CHECK(content_of(folder / "nodes_config.cfg").empty());
  CHECK(names_in(folder.path()) == std::set<std::string>{"nodes_config.cfg"});
}

TEST_CASE("a link, a FIFO or a socket in the file's place is replaced and its target left alone") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  folder.file("target", "precious", 0600);
  std::filesystem::create_symlink("target", folder / "a");
  CHECK(files.replace(folder / "a", new_list, 0644));
  CHECK(content_of(folder / "target") == "precious");
  CHECK(mode_of(folder / "target") == 0600);
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(folder / "a")));
  mkfifo((folder / "b").c_str(), 0644);
  CHECK(files.replace(folder / "b", new_list, 0644));
  CHECK(content_of(folder / "b") == new_list);
}

TEST_CASE("a file whose other name is a hard link elsewhere keeps that one's content") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  folder.file("other", "precious", 0600);
  REQUIRE(link((folder / "other").c_str(), (folder / "a").c_str()) == 0);
  CHECK(files.replace(folder / "a", new_list, 0644));
  CHECK(content_of(folder / "other") == "precious");
}

TEST_CASE("a folder in the file's place is an error and stays") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  std::filesystem::create_directory(folder / "a");
  const auto replaced = files.replace(folder / "a", new_list, 0644);
  REQUIRE_FALSE(replaced);
  CHECK(replaced.error().code == base::ExitCode::change);
  CHECK(replaced.error().os_error == EISDIR);
  CHECK(names_in(folder.path()) == std::set<std::string>{"a"});
}

TEST_CASE("a missing folder is an error that names it") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  const auto replaced = files.replace(folder / "no/a", new_list, 0644);
  REQUIRE_FALSE(replaced);
  CHECK(replaced.error().what ==
        "cannot replace " + folder / "no/a" + ": cannot open its folder: no such file or directory");
  CHECK_FALSE(files.replace("/", "x", 0644));
  CHECK_FALSE(files.replace(folder / "..", "x", 0644));
}

TEST_CASE("on a full disk the old file stays and no temporary file is left") {
  const TemporaryFolder folder;
  const SmallMount disk(folder / "disk");
  if (!disk.mounted()) SKIP("needs root (a small tmpfs)");
  RealFiles files{Root()};
  const std::string path = folder / "disk/nodes_config.cfg";
  REQUIRE(files.replace(path, old_list, 0644));
  folder.file("disk/filler", "", 0644);
  const int filler = open((folder / "disk/filler").c_str(), O_WRONLY | O_APPEND);
  const std::string block(4096, 'f');
  while (write(filler, block.data(), block.size()) > 0) {
  }
  close(filler);
  const auto replaced = files.replace(path, new_list, 0644);
  REQUIRE_FALSE(replaced);
  CHECK(replaced.error().os_error == ENOSPC);
  CHECK(replaced.error().what == "cannot replace " + path + ": no space left on device");
  CHECK(replaced.error().cure == "make room on that file system");
  CHECK(files.rehearse_replace(path, new_list, 0644).error().os_error == ENOSPC);
  CHECK(content_of(path) == old_list);
  CHECK(names_in(folder / "disk") == std::set<std::string>{"filler", "nodes_config.cfg"});
}

TEST_CASE("a rehearsal of a replace says what the replace would and leaves everything as it is") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  folder.file("a", old_list, 0644);
  CHECK(files.rehearse_replace(folder / "a", new_list, 0600));
  CHECK(files.rehearse_replace(folder / "new", new_list, 0600));
  CHECK(content_of(folder / "a") == old_list);
  CHECK(mode_of(folder / "a") == 0644);
  CHECK(names_in(folder.path()) == std::set<std::string>{"a"});
  CHECK(files.rehearse_replace(folder / "no/a", new_list, 0644).error().os_error == ENOENT);
  std::filesystem::create_directory(folder / "d");
  CHECK(files.rehearse_replace(folder / "d", new_list, 0644).error().os_error == EISDIR);
}

TEST_CASE("on a read-only file system the old file stays") {
  const TemporaryFolder folder;
  const SmallMount disk(folder / "disk");
  if (!disk.mounted()) SKIP("needs root (a tmpfs)");
  RealFiles files{Root()};
  const std::string path = folder / "disk/a";
  REQUIRE(files.replace(path, old_list, 0644));
  REQUIRE(disk.remount(MS_RDONLY));
  CHECK(files.replace(path, new_list, 0644).error().os_error == EROFS);
  CHECK(files.rehearse_replace(path, new_list, 0644).error().os_error == EROFS);
  CHECK(files.make_directory(folder / "disk/b", 0755).error().os_error == EROFS);
  CHECK(files.make_char_device(folder / "disk/c", 235, 0, 0666).error().os_error == EROFS);
  CHECK(files.set_permissions(path, 0600).error().os_error == EROFS);
  CHECK(files.remove(path).error().os_error == EROFS);
  CHECK(files.remove(folder / "disk/never-there"));
  CHECK(content_of(path) == old_list);
  REQUIRE(disk.remount(0));
}

TEST_CASE("a file size limit stops the write and the old file stays") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  folder.file("a", old_list, 0644);
  const int error = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);  // as main does
    const rlimit limit{10, 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto replaced = files.replace(folder / "a", new_list, 0644);
    return replaced ? 0 : replaced.error().os_error;
  });
  CHECK(error == EFBIG);
  CHECK(content_of(folder / "a") == old_list);
  CHECK(names_in(folder.path()) == std::set<std::string>{"a"});
}

TEST_CASE("a folder that we may not write is an error with a cure") {
  const TemporaryFolder folder;
  chmod(folder.path().c_str(), 0555);
  RealFiles files{Root()};
  const int error = in_child([&] {
    if (geteuid() == 0 && setuid(65534) != 0) return 99;
    const auto replaced = files.replace(folder / "a", new_list, 0644);
    return replaced || replaced.error().cure.empty() ? 0 : replaced.error().os_error;
  });
  chmod(folder.path().c_str(), 0755);
  CHECK(error == EACCES);
}

TEST_CASE("what a killed run left is removed by the next replace of the same file, and nothing else is") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  folder.file(".a.gpu-prolog-0123456789abcdef", "torn", 0600);       // left by a killed run
  folder.file(".b.gpu-prolog-0123456789abcdef", "another's", 0600);  // of another file
  folder.file(".a.gpu-prolog-0123456789abcdeg", "no digits", 0600);  // not ours
  folder.file(".a.gpu-prolog-0123456789abcde", "too short", 0600);   // not ours
  const std::string held = folder.file(".a.gpu-prolog-fedcba9876543210", "living", 0600);
  const host::Descriptor holder(open(held.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(flock(holder.get(), LOCK_EX | LOCK_NB) == 0);
  CHECK(files.replace(folder / "a", new_list, 0644));
  CHECK(names_in(folder.path()) ==
        std::set<std::string>{"a", ".b.gpu-prolog-0123456789abcdef", ".a.gpu-prolog-0123456789abcdeg",
                              ".a.gpu-prolog-0123456789abcde", ".a.gpu-prolog-fedcba9876543210"});
}

TEST_CASE("a replace that is killed at any moment leaves the whole old or the whole new file") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  const std::string path = folder.file("a", std::string(200'000, '0'), 0644);
  for (int round = 0; round < 40; ++round) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (int i = 0;; ++i) {
        if (!files.replace(path, std::string(200'000, static_cast<char>('0' + i % 10)), 0644)) _exit(1);
      }
    }
    usleep(static_cast<useconds_t>(500 + round * 317));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    const std::string content = content_of(path);
    REQUIRE(content.size() == 200'000);
    REQUIRE(content.find_first_not_of(content.front()) == std::string::npos);
    REQUIRE(names_in(folder.path()).size() <= 2);
  }
  CHECK(files.replace(path, new_list, 0644));
  CHECK(names_in(folder.path()) == std::set<std::string>{"a"});
}

TEST_CASE("several runs that replace one file at the same time all succeed") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  const std::string path = folder / "a";
  std::vector<pid_t> children;
  for (int number = 0; number < 4; ++number) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (int i = 0; i < 50; ++i) {
        // Another run's file may be there by the time it is read back: said as such, and no other error.
        const auto replaced = files.replace(path, std::string(1000, static_cast<char>('a' + number)), 0644);
        if (!replaced && replaced.error().os_error != 0) {
          std::fprintf(stderr, "%s\n", replaced.error().what.c_str());
          _exit(1);
        }
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  const std::string content = content_of(path);
  CHECK(content.size() == 1000);
  CHECK(content.find_first_not_of(content.front()) == std::string::npos);
  CHECK(names_in(folder.path()) == std::set<std::string>{"a"});
}

// --- folders, devices, names

TEST_CASE("a folder gets exactly its mode whatever the umask, also one that is there") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  const mode_t former = umask(077);
  CHECK(files.make_directory(folder / "d", 0755));
  umask(former);
  CHECK(mode_of(folder / "d") == 0755);
  chmod((folder / "d").c_str(), 0700);
  CHECK(files.make_directory(folder / "d", 0755));
  CHECK(mode_of(folder / "d") == 0755);
  const auto without_parent = files.make_directory(folder / "x/y", 0755);
  CHECK(without_parent.error().os_error == ENOENT);
}

TEST_CASE("a link or file in a folder's place is refused and stays") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  std::filesystem::create_directory(folder / "elsewhere");
  chmod((folder / "elsewhere").c_str(), 0700);
  std::filesystem::create_symlink("elsewhere", folder / "d");
  const auto made = files.make_directory(folder / "d", 0755);
  REQUIRE_FALSE(made);
  CHECK(made.error().os_error == ENOTDIR);
  CHECK(made.error().what == "cannot make the folder " + folder / "d" + " with mode 0755: a link is in its place");
  CHECK(mode_of(folder / "elsewhere") == 0700);
  folder.file("f", "", 0644);
  CHECK(files.make_directory(folder / "f", 0755).error().os_error == ENOTDIR);
}

TEST_CASE("a device is made with its numbers and mode, whatever the umask and whatever is in its place") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  const std::string path = folder / "channel0";
  const mode_t former = umask(077);
  const auto made = files.make_char_device(path, 235, 0, 0666);
  umask(former);
  if (!made && made.error().os_error == EPERM) {
    CHECK(made.error().code == base::ExitCode::change);
    CHECK(names_in(folder.path()).empty());
    SKIP("the rest needs root (mknod)");
  }
  REQUIRE(made);
  const auto is_right = [&](unsigned device_major) {
    const auto status = files.status(path).value();
    return status && status->kind == FileStatus::Kind::char_device && status->device_major == device_major &&
           status->device_minor == 0 && status->permissions == 0666;
  };
  CHECK(is_right(235));
  CHECK(files.make_char_device(path, 236, 0, 0666));  // wrong numbers
  CHECK(is_right(236));
  unlink(path.c_str());
  folder.file("channel0", "a file", 0600);
  CHECK(files.make_char_device(path, 235, 0, 0666));
  CHECK(is_right(235));
  unlink(path.c_str());
  folder.file("target", "precious", 0600);
  std::filesystem::create_symlink("target", path);
  CHECK(files.make_char_device(path, 235, 0, 0666));
  CHECK(is_right(235));
  CHECK(content_of(folder / "target") == "precious");
  CHECK(mode_of(folder / "target") == 0600);
  unlink(path.c_str());
  mknod((folder / ".channel0.gpu-prolog-0123456789abcdef").c_str(), S_IFCHR | 0600, makedev(235, 0));  // a killed run's
  CHECK(files.make_char_device(path, 235, 0, 0666));
  CHECK(names_in(folder.path()) == std::set<std::string>{"channel0", "target"});
  unlink(path.c_str());
  std::filesystem::create_directory(path);  // as a container runtime does where the device was missing
  CHECK(files.make_char_device(path, 235, 0, 0666));
  CHECK(is_right(235));
  unlink(path.c_str());
  std::filesystem::create_directories(path + "/precious");
  CHECK(files.make_char_device(path, 235, 0, 0666).error().os_error == ENOTEMPTY);
  CHECK(names_in(folder.path()) == std::set<std::string>{"channel0", "target"});
  CHECK(names_in(path) == std::set<std::string>{"precious"});
}

TEST_CASE("permissions are set on the thing itself and never through a link") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  folder.file("a", "", 0600);
  CHECK(files.set_permissions(folder / "a", 0666));
  CHECK(mode_of(folder / "a") == 0666);
  std::filesystem::create_symlink("a", folder / "link");
  CHECK(files.set_permissions(folder / "link", 0600).error().os_error == ELOOP);
  CHECK(mode_of(folder / "a") == 0666);
  CHECK(files.set_permissions(folder / "missing", 0600).error().os_error == ENOENT);
}

TEST_CASE("a rename moves the name, and over file systems it is an error that changes nothing") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  folder.file("a", "content", 0644);
  CHECK(files.rename(folder / "a", folder / "b"));
  CHECK(names_in(folder.path()) == std::set<std::string>{"b"});
  CHECK(files.rename(folder / "missing", folder / "c").error().os_error == ENOENT);
  const SmallMount disk(folder / "disk");
  if (!disk.mounted()) SKIP("the rest needs root (a second file system)");
  const auto across = files.rename(folder / "b", folder / "disk/b");
  REQUIRE_FALSE(across);
  CHECK(across.error().os_error == EXDEV);
  CHECK(content_of(folder / "b") == "content");
}

TEST_CASE("removing works for files and links, is content with nothing there and refuses a folder") {
  const TemporaryFolder folder;
  RealFiles files{Root()};
  folder.file("target", "precious", 0644);
  std::filesystem::create_symlink("target", folder / "link");
  CHECK(files.remove(folder / "link"));
  CHECK(content_of(folder / "target") == "precious");
  CHECK(files.remove(folder / "link"));
  CHECK(files.remove(folder / "no/folder"));
  CHECK(files.remove(folder / "target"));
  CHECK(names_in(folder.path()).empty());
  std::filesystem::create_directory(folder / "d");
  CHECK(files.remove(folder / "d").error().os_error == EISDIR);
}

// --- under a root

TEST_CASE("under a root every path stays inside, absolute links and dots included") {
  const TemporaryFolder folder;
  RealFiles files{Root(folder.path() + "/")};
  folder.file("etc/a", "the root's", 0644);
  folder.file("proc/devices", "Character devices:\n235 nvidia-caps-imex-channels\n", 0644);
  std::filesystem::create_symlink("/etc/a", folder / "absolute");
  std::filesystem::create_symlink("../../../../../../etc/a", folder / "dots");
  std::filesystem::create_symlink("/etc/a", folder / "etc/deeper");
  std::filesystem::create_symlink("/etc", folder / "folder");
  std::filesystem::create_symlink("/proc/self/root/etc/hostname", folder / "out");
  CHECK(files.read("/etc/a", 100).value() == "the root's");
  CHECK(files.read("/absolute", 100).value() == "the root's");
  CHECK(files.read("/etc/deeper", 100).value() == "the root's");
  CHECK(files.read("/dots", 100).value() == "the root's");
  CHECK(files.read("/folder/a", 100).value() == "the root's");
  CHECK(files.read("/folder/../../../etc/./a", 100).value() == "the root's");
  CHECK(files.read("/out", 100).error().os_error == ENOENT);
  CHECK(files.read("/etc/hostname", 100).error().os_error == ENOENT);
  CHECK(files.read_link("/absolute").value() == "/etc/a");
  CHECK(files.status("/absolute").value()->kind == FileStatus::Kind::link);
  CHECK(files.read("/proc/devices", 100).value().find("235 nvidia-caps-imex-channels") != std::string::npos);
  CHECK(files.status("/").value()->kind == FileStatus::Kind::directory);

  CHECK(files.replace("/folder/b", new_list, 0644));
  CHECK(content_of(folder / "etc/b") == new_list);
  CHECK(files.replace("/absolute", new_list, 0644));
  CHECK(content_of(folder / "etc/a") == "the root's");
  CHECK(files.make_directory("/folder/d", 0755));
  CHECK(files.rename("/folder/b", "/folder/d/b"));
  CHECK(content_of(folder / "etc/d/b") == new_list);
  CHECK(files.remove("/folder/d/b"));
  CHECK(names_in(folder / "etc/d").empty());
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(files.read("/loop/x", 100).error().os_error == ELOOP);
}

TEST_CASE("under a root processes and the network are the kernel's, and the boot id where the root has none") {
  const TemporaryFolder folder;
  RealFiles files{Root(folder.path())};
  folder.file("proc/devices", "x", 0644);
  folder.file("proc/4194305/stat", "not a process", 0644);
  const std::string own = std::to_string(getpid());
  CHECK(files.read("/proc/" + own + "/stat", 4096).value().starts_with(own));
  CHECK(files.read("/proc/self/stat", 4096).value().starts_with(own));
  CHECK(files.read("/proc/net/tcp", 1U << 24U));
  const auto names = files.list("/proc").value();
  CHECK(std::count(names.begin(), names.end(), own) == 1);
  CHECK(std::count(names.begin(), names.end(), "devices") == 1);
  CHECK(std::count(names.begin(), names.end(), "cpuinfo") == 0);
  CHECK(std::count(names.begin(), names.end(), "4194305") == 0);
  const std::string kernels = content_of("/proc/sys/kernel/random/boot_id");
  CHECK(files.read("/proc/sys/kernel/random/boot_id", 100).value() == kernels);
  folder.file("proc/sys/kernel/random/boot_id", "saved\n", 0644);
  CHECK(files.read("/proc/sys/kernel/random/boot_id", 100).value() == "saved\n");
}
