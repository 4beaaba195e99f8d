// Make-believe nvidia-imex and nvidia-imex-ctl.
//
// /fake/imex/conf: ignore_term=1, die_after=MS, exit=CODE (before it is ready), never_ready=1, leftover=1 (a child that
// TERM does not end), no_port=1, no_strict=1 (do not insist on an own address in the list). /fake/imex/list: the node
// list that the running daemon read at its start; /fake/imex/pid: its process.
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "common.h"

namespace fake {

static const std::string conf = "/fake/imex/conf";

static std::string config_value(const std::string& key, const std::string& fallback) {
  const std::string value = setting("/etc/nvidia-imex/config.cfg", key, fallback);
  return value.empty() ? fallback : value;
}

static std::set<std::string> own_addresses() {
  std::set<std::string> all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (entry->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(entry->ifa_addr)->sin_addr, text, sizeof text);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6*>(entry->ifa_addr)->sin6_addr, text, sizeof text);
    }
    all.insert(text);
  }
  freeifaddrs(list);
  return all;
}

static Words entries(const std::string& text) {
  Words all;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty() && line[0] != '#') all.push_back(line);
  }
  return all;
}

static void listen_on(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(fd, 16) != 0) {
    append_line("/fake/imex/log", "port " + std::to_string(port) + " is busy");
    _exit(1);
  }
}

int imex_main(int argc, char** argv) {
  record_call("nvidia-imex", argc, argv);
  if (argc > 1 && strcmp(argv[1], "--version") == 0) {
    say(1, "IMEX version is: 580.95.05\n");
    return 0;
  }
  prctl(PR_SET_NAME, "nvidia-imex");
  const char* notify_text = getenv("FAKE_NOTIFY_FD");
  const int notify = notify_text != nullptr ? atoi(notify_text) : -1;
  if (notify >= 0) fcntl(notify, F_SETFD, FD_CLOEXEC);
  if (setting(conf, "ignore_term", "0") == "1") {
    signal(SIGTERM, SIG_IGN);
  } else {
    signal(SIGTERM, SIG_DFL);
  }
  const std::string list = slurp(config_value("IMEX_NODE_CONFIG_FILE", "/etc/nvidia-imex/nodes_config.cfg"));
  const Words peers = entries(list);
  append_line("/fake/imex/starts", "{\"time\":" + std::to_string(realtime()) + ",\"pid\":" + std::to_string(getpid()) +
                                       ",\"list\":" + json_string(list) + "}");
  if (const std::string code = setting(conf, "exit", ""); !code.empty()) return atoi(code.c_str());
  if (peers.empty()) return 0;  // an empty configuration: the real one ends with 0, too
  if (setting(conf, "no_strict", "0") != "1") {
    const std::set<std::string> own = own_addresses();
    if (std::none_of(peers.begin(), peers.end(), [&](const std::string& peer) { return own.count(peer) != 0; })) {
      append_line("/fake/imex/log", "No matching network interface found");
      return 1;
    }
  }
  if (setting(conf, "never_ready", "0") == "1") {
    for (;;) pause();
  }
  if (setting(conf, "no_port", "0") != "1") {
    listen_on(atoi(config_value("SERVER_PORT", "50000").c_str()));
    if (config_value("IMEX_CMD_ENABLED", "1") == "1") listen_on(atoi(config_value("IMEX_CMD_PORT", "50005").c_str()));
  }
  if (setting(conf, "leftover", "0") == "1") {
    signal(SIGTERM, SIG_IGN);  // from its first moment on, the child must not be ended by TERM
    const pid_t child = fork();
    if (child == 0) {
      if (notify >= 0) close(notify);
      for (;;) pause();
    }
    signal(SIGTERM, SIG_DFL);
    append_line("/fake/imex/leftover", std::to_string(child));
  }
  spill("/fake/imex/list", list);
  spill("/fake/imex/pid", std::to_string(getpid()));
  if (const std::string last = setting(conf, "die_after", ""); !last.empty()) {
    if (notify >= 0) say(notify, "R");
    sleep_ms(atol(last.c_str()));
    return 1;
  }
  if (notify >= 0) say(notify, "R");
  if (notify >= 0) close(notify);
  for (;;) pause();
}

