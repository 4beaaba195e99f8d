#include "mig/answer.h"

#include "base/text.h"

namespace mig {

using base::ExitCode;

namespace {

bool says(const host::Exit& exit, std::string_view words) {
  return base::contains_ignoring_case(exit.out, words) || base::contains_ignoring_case(exit.err, words);
}

bool says_no_gpu(const host::Exit& exit) {
  return says(exit, "No devices were found") || says(exit, "No devices found");
}

}  // namespace

Answer judge(const host::Exit& exit) {
  using Ending = host::Exit::Ending;
  if (exit.ending == Ending::timed_out) return Answer::timed_out;
  if (exit.ending == Ending::interrupted) return Answer::stopped;
  if (exit.ending != Ending::exited) return Answer::failed;
  if (exit.cut) return Answer::failed;  // what is not here may be what counts
  // Before every "not found": the driver prints "No GPU instances found: Insufficient Permissions".
  if (says(exit, "Insufficient Permissions") || exit.status == 4) return Answer::no_permission;
  if (says(exit, "In use by another client") && exit.status != 0) return Answer::in_use;
  if (says(exit, "No MIG-supported devices found")) return Answer::unsupported;
  if (says(exit, "No MIG-enabled devices found")) return Answer::none;  // exit 0 (580.159.04) or 6
  if (says(exit, "instances found: Not Found") || says(exit, "instance profiles found: Not Found")) return Answer::none;
  if (exit.status == 0) return says_no_gpu(exit) ? Answer::not_ready : Answer::ok;
  if (exit.status == 9 || exit.status == 12) return Answer::not_ready;
  if (exit.status == 6 && says_no_gpu(exit)) return Answer::not_ready;
  if (exit.status == 6 && base::trim(exit.out).empty() && base::trim(exit.err).empty()) return Answer::not_ready;
  if (exit.status == 19) return Answer::in_use;
  return Answer::failed;
}

base::Error as_error(Answer answer, const std::string& call, const host::Exit& exit, Purpose purpose) {
  ExitCode failed = purpose == Purpose::change ? ExitCode::change : ExitCode::source;
  if (exit.ending == host::Exit::Ending::not_started) failed = ExitCode::surroundings;
  const std::string what = call + ": " + host::describe(exit);
  switch (answer) {
    case Answer::not_ready:
      return {ExitCode::surroundings, what,
              "the NVIDIA driver is not loaded or sees no GPU: look at `dmesg` and `modprobe nvidia`"};
    case Answer::no_permission:
      return {ExitCode::surroundings, what, "run as root (and with access to the MIG configuration capability)"};
    case Answer::unsupported:
      return {ExitCode::surroundings, what,
              "this GPU or its driver knows no MIG: use another instance type, or --if-supported"};
    case Answer::timed_out:
      return {ExitCode::time_out, what,
              exit.unkillable ? "nvidia-smi hangs in the driver and cannot be killed: replace or reboot the node"
                              : "the driver does not answer: look at `dmesg` for NVRM or Xid lines"};
    case Answer::stopped: return {ExitCode::time_out, what, ""};
    case Answer::in_use:
      return {failed, what,
              "end what uses the GPU (its holders are named where they can be seen), then run mig-setup again"};
    case Answer::failed:
      if (!says(exit, "Insufficient Resources")) return {failed, what, "look at `dmesg` for NVRM or Xid lines"};
      return {
          failed, what,
          "the driver has no room for it although this layout fits an empty GPU: look at `nvidia-smi mig -lgip` and "
          "`-lgi` for what is taken, then run mig-setup again; if nothing is, reset or reboot"};
    default: return {failed, what, "look at `dmesg` for NVRM or Xid lines"};
  }
}

}  // namespace mig
