#include "slurm/conf.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "site/site.h"

namespace slurm {

namespace {

constexpr std::size_t deepest_include = 8;
constexpr std::size_t most_files = 64;
// A slurm.conf of 10,000 nodes with a line for each has about 1 MiB; one of some hundred partitions has about as many
// settings as bytes here have KiB. The file is read before the gate of every job: it must cost nothing.
constexpr std::size_t most_bytes = 4U << 20U;
constexpr std::size_t most_settings = 32'768;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' || c == '\n'; }

bool is_key_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Up to a '#' that has an even number of backslashes before it (parse_config.c, _strip_comments).
std::string_view without_comment(std::string_view line) {
  std::size_t backslashes = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '#' && backslashes % 2 == 0) return line.substr(0, at);
    backslashes = line[at] == '\\' ? backslashes + 1 : 0;
  }
  return line;
}

// An odd number of backslashes at the end (spaces after them do not count) joins the next line
// (_strip_continuation); the last of them is dropped.
bool strip_continuation(std::string_view& line) {
  std::size_t end = line.size();
  while (end > 0 && is_space(line[end - 1])) --end;
  std::size_t backslashes = 0;
  while (backslashes < end && line[end - 1 - backslashes] == '\\') ++backslashes;
  if (backslashes % 2 == 0) return false;
  line = line.substr(0, end - 1);
  return true;
}

std::string without_escapes(std::string_view line) {
  std::string plain;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\\' && ++at == line.size()) break;
    plain += line[at];
  }
  return plain;
}

// Logical lines: comments gone, continuations joined, escapes undone.
class LogicalLines {
 public:
  explicit LogicalLines(std::string_view text) : lines_(text), at_(lines_.begin()) {}

  bool next(std::string& line) {
    if (at_ == lines_.end()) return false;
    std::string joined;
    while (at_ != lines_.end()) {
      std::string_view part = without_comment(*at_);
      ++at_;
      const bool goes_on = strip_continuation(part);
      joined += part;
      if (!goes_on) break;
    }
    line = without_escapes(joined);
    return true;
  }

 private:
  base::EachLine lines_;
  base::EachLine::Iterator at_;
};

struct Pair {
  std::string key;  // lower case
  std::string value;
};

// The next Key=Value of a line (parse_config.c, keyvalue_pattern): spaces around '=', an operator before it,
// a value in quotes may hold spaces. nullopt: nothing more, or no such form; Slurm stops there as well.
std::optional<Pair> next_pair(std::string_view& rest) {
  std::size_t at = 0;
  const auto skip_spaces = [&] {
    while (at < rest.size() && is_space(rest[at])) ++at;
  };
  skip_spaces();
  const std::size_t key_begin = at;
  while (at < rest.size() && is_key_char(rest[at])) ++at;
  const std::string_view key = rest.substr(key_begin, at - key_begin);
  if (key.empty()) return std::nullopt;
  skip_spaces();
  if (at < rest.size() && std::strchr("-*+/", rest[at]) != nullptr) ++at;
  if (at == rest.size() || rest[at] != '=') return std::nullopt;
  ++at;
  skip_spaces();
  std::string_view value;
  if (at < rest.size() && rest[at] == '"') {
    const std::size_t close = rest.find('"', at + 1);
    const bool whole = close != std::string_view::npos && (close + 1 == rest.size() || is_space(rest[close + 1]));
    if (whole) {
      value = rest.substr(at + 1, close - at - 1);
      rest.remove_prefix(close + 1);
      return Pair{base::lower(key), std::string(value)};
    }
  }
  const std::size_t begin = at;
  while (at < rest.size() && !is_space(rest[at])) ++at;
  if (at == begin) return std::nullopt;
  value = rest.substr(begin, at - begin);
  rest.remove_prefix(at);
  return Pair{base::lower(key), std::string(value)};
}

