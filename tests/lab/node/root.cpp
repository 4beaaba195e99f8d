// The node's own file systems: the machine's root as it is, with everything that a prolog reads or changes put over it.
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "node.hpp"

namespace lab {

namespace fs = std::filesystem;

namespace {

bool mounted(const char* what, const std::string& where, const char* type, unsigned long flags,
             const std::string& options) {
  if (mount(what, where.c_str(), type, flags, options.empty() ? nullptr : options.c_str()) == 0) {
    return true;
  }
  std::fprintf(stderr, "lab-node: mount %s on %s (%s): %s\n", what, where.c_str(), options.c_str(),
               std::strerror(errno));
  return false;
}

bool device(const char* path, unsigned major_number, unsigned minor_number) {
  return mknod(path, S_IFCHR | 0666, makedev(major_number, minor_number)) == 0 && chmod(path, 0666) == 0;
}

}  // namespace

bool make_root(const std::string& folder, const std::string& name) {
  const std::string own = folder + "/nodes/" + name;  // node.conf and etc/ lie here; the private parts go below own/fs
  const std::string store = own + "/fs";
  fs::create_directories(store);
  if (!mounted("none", "/", nullptr, MS_REC | MS_PRIVATE, "") || !mounted("tmpfs", store, "tmpfs", 0, "mode=0755"))
    return false;
  for (const char* part : {"/etc", "/etc.work", "/cgroup"}) fs::create_directories(store + part);

  if (!mounted("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "")) return false;
  if (!mounted("overlay", "/etc", "overlay", 0,
               "lowerdir=/etc,upperdir=" + store + "/etc,workdir=" + store + "/etc.work"))
    return false;
  if (!mounted("overlay", "/usr/bin", "overlay", MS_RDONLY, "lowerdir=" + folder + "/usrbin:/usr/bin")) return false;
  for (const char* place : {"/run", "/var/log", "/dev"}) {
    if (!mounted("tmpfs", place, "tmpfs", 0, "mode=0755")) return false;
  }
  fs::create_directories("/run/lab");
  fs::create_directories("/dev/shm");
  const bool devices = device("/dev/null", 1, 3) && device("/dev/zero", 1, 5) && device("/dev/full", 1, 7) &&
                       device("/dev/random", 1, 8) && device("/dev/urandom", 1, 9) && device("/dev/tty", 5, 0);
  if (!devices) {
    std::fprintf(stderr, "lab-node: cannot make devices: %s\n", std::strerror(errno));
    return false;
  }
  fs::create_symlink("/proc/self/fd", "/dev/fd");
  fs::create_symlink("/proc/self/fd/1", "/dev/stdout");
  fs::create_symlink("/proc/self/fd/2", "/dev/stderr");
  fs::copy(own + "/etc", "/etc", fs::copy_options::recursive | fs::copy_options::overwrite_existing);

  // What the NVIDIA driver shows.
  const std::string conf = own + "/node.conf";
  const std::string channel_major = setting(conf, "major", "234");
  std::string table = slurp("/proc/devices");
  if (channel_major != "none") {
    const auto block = table.find("\nBlock devices:");
    table.insert(block == std::string::npos ? table.size() : block, channel_major + " nvidia-caps-imex-channels\n");
  }
  spill(store + "/devices", table);
  if (!mounted((store + "/devices").c_str(), "/proc/devices", nullptr, MS_BIND, "")) return false;
  if (!mounted("tmpfs", "/proc/driver", "tmpfs", 0, "mode=0755")) return false;
  fs::create_directories("/proc/driver/nvidia");
  spill("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  " +
                                           setting(conf, "driver", "570.172") + "  Release Build\n");
  spill("/proc/driver/nvidia/params", "ImexChannelCount: 2048\nCreateImexChannel0: 0\n");

  // A cgroup of our own: the unit's processes are counted and killed by the kernel, not by name.
  if (!mounted("none", store + "/cgroup", "cgroup2", 0, "")) return false;
  const std::string group = store + "/cgroup/" + setting(conf, "cgroup", "gpu-prolog-lab." + name);
  std::error_code ignored;
  fs::create_directories(group + "/system.slice/nvidia-imex.service", ignored);
  if (!mounted(group.c_str(), "/sys/fs/cgroup", nullptr, MS_BIND, "")) return false;
  return sethostname(name.c_str(), name.size()) == 0;
}

namespace {

bool set_address(int fd, const std::string& interface, const std::string& address, int prefix) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
  auto* where = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
  where->sin_family = AF_INET;
  if (!address.empty()) {
    inet_pton(AF_INET, address.c_str(), &where->sin_addr);
    if (ioctl(fd, SIOCSIFADDR, &request) != 0) return false;
    where->sin_addr.s_addr = htonl(prefix == 0 ? 0 : ~0U << (32 - prefix));
    if (ioctl(fd, SIOCSIFNETMASK, &request) != 0) return false;
  }
  if (ioctl(fd, SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
  return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

}  // namespace

bool make_network(const std::string& interface, const std::string& address, int prefix) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool good = set_address(fd, "lo", "127.0.0.1", 8) && set_address(fd, "lo:imds", "169.254.169.254", 32) &&
                    set_address(fd, interface, address, prefix);
  if (!good)
    std::fprintf(stderr, "lab-node: address %s on %s: %s\n", address.c_str(), interface.c_str(), std::strerror(errno));
  close(fd);
  // Both default ports lie in the ephemeral range: an outgoing connection of the daemon itself could take its own port.
  spill("/proc/sys/net/ipv4/ip_local_reserved_ports", "50000,50005\n");
  return good;
}

}  // namespace lab
