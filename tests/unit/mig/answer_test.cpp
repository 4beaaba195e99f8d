#include "mig/answer.h"

#include <catch2/catch_test_macros.hpp>

#include "captured.h"
#include "fakes/fake_processes.h"

using namespace mig;
using fakes::exited;

TEST_CASE("no permission is never taken for empty, whatever the exit code and however the words go on") {
  for (int status : {0, 4, 6, 255}) {
    CAPTURE(status);
    CHECK(judge(exited(status,
                       "Failed to display GPU instances: Insufficient Permissions\nNo GPU instances found: "
                       "Insufficient Permissions\n")) == Answer::no_permission);
    CHECK(judge(exited(status, "Failed to display compute instances: Insufficient Permissions\n")) ==
          Answer::no_permission);
    CHECK(judge(exited(status, "", "Insufficient Permissions\n")) == Answer::no_permission);
  }
  CHECK(judge(exited(4, "")) == Answer::no_permission);
}

TEST_CASE("what failed, hung or was stopped is not ok") {
  CHECK(judge(fakes::timed_out()) == Answer::timed_out);
  host::Exit stopped;
  stopped.ending = host::Exit::Ending::interrupted;
  CHECK(judge(stopped) == Answer::stopped);
  host::Exit signalled;
  signalled.ending = host::Exit::Ending::signalled;
  signalled.status = 11;
  CHECK(judge(signalled) == Answer::failed);
  CHECK(judge(host::Exit{}) == Answer::failed);  // not started
  host::Exit flooding = exited(0, std::string(1000, 'x'));
  flooding.cut = true;
  CHECK(judge(flooding) == Answer::failed);
  CHECK(as_error(Answer::failed, "x", flooding, Purpose::question).what.find("more than 1000 bytes") !=
        std::string::npos);
  for (int status : {1, 2, 3, 8, 10, 13, 14, 15, 23, 255}) CHECK(judge(exited(status, "some words")) == Answer::failed);
  CHECK(judge(exited(255, "Failed to display GPU instances: Insufficient Size\n")) == Answer::failed);
}

TEST_CASE("exits 9, 12 and 6 mean that the driver is not ready yet") {
  CHECK(judge(exited(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")) ==
        Answer::not_ready);
  CHECK(judge(exited(12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.")) == Answer::not_ready);
  CHECK(judge(exited(6, "No devices were found\n")) == Answer::not_ready);
  CHECK(judge(exited(6, captured::h200("badindex"))) == Answer::not_ready);
  CHECK(judge(exited(6, "")) == Answer::not_ready);
  CHECK(judge(exited(0, "No devices were found\n")) == Answer::not_ready);  // never ok: there is no GPU to tell of
  CHECK(judge(exited(0, "", "No devices found.\n")) == Answer::not_ready);
  CHECK(judge(exited(6, "something else")) == Answer::failed);
}

TEST_CASE("empty listings are told by their words, with exit 0 or 6") {
  for (int status : {0, 6}) {
    CHECK(judge(exited(status, captured::h200("lgi"))) == Answer::none);
    CHECK(judge(exited(status, captured::h200("lgi-by-bus-id"))) == Answer::none);
    CHECK(judge(exited(status, "No GPU instances found: Not Found\n")) == Answer::none);
    CHECK(judge(exited(status, "No compute instances found: Not Found\n")) == Answer::none);
  }
  CHECK(judge(exited(6, "No MIG-supported devices found.\n")) == Answer::unsupported);
}

TEST_CASE("in use is told by words or by NVML's number") {
  CHECK(judge(exited(19, "Unable to destroy GPU instance ID  3 from GPU  0: In use by another client\n")) ==
        Answer::in_use);
  CHECK(judge(exited(255, "GPU 00000000:01:00.0: In use by another client\n")) == Answer::in_use);
  // A pending mode is announced with exit 0: the query decides, not this.
  CHECK(judge(exited(0,
                     "Warning: MIG mode is in pending enable state for GPU 00000000:07:00.0:In use by another "
                     "client\nAll done.\n")) == Answer::ok);
}

TEST_CASE("every answer that is an error has a code and says which call it was") {
  const host::Exit exit = exited(9, "words");
  CHECK(as_error(Answer::not_ready, "nvidia-smi -L", exit, Purpose::change).code == base::ExitCode::surroundings);
  CHECK(as_error(Answer::no_permission, "nvidia-smi -L", exit, Purpose::change).code == base::ExitCode::surroundings);
  CHECK(as_error(Answer::timed_out, "nvidia-smi -L", exit, Purpose::change).code == base::ExitCode::time_out);
  CHECK(as_error(Answer::in_use, "nvidia-smi -L", exit, Purpose::change).code == base::ExitCode::change);
  CHECK(as_error(Answer::failed, "nvidia-smi -L", exit, Purpose::change).what.find("nvidia-smi -L") == 0);
  // A question that failed is no change that failed.
  CHECK(as_error(Answer::failed, "nvidia-smi -L", exit, Purpose::change).code == base::ExitCode::change);
  for (const Answer answer : {Answer::failed, Answer::in_use})
    CHECK(as_error(answer, "nvidia-smi -L", exit, Purpose::question).code == base::ExitCode::source);
  CHECK(as_error(Answer::failed, "x", host::Exit{}, Purpose::change).code == base::ExitCode::surroundings);
  host::Exit stuck = fakes::timed_out();
  stuck.unkillable = true;
  CHECK(as_error(Answer::timed_out, "x", stuck, Purpose::question).cure.find("cannot be killed") != std::string::npos);
}
