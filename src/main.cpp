#include <nss.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "cli/run.h"
#include "host/interrupt.h"
#include "host/standard_streams.h"

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

int tell_bug(const char* what) {
  std::fprintf(stderr, "gpu-prolog: this is a bug in gpu-prolog: %s; please report it with the output of --version\n",
               what);
  return base::to_int(base::ExitCode::bug);
}

}  // namespace

int main(int argc, char** argv) {
  pin_name_services();
  host::open_missing_standard_streams();
  host::catch_stop_signals();
  try {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    return cli::run(argc > 0 ? argv[0] : "gpu-prolog", arguments);
  } catch (const std::exception& exception) {
    return tell_bug(exception.what());
  } catch (...) {
    return tell_bug("unknown exception");
  }
}