static bool alive() {
  const int pid = atoi(slurp("/fake/imex/pid").c_str());
  return pid > 0 && kill(pid, 0) == 0;
}

/// /fake/nvidia-imex-ctl/cells: lines "FROM TO WORD STATUS" change one cell of the matrix; everything else is
/// connected.
static std::string matrix(bool json) {
  const Words peers = entries(slurp("/fake/imex/list"));
  const std::string word = "CONNECTED";
  std::string out;
  if (json) {
    out = "{\"nodes\":{";
    for (size_t i = 0; i < peers.size(); ++i) {
      out += (i ? "," : "") + json_string(std::to_string(i)) +
             ":{\"status\":\"READY\",\"host\":" + json_string(peers[i]) +
             ",\"version\":\"580.95.05\",\"changed\":true,\"connections\":{";
      for (size_t k = 0; k < peers.size(); ++k) {
        out += (k ? "," : "") + json_string(std::to_string(k)) + ":{\"host\":" + json_string(peers[k]) +
               ",\"status\":" + json_string(word) + ",\"changed\":true}";
      }
      out += "}}";
    }
    return out + "},\"timestamp\":\"5/4/2026 06:08:10.580\",\"status\":\"UP\"}\n";
  }
  out =
      "Connectivity Table Legend:\nI - Invalid - Node wasn't reachable, no connection status available\nN - Never "
      "Connected\nR - Recovering - "
      "Connection was lost, but clean up has not yet been triggered.\nD - Disconnected - Connection was lost, and "
      "clean up has been "
      "triggreed.\nA - Authenticating - If GSSAPI enabled, client has initiated mutual authentication.\n!V! - Version "
      "mismatch, "
      "communication disabled.\n!M! - Node map mismatch, communication disabled.\nC - Connected - Ready for "
      "operation\n\n5/4/2026 "
      "06:08:10.580\nNodes:\n";
  for (size_t i = 0; i < peers.size(); ++i) {
    out += "Node #" + std::to_string(i) + "   - " + peers[i] + "   - READY   - Version: 580.95.05\n";
  }
  out += "\n Nodes From\\To ";
  for (size_t i = 0; i < peers.size(); ++i) out += " " + std::to_string(i) + "  ";
  out += "\n";
  for (size_t i = 0; i < peers.size(); ++i) {
    out += "       " + std::to_string(i) + "       ";
    for (size_t k = 0; k < peers.size(); ++k) out += " C  ";
    out += "\n";
  }
  return out + "Domain State: UP\n";
}

int imex_ctl_main(int argc, char** argv) {
  record_call("nvidia-imex-ctl", argc, argv);
  bool query = false;
  bool nodes = false;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "-c" || word == "-u" || word == "-t") {
      ++i;
    } else if (word == "-i") {
      i += 2;
    } else if (word == "-q") {
      query = true;
    } else if (word == "-N" || word == "-n") {
      nodes = true;
    } else if (word == "-j") {
      json = true;
    } else if (word == "-Nj" || word == "-jN") {
      nodes = json = true;
    } else if (word != "-H") {
      refuse("nvidia-imex-ctl", "option " + word);
    }
  }
  if (query == nodes) refuse("nvidia-imex-ctl", "neither -q nor -N, or both");
  scripted("nvidia-imex-ctl", query ? "q" : json ? "Nj" : "N");
  if (!alive()) {
    say(2, "Query Status returned error code: 14\n");
    return 14;
  }
  if (query) {
    say(1, "READY\n");
  } else {
    say(1, matrix(json));
  }
  return 0;
}

}  // namespace fake
