#include "host/machine.h"

#include <signal.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "host/os_error.h"

namespace host {

namespace {

// sync() waits for every disk; one that does not answer (a dead NFS server) must not keep the machine from rebooting.
void write_disks(std::chrono::milliseconds limit) {
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    sync();
    _exit(0);
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    if (waitpid(child, nullptr, WNOHANG) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(child, SIGKILL);
}

}  // namespace

base::Status RealMachine::reboot_now() {
  using base::ExitCode;
  if (!root_.is_node_itself()) {
    return base::Error{ExitCode::change, "cannot reboot: --root " + root_.directory() + " is not this machine", ""};
  }
  write_disks(std::chrono::seconds(10));
  if (reboot(RB_AUTOBOOT) != 0) return os_failure(ExitCode::change, "cannot reboot", errno);
  return base::Error{ExitCode::change, "the kernel took the reboot call and did not reboot",
                     "reboot this node by hand"};
}

}  // namespace host
