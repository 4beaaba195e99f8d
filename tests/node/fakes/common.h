// What all make-believe tools of a node share: the record of each call and the scripted faults.
//
// Everything a fake knows lies in /fake inside the node, written there by tests/node/node.py:
//   /fake/calls             one JSON object a line for each call of a fake, in order
//   /fake/refused           one line for each request nobody set a fake up for; a test that leaves one here fails
//   /fake/<tool>/<verb>.seq scripted actions, one a line; each call uses the next line, the last line stays
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fake {

using Words = std::vector<std::string>;

std::string slurp(const std::string& path);
void spill(const std::string& path, const std::string& text);
void append_line(const std::string& path, const std::string& line);
std::string json_string(std::string_view text);
Words split(std::string_view text, char separator);
void say(int descriptor, std::string_view text);
double realtime();
double monotonic();
void sleep_ms(long milliseconds);

/// Value of KEY=VALUE in a file of such lines, or the fallback.
std::string setting(const std::string& path, const std::string& key, const std::string& fallback);

/// Writes argv, environment, open descriptors, parent, process group and signal state of this very call to /fake/calls.
void record_call(const std::string& tool, int argc, char** argv);

/// Notes a request that this fake was not set up for, and exits 97.
[[noreturn]] void refuse(const std::string& tool, const std::string& what);

/// Carries out the scripted actions for this verb. Comes back only when the fake is to answer in its ordinary way.
void scripted(const std::string& tool, const std::string& verb);

int systemctl_main(int argc, char** argv);
int scontrol_main(int argc, char** argv);
int getent_main(int argc, char** argv);
int imex_ctl_main(int argc, char** argv);
int imex_main(int argc, char** argv);
int launcher_main(int argc, char** argv);
int manager_main(int argc, char** argv);

}  // namespace fake
