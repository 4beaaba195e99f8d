// What an ended nvidia-smi call means. The tool's exit codes are NVML's numbers where its man page ends (23
// insufficient resources, seen; 19 in use), and some listings print an error with exit 0, so words and code are judged
// together.
#pragma once

#include <string>

#include "base/result.h"
#include "host/processes.h"

namespace mig {

enum class Answer {
  ok,
  none,       // the listing is truly empty: "Not Found", "No MIG-enabled devices found."
  not_ready,  // exits 9, 12 and 6 with "No devices", also with exit 0: driver not loaded, library missing, no GPU yet
  no_permission,  // "Insufficient Permissions" beside "No GPU instances found" too: never taken for empty
  unsupported,    // "No MIG-supported devices found."
  in_use,         // "In use by another client"
  timed_out,
  stopped,  // a stop signal to us ended it
  failed,   // everything else
};

Answer judge(const host::Exit& exit);

// What a failed call means depends on what it was for: an answer that is not to be had, or a change that did not come.
enum class Purpose { question, change };

// The error that such an answer is, for a call that the text names ("nvidia-smi mig -lgi"). Not for ok and none.
base::Error as_error(Answer answer, const std::string& call, const host::Exit& exit, Purpose purpose);

}  // namespace mig
