#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>

#include "node.hpp"

namespace lab {

Words split(const std::string& text, char separator) {
  Words result;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, separator);) {
    result.push_back(word);
  }
  return result;
}

std::string slurp(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

bool spill(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::trunc);
  out << text;
  out.close();
  return !out.fail();
}

std::string setting(const std::string& path, const std::string& key, const std::string& fallback) {
  for (const auto& line : split(slurp(path), '\n')) {
    if (line.compare(0, key.size() + 1, key + "=") == 0) {
      return line.substr(key.size() + 1);
    }
  }
  return fallback;
}

double monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace lab

int main(int argc, char** argv) {
  const std::string path = argc > 0 ? argv[0] : "";
  const std::string name = path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  const lab::Words words(argv + 1, argv + argc);
  if (name == "systemctl") return lab::systemctl_main(words);
  if (name == "scontrol") return lab::scontrol_main(words);
  if (name == "sudo") return lab::sudo_main(argv);
  if (words.size() == 1 && words[0] == "netns") return lab::netns_main();
  if (words.size() == 2 && words[0] == "node") return lab::node_main(words[1]);
  std::fprintf(stderr, "usage: lab-node netns | lab-node node FOLDER\n");
  return 2;
}
