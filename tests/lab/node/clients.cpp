// What a prolog runs inside a node: systemctl, scontrol, sudo.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "node.hpp"

namespace lab {

int systemctl_main(const Words& words) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::strcpy(where.sun_path, kManagerSocket.c_str());
  if (connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof(where)) != 0) {
    std::fprintf(stderr, "Failed to connect to bus: No such file or directory\n");
    return 1;
  }
  std::string message;
  for (const auto& word : words) message += word + '\x1f';
  send(fd, message.data(), message.size(), 0);
  static char buffer[65536];
  for (;;) {
    const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    if (got <= 0) {
      std::fprintf(stderr, "Connection to the manager was lost\n");
      return 1;
    }
    const std::string text(buffer + 1, static_cast<std::size_t>(got) - 1);
    if (buffer[0] == 'O') std::fputs(text.c_str(), stdout);
    if (buffer[0] == 'E') std::fputs(text.c_str(), stderr);
    if (buffer[0] == 'X') return std::atoi(text.c_str());
  }
}

namespace {

struct Known {
  std::string name, address;
};

std::vector<Known> known_nodes() {
  std::vector<Known> result;
  for (const auto& line : split(slurp("/etc/slurm/lab-nodes"), '\n')) {
    const auto parts = split(line, ' ');
    if (parts.size() == 2) result.push_back({parts[0], parts[1]});
  }
  return result;
}

/// `gb[1-3,7],other` as Slurm expands it: one pair of brackets a word, zero padding kept.
Words expand(const std::string& list) {
  Words result;
  std::string word;
  int depth = 0;
  Words entries;
  for (const char c : list + ",") {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      if (!word.empty()) entries.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  for (const auto& entry : entries) {
    const auto open = entry.find('[');
    const auto close = entry.find(']');
    if (open == std::string::npos || close == std::string::npos) {
      result.push_back(entry);
      continue;
    }
    for (const auto& range : split(entry.substr(open + 1, close - open - 1), ',')) {
      const auto ends = split(range, '-');
      const int width = static_cast<int>(ends[0].size());
      for (int i = std::atoi(ends[0].c_str()); i <= std::atoi(ends.back().c_str()); ++i) {
        char number[16];
        std::snprintf(number, sizeof(number), "%0*d", width, i);
        result.push_back(entry.substr(0, open) + number + entry.substr(close + 1));
      }
    }
  }
  return result;
}

}  // namespace

int scontrol_main(const Words& words) {
  Words plain;
  for (const auto& word : words) {
    if (word == "-a" || word == "-o" || word == "-ao" || word == "-oa") continue;
    if (word.rfind("-", 0) == 0) {
      std::fprintf(stderr, "scontrol: unrecognized option '%s'\n", word.c_str());
      return 1;
    }
    plain.push_back(word);
  }
  const auto nodes = known_nodes();
  const auto find = [&nodes](const std::string& name) {
    return std::find_if(nodes.begin(), nodes.end(), [&name](const Known& node) { return node.name == name; });
  };
  if (plain.size() == 2 && plain[0] == "getaddrs") {
    const Words wanted = expand(plain[1]);
    for (const auto& node : nodes) {  // the order of the node table, as the real one
      if (std::find(wanted.begin(), wanted.end(), node.name) != wanted.end()) {
        std::printf("%s: %s:6818\n", node.name.c_str(), node.address.c_str());
      }
    }
    return 0;
  }
  if (plain.size() == 3 && plain[0] == "show" && plain[1] == "node") {
    int code = 0;
    for (const auto& name : expand(plain[2])) {
      const auto node = find(name);
      if (node == nodes.end()) {
        std::printf("Node %s not found\n", name.c_str());
        code = 1;
        continue;
      }
      std::printf(
          "NodeName=%s Arch=aarch64 CoresPerSocket=72  CPUAlloc=144 CPUEfctv=144 CPUTot=144 CPULoad=0.10 "
          "AvailableFeatures=(null) "
          "ActiveFeatures=(null) Gres=gpu:4 NodeAddr=%s NodeHostName=%s Version=25.05.3 OS=Linux 6.8.0-aws "
          "RealMemory=960000 "
          "State=ALLOCATED Partitions=ultra\n",
          node->name.c_str(), node->address.c_str(), node->name.c_str());
    }
    return code;
  }
  if (plain.size() == 3 && plain[0] == "show" && plain[1] == "hostnames") {
    for (const auto& name : expand(plain[2])) std::printf("%s\n", name.c_str());
    return 0;
  }
  if (plain.size() == 2 && plain[0] == "show" && plain[1] == "topology") {
    std::fputs(slurp("/etc/slurm/lab-topology").c_str(), stdout);
    return 0;
  }
  std::fprintf(stderr, "scontrol: the lab does not know this request\n");
  return 1;
}

int sudo_main(char** argv) {
  if (argv[0] == nullptr || argv[1] == nullptr) return 1;
  execvp(argv[1], argv + 1);
  return 127;
}

}  // namespace lab
