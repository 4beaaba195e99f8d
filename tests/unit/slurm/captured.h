// What real Slurm printed, from tests/data/slurm-VERSION.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/text.h"
#include "host/environment.h"
#include "places.h"

namespace captured {

inline const std::vector<std::string> versions{"24.11", "25.11", "26.05"};

inline std::filesystem::path folder(const std::string& version) { return tests::data_dir() / ("slurm-" + version); }

inline std::string whole_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("no captured file " + path.string());
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Without the capture's own last line "rc=1 ...".
inline std::string answer(const std::string& version, const std::string& name) {
  std::string text = whole_file(folder(version) / name);
  const std::size_t line = text.rfind('\n', text.size() - 2);
  const std::size_t begin = line == std::string::npos ? 0 : line + 1;
  if (text.compare(begin, 3, "rc=") == 0) text.resize(begin);
  return text;
}

// Of scontrol-getaddrs.txt, what came after "$ COMMAND" and before "rc=".
inline std::string after_command(const std::string& version, const std::string& command) {
  const std::string text = whole_file(folder(version) / "scontrol-getaddrs.txt");
  const std::string head = "$ " + command + "\n";
  const std::size_t at = text.find(head);
  if (at == std::string::npos) throw std::runtime_error("no such command in the capture: " + command);
  const std::size_t begin = at + head.size();
  return text.substr(begin, text.find("rc=", begin) - begin);
}

inline host::Environment environment(const std::filesystem::path& path) {
  std::map<std::string, std::string> values;
  const std::string text = whole_file(path);
  for (const std::string_view line : base::lines(text)) {
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) continue;
    values[std::string(line.substr(0, equals))] = std::string(line.substr(equals + 1));
  }
  return host::Environment(values);
}

struct Script {
  std::string name;  // job7.prolog_slurmd.node1
  unsigned long job = 0;
  host::Environment environment;
};

// Every Prolog and Epilog that ran.
inline std::vector<Script> scripts(const std::string& version) {
  std::vector<Script> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder(version) / "prolog-env")) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".nodes")) continue;
    all.push_back({name, std::stoul(name.substr(3)), environment(entry.path())});
  }
  return all;
}

// Kind and sbatch options of a job; array tasks and het components belong to the row before them.
struct Kind {
  std::string name;
  std::string options;
};

inline std::map<unsigned long, Kind> kinds(const std::string& version) {
  std::map<unsigned long, Kind> all;
  const std::string text = whole_file(folder(version) / "jobs.tsv");
  for (const std::string_view line : base::lines(text)) {
    const auto fields = base::split(line, '\t');
    all[std::stoul(std::string(fields.at(1)))] = {std::string(fields.at(0)), std::string(fields.at(2))};
  }
  return all;
}

}  // namespace captured
