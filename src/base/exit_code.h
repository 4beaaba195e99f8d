// The one table of exit codes: docs, --help and the code are held equal to it by a test.
#pragma once

#include <array>
#include <string_view>

namespace base {

enum class ExitCode : int {
  ok = 0,
  found_wrong = 1,
  usage = 2,
  surroundings = 3,
  source = 4,
  change = 5,
  time_out = 6,
  reboot_needed = 7,
  bug = 70,
};

struct ExitCodeMeaning {
  ExitCode code;
  std::string_view meaning;
};

inline constexpr std::array<ExitCodeMeaning, 9> exit_code_table{{
    {ExitCode::ok, "done, or nothing to do (the last log line says which, and why)"},
    {ExitCode::found_wrong,
     "validate found something wrong (a missing driver, unit, channel or tool is such a finding)"},
    {ExitCode::usage, "wrong words on the command line or in the config file"},
    {ExitCode::surroundings,
     "the surroundings are not as needed (not root, a tool is missing, no job id or node list)"},
    {ExitCode::source, "an outside source gave no usable answer (IMDS, scontrol)"},
    {ExitCode::change, "a change did not succeed (write, device, service, MIG)"},
    {ExitCode::time_out, "time ran out"},
    {ExitCode::reboot_needed, "mig-setup: a reboot is needed"},
    {ExitCode::bug, "a bug in gpu-prolog"},
}};

// Stopped by signal n: 128 + n, as a shell says it.
inline constexpr int signal_exit_base = 128;

inline constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

}  // namespace base
