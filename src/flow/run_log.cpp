#include "flow/run_log.h"

#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <utility>

#include "base/text.h"

namespace flow {

namespace {

constexpr std::size_t longest_text = 8000;  // bytes; a syslog datagram takes no more everywhere

Level to_level(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return Level::error;
  if (level == spdlog::level::warn) return Level::warn;
  return level == spdlog::level::info ? Level::info : Level::debug;
}

std::string_view word(Level level) {
  switch (level) {
    case Level::debug:  // the script's filters know three words
    case Level::info: return "INFO";
    case Level::warn: return "WARN";
    case Level::error: return "ERROR";
  }
  return "";
}

// spdlog's own level words are "info" and "warning"; the published script's are INFO and WARN.
class LevelWord : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& into) override {
    const std::string_view text = word(to_level(message.level));
    into.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<LevelWord>(); }
};

class CallingSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  using Call = std::function<void(Level, std::string_view)>;

  CallingSink(const std::string& pattern, const std::string& end_of_line, Call call) : call_(std::move(call)) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::local, end_of_line);
    formatter->add_flag<LevelWord>('*').set_pattern(pattern);
    set_formatter_(std::move(formatter));
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    call_(to_level(message.level), std::string_view(line.data(), line.size()));
  }
  void flush_() override {}

 private:
  Call call_;
};

std::string without_flags(std::string_view text) {
  std::string escaped;
  for (const char c : base::printable(text, 80)) escaped += c == '%' ? std::string("%%") : std::string(1, c);
  return escaped;
}

}  // namespace

RunLog::RunLog(const LogOptions& options) {
  const std::string tags = "[%*] [PID:%P] [JOB:" + without_flags(options.job) + "] %v";
  std::vector<spdlog::sink_ptr> sinks;
  if (options.file) {
    sinks.push_back(std::make_shared<CallingSink>("%Y-%m-%dT%H:%M:%S.%e " + tags, "\n",
                                                  [file = options.file](Level, std::string_view line) { file(line); }));
  }
  if (options.syslog) sinks.push_back(std::make_shared<CallingSink>(tags, "", options.syslog));
  if (options.terminal) sinks.push_back(std::make_shared<CallingSink>("%v", "", options.terminal));
  logger_ = std::make_shared<spdlog::logger>("gpu-prolog", sinks.begin(), sinks.end());
  switch (options.level) {
    case Level::debug: logger_->set_level(spdlog::level::debug); break;
    case Level::info: logger_->set_level(spdlog::level::info); break;
    case Level::warn: logger_->set_level(spdlog::level::warn); break;
    case Level::error: logger_->set_level(spdlog::level::err); break;
  }
}

RunLog::~RunLog() = default;

void RunLog::debug(const std::string& text) { logger_->debug(base::printable("debug: " + text, longest_text)); }

void RunLog::info(const std::string& text) { logger_->info(base::printable(text, longest_text)); }

void RunLog::warn(const std::string& text) {
  const std::string shown = base::printable(text, longest_text);
  logger_->warn(shown);
  if (report_ != nullptr) report_->warnings.push_back(shown);
}

void RunLog::error(const std::string& text) { logger_->error(base::printable(text, longest_text)); }

}  // namespace flow
