// Make-believe systemctl: hands its words to the manager and prints what the manager answers, as the real one does over
// D-Bus. A client that is killed leaves its job with the manager: that is the point of having two processes.
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common.h"

namespace fake {

int systemctl_main(int argc, char** argv) {
  record_call("systemctl", argc, argv);
  std::string verb;
  std::string message;
  for (int i = 1; i < argc; ++i) {
    if (verb.empty() && argv[i][0] != '-') verb = argv[i];
    // -p X, -s X, -P X and -t X take a word of their own, which is no verb.
    if (verb.empty() && (strcmp(argv[i], "-p") == 0 || strcmp(argv[i], "-P") == 0 || strcmp(argv[i], "-s") == 0) &&
        i + 1 < argc) {
      message += std::string(argv[i]) + '\x1f';
      ++i;
    }
    message += std::string(argv[i]) + '\x1f';
  }
  scripted("systemctl", verb);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strcpy(address.sun_path, "/fake/systemd.sock");
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    say(2, "Failed to connect to bus: No such file or directory\n");
    return 1;
  }
  send(fd, message.data(), message.size(), 0);
  static char buffer[65536];
  for (;;) {
    const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) {
      say(2, "Connection to the manager was lost\n");
      return 1;
    }
    const std::string_view text(buffer + 1, static_cast<size_t>(n) - 1);
    if (buffer[0] == 'O') say(1, text);
    if (buffer[0] == 'E') say(2, text);
    if (buffer[0] == 'X') return atoi(std::string(text).c_str());
  }
}

}  // namespace fake
