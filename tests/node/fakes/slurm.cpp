// Make-believe scontrol and getent.
//
// /fake/scontrol/nodes: one node a line: NAME ADDRESS PORT HOSTNAME COMMENT... ("-" for an empty address; the comment
// may hold anything). /fake/scontrol/{topology,config}: what `show topology` and `show config` print. The forms are
// those of Slurm 24.11 to 26.05 as captured in tests/data.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "common.h"

namespace fake {

struct Node {
  std::string name, address, port, host, comment;
};

static std::vector<Node> nodes() {
  std::vector<Node> all;
  for (const std::string& line : split(slurp("/fake/scontrol/nodes"), '\n')) {
    Words words = split(line, '\t');
    if (words.size() < 4) continue;
    Node node{words[0], words[1] == "-" ? "" : words[1], words[2], words[3], words.size() > 4 ? words[4] : ""};
    for (size_t at = 0; (at = node.comment.find("\\n", at)) != std::string::npos;) node.comment.replace(at, 2, "\n");
    all.push_back(node);
  }
  return all;
}

/// Expands prefix[1-3,5]suffix,other as Slurm does; enough for names with one bracket.
static Words hostlist(const std::string& text) {
  Words names;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    int depth = 0;
    while (end < text.size() && (depth > 0 || text[end] != ',')) {
      if (text[end] == '[') ++depth;
      if (text[end] == ']') --depth;
      ++end;
    }
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    const size_t open = item.find('[');
    const size_t close = item.rfind(']');
    if (open == std::string::npos || close == std::string::npos) {
      if (!item.empty()) names.push_back(item);
      continue;
    }
    for (const std::string& range : split(std::string_view(item).substr(open + 1, close - open - 1), ',')) {
      const size_t dash = range.find('-');
      const std::string low = range.substr(0, dash);
      const unsigned long first = strtoul(low.c_str(), nullptr, 10);
      const unsigned long last = dash == std::string::npos ? first : strtoul(range.c_str() + dash + 1, nullptr, 10);
      for (unsigned long n = first; n <= last && names.size() < 70000; ++n) {
        char number[32];
        snprintf(number, sizeof number, "%0*lu", static_cast<int>(low.size()), n);
        names.push_back(item.substr(0, open) + number + item.substr(close + 1));
      }
    }
  }
  return names;
}

static int show_node(const std::string& list) {
  const std::vector<Node> all = nodes();
  int code = 0;
  for (const std::string& name : list.empty() ? Words{} : hostlist(list)) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Node& node) { return node.name == name; });
    if (found == all.end()) {
      say(1, "Node " + name + " not found\n");
      code = 1;
      continue;
    }
    say(1, "NodeName=" + found->name +
               " Arch=aarch64 CoresPerSocket=72  CPUAlloc=144 CPUEfctv=144 CPUTot=144 CPULoad=0.10 "
               "AvailableFeatures=(null) "
               "ActiveFeatures=(null) Gres=gpu:4(S:0-1) " +
               (found->address.empty() ? "" : "NodeAddr=" + found->address + " ") + "NodeHostName=" + found->host +
               " Version=25.11.7 OS=Linux 6.8.0-1030-aws #32 SMP Wed Jun 4 18:14:54 UTC 2025  RealMemory=900000 "
               "AllocMem=0 FreeMem=880000 "
               "Sockets=2 Boards=1 State=ALLOCATED+CLOUD ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
               "Partitions=ultra  "
               "BootTime=2026-05-04T05:50:00 SlurmdStartTime=2026-05-04T05:52:00 LastBusyTime=2026-05-04T06:00:00 "
               "ResumeAfterTime=None "
               "CfgTRES=cpu=144,mem=900000M,billing=144,gres/gpu=4 AllocTRES=cpu=144 CurrentWatts=n/a AveWatts=n/a" +
               (found->comment.empty() ? "" : " " + found->comment) + "\n");
  }
  return code;
}

static bool is_address(const std::string& text) {
  return text.find(':') != std::string::npos ||
         (!text.empty() && text.find_first_not_of("0123456789.") == std::string::npos);
}

static int getaddrs(const std::string& list) {
  const Words wanted = hostlist(list);
  std::string out;
  for (const Node& node :
       nodes()) {  // order of the node table, not of the list; unknown nodes are dropped; exit 0 whatever happens
    if (std::find(wanted.begin(), wanted.end(), node.name) == wanted.end()) continue;
    // One name that the controller cannot resolve empties the whole answer (seen on 24.11).
    if (!is_address(node.address)) return 0;
    const bool six = node.address.find(':') != std::string::npos;
    out += node.name + ": " + (six ? "[" + node.address + "]" : node.address) + ":" + node.port + "\n";
  }
  say(1, out);
  return 0;
}

int scontrol_main(int argc, char** argv) {
  record_call("scontrol", argc, argv);
  Words words;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') {
      if (strspn(argv[i] + 1, "aoQvF") != strlen(argv[i] + 1) && strcmp(argv[i], "--all") != 0 &&
          strcmp(argv[i], "--oneliner") != 0) {
        refuse("scontrol", std::string("option ") + argv[i]);
      }
      continue;
    }
    words.emplace_back(argv[i]);
  }
  if (words.size() >= 1 && words[0] == "getaddrs") {
    scripted("scontrol", "getaddrs");
    return getaddrs(words.size() > 1 ? words[1] : "");
  }
  if (words.size() >= 2 && words[0] == "show") {
    scripted("scontrol", words[1]);
    if (words[1] == "node" || words[1] == "nodes") return show_node(words.size() > 2 ? words[2] : "");
    if (words[1] == "topology" || words[1] == "topo") return say(1, slurp("/fake/scontrol/topology")), 0;
    if (words[1] == "config") return say(1, slurp("/fake/scontrol/config")), 0;
    if (words[1] == "hostnames") {
      for (const std::string& name : hostlist(words.size() > 2 ? words[2] : "")) say(1, name + "\n");
      return 0;
    }
  }
  std::string all;
  for (const std::string& word : words) all += word + " ";
  refuse("scontrol", all);
}

int getent_main(int argc, char** argv) {
  record_call("getent", argc, argv);
  Words words;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--") != 0) words.emplace_back(argv[i]);
  }
  if (words.size() != 2 || !words[0].starts_with("ahosts")) refuse("getent", words.empty() ? "" : words[0]);
  scripted("getent", "ahosts");
  bool found = false;
  for (const std::string& line : split(slurp("/fake/getent/hosts"), '\n')) {  // NAME ADDRESS [ADDRESS...]
    const Words entry = split(line, ' ');
    if (entry.size() < 2 || entry[0] != words[1]) continue;
    for (size_t i = 1; i < entry.size(); ++i) {
      found = true;
      for (const char* kind : {"STREAM", "DGRAM ", "RAW   "}) {
        say(1, entry[i] + std::string(std::max<size_t>(1, 16 - std::min<size_t>(15, entry[i].size())), ' ') + kind +
                   (i == 1 && strcmp(kind, "STREAM") == 0 ? " " + words[1] : "") + "\n");
      }
    }
  }
  return found ? 0 : 2;
}

}  // namespace fake