// Keys whose line is one record: what follows on it describes that record and is nothing global.
bool begins_record(std::string_view key) {
  static constexpr std::array<std::string_view, 7> keys{"nodename",     "partitionname", "nodeset",  "downnodes",
                                                        "frontendname", "switchname",    "blockname"};
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::optional<std::uint64_t> number(const Conf& conf, std::string_view key) {
  const auto value = conf.get(key);
  return value ? base::parse_number(*value) : std::nullopt;
}

// 65534 is how Slurm writes "not set" in 16 bits, 65535 is INFINITE.
std::optional<std::chrono::milliseconds> limit(const Conf& conf, std::string_view own, std::string_view common) {
  const auto seconds = number(conf, conf.get(own) ? own : common);
  if (!seconds || *seconds == 0 || *seconds >= 65'534) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

std::chrono::milliseconds seconds_or_default(const Conf& conf, std::string_view key) {
  const auto seconds = number(conf, key);
  return std::chrono::seconds(seconds && *seconds > 0 && *seconds < 65'534 ? *seconds : 10);
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

std::optional<std::string> Conf::get(std::string_view key) const {
  const std::string wanted = base::lower(key);
  for (auto at = values_.rbegin(); at != values_.rend(); ++at) {
    if (at->first == wanted) return at->second;
  }
  return std::nullopt;
}

std::vector<std::string> Conf::all(std::string_view key) const {
  const std::string wanted = base::lower(key);
  std::vector<std::string> found;
  for (const auto& [at, value] : values_) {
    if (at == wanted) found.push_back(value);
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> Conf::of_partitions(std::string_view key) const {
  const std::string wanted = base::lower(key);
  std::string inherited;
  std::vector<std::pair<std::string, std::string>> found;
  std::map<std::string_view, std::size_t> place;
  for (const auto& record : partitions_) {
    const std::string& name = record.at("partitionname");
    const auto own = record.find(wanted);
    if (base::equals_ignoring_case(name, "DEFAULT")) {
      if (own != record.end()) inherited = own->second;
      continue;
    }
    const auto [at, is_new] = place.emplace(name, found.size());
    if (is_new) found.emplace_back(name, inherited);
    if (own != record.end()) found[at->second].second = own->second;
  }
  return found;
}

std::map<std::string, std::string> Conf::partition(std::string_view name) const {
  std::map<std::string, std::string> defaults;
  std::map<std::string, std::string> found;
  for (const auto& record : partitions_) {
    const std::string& record_name = record.at("partitionname");
    if (base::equals_ignoring_case(record_name, "default")) {
      for (const auto& [key, value] : record) defaults[key] = value;
    } else if (record_name == name) {
      if (found.empty()) found = defaults;
      for (const auto& [key, value] : record) found[key] = value;
    }
  }
  return found;
}

std::optional<std::string> Conf::take(std::string_view line) {
  std::string_view rest = base::trim(line);
  constexpr std::string_view include = "include";
  if (rest.size() > include.size() && base::equals_ignoring_case(rest.substr(0, include.size()), include) &&
      is_space(rest[include.size()])) {
    const auto words = base::words(rest.substr(include.size()));
    // "Include = x" would be a key of that name, which Slurm does not know.
    if (words.size() == 1) return std::string(words.front());
    return std::nullopt;
  }
  std::map<std::string, std::string> record;
  bool first = true;
  bool in_record = false;
  while (auto pair = next_pair(rest)) {
    if (first) in_record = begins_record(pair->key);
    // Of the records only the partitions are asked for; the nodes are the bulk of a large file.
    if (first && in_record && pair->key != "partitionname") return std::nullopt;
    first = false;
    if (settings_ == most_settings) {
      too_many_settings_ = true;
      return std::nullopt;
    }
    ++settings_;
    if (in_record) {
      record[pair->key] = std::move(pair->value);
    } else {
      values_.emplace_back(std::move(pair->key), std::move(pair->value));
    }
  }
  if (!record.empty()) partitions_.push_back(std::move(record));
  return std::nullopt;
}

void parse_conf(std::string_view text, Conf& into, std::vector<std::string>& includes) {
  LogicalLines lines(text);
  for (std::string line; lines.next(line);) {
    if (auto include = into.take(line)) includes.push_back(*include);
  }
}

// Reads one file after another into a Conf, each Include where it stands: what a later line says wins.
class ConfReader {
 public:
  ConfReader(const host::Files& files, Conf& conf, std::string folder)
      : files_(files), conf_(conf), folder_(std::move(folder)) {}

  base::Status read(const std::string& path, std::size_t depth) {
    ++files_read_;
    const auto text = files_.read(path, most_bytes - bytes_read_);
    if (!text && text.error().os_error == EFBIG) return too_large(path, std::to_string(most_bytes >> 20U) + " MiB");
    if (!text) return text.error();
    bytes_read_ += text->size();
    LogicalLines lines(*text);
    for (std::string line; lines.next(line);) {
      auto include = conf_.take(line);
      if (conf_.too_many_settings_) return too_large(path, std::to_string(most_settings) + " settings");
      if (include) follow(*include, depth + 1);
    }
    return base::ok();
  }

 private:
  static base::Error too_large(const std::string& path, const std::string& limit) {
    return base::Error{base::ExitCode::surroundings,
                       "cannot read " + path + ": it has, with the files that it includes, more than " + limit,
                       "see what has filled it, and take out what is no setting of Slurm's", base::Blame::local, EFBIG};
  }

  void follow(std::string include, std::size_t depth) {
    if (depth > deepest_include || files_read_ == most_files) {
      if (!left_out_) conf_.unreadable.push_back(include + " and what follows: too many Include files, or too deep");
      left_out_ = true;
      return;
    }
    if (include.find("%c") != std::string::npos)
      replace_all(include, "%c", base::lower(conf_.get("clustername").value_or("")));
    const std::string included = include.starts_with('/') ? include : folder_ + "/" + include;
    if (const auto done = read(included, depth); !done) conf_.unreadable.push_back(included + ": " + done.error().what);
  }

  const host::Files& files_;
  Conf& conf_;
  std::string folder_;
  std::size_t files_read_ = 0;
  std::size_t bytes_read_ = 0;
  bool left_out_ = false;
};

base::Result<Conf> read_conf(const host::Files& files, const std::string& path) {
  Conf conf;
  conf.path = path;
  if (const auto name = files.read("/proc/sys/kernel/hostname", 256)) {
    const std::string_view whole = base::trim(*name);
    conf.host_name = whole.substr(0, whole.find('.'));
  }
  ConfReader reader(files, conf, folder_of(path));
  if (auto done = reader.read(path, 0); !done) {
    base::Error error = done.error();
    error.code = base::ExitCode::surroundings;
    if (error.cure.empty()) error.cure = "look at SLURM_CONF and at that file";
    return error;
  }
  return conf;
}

base::Result<Conf> own_conf(const host::Files& files, const std::string& variable) {
  std::vector<std::string> candidates;
  if (variable.starts_with('/')) candidates.push_back(variable);
  for (const std::string_view path : site::slurm_confs) candidates.emplace_back(path);
  std::vector<std::string> tried;
  base::Error error{base::ExitCode::surroundings, "", "set SLURM_CONF to slurmd's copy", base::Blame::local, ENOENT};
  for (const std::string& path : candidates) {
    auto conf = read_conf(files, path);
    const bool is_missing = !conf && (conf.error().os_error == ENOENT || conf.error().os_error == ENOTDIR);
    if (conf) {
      if (error.os_error != ENOENT) conf->unreadable.insert(conf->unreadable.begin(), tried.begin(), tried.end());
      return conf;
    }
    if (!is_missing && error.os_error == ENOENT) {
      error.cure = conf.error().cure;
      error.os_error = conf.error().os_error;
    }
    tried.push_back(conf.error().what);
  }
  error.what = "no slurm.conf can be read (" + base::join(tried, "; ") + ")";
  return error;
}

std::optional<std::chrono::milliseconds> prolog_limit(const Conf& conf) {
  return limit(conf, "prologtimeout", "prologepilogtimeout");
}

std::optional<std::chrono::milliseconds> epilog_limit(const Conf& conf) {
  return limit(conf, "epilogtimeout", "prologepilogtimeout");
}

bool has_prolog_flag(const Conf& conf, std::string_view flag) {
  const auto value = conf.get("prologflags");
  if (!value) return false;
  for (const std::string_view word : base::split(*value, ',')) {
    if (base::equals_ignoring_case(base::trim(word), flag)) return true;
  }
  return false;
}

std::chrono::milliseconds message_timeout(const Conf& conf) { return seconds_or_default(conf, "messagetimeout"); }

std::chrono::milliseconds batch_start_timeout(const Conf& conf) {
  return seconds_or_default(conf, "batchstarttimeout");
}

std::string spool_dir(const Conf& conf, const std::string& node_name) {
  std::string folder = conf.get("slurmdspooldir").value_or("");
  if (!folder.starts_with('/')) folder = site::slurmd_spool_dir;
  replace_all(folder, "%h", conf.host_name.empty() ? node_name : conf.host_name);
  replace_all(folder, "%n", node_name);
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

bool switch_makes_channels(const Conf& conf) {
  const std::string type = base::lower(conf.get("switchtype").value_or(""));
  return type == "switch/nvidia_imex" || type == "nvidia_imex";
}

}  // namespace slurm
