#include <nss.h>

#include <cstdio>
#include <cstring>

#include "base/build_info.h"

namespace {

// A static glibc would load the host's libnss_*.so, and with it a second libc, for any service that nsswitch.conf names
// beyond files and dns (myhostname, resolve, sss, ...), and dies there with SIGFPE. So the services are fixed here.
void pin_name_services() {
  for (const char* database : {"aliases", "ethers", "group", "gshadow", "initgroups", "netgroup", "networks", "passwd",
                               "protocols", "publickey", "rpc", "services", "shadow"}) {
    __nss_configure_lookup(database, "files");
  }
  __nss_configure_lookup("hosts", "files dns");
}

}  // namespace

int main(int argc, char** argv) {
  pin_name_services();
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    const base::BuildInfo info = base::build_info();
    std::printf("gpu-prolog %.*s (%.*s, %.*s)\n", static_cast<int>(info.version.size()), info.version.data(),
                static_cast<int>(info.commit.size()), info.commit.data(), static_cast<int>(info.architecture.size()),
                info.architecture.data());
    return 0;
  }
  return 2;
}
