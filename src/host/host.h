// Everything outside the program that a command may touch, in one bundle. Commands hand a step only the
// part it needs: the step's signature is its permission.
#pragma once

#include "host/clock.h"
#include "host/environment.h"
#include "host/files.h"
#include "host/http.h"
#include "host/locks.h"
#include "host/log.h"
#include "host/machine.h"
#include "host/network.h"
#include "host/processes.h"

namespace host {

struct Host {
  const Environment& environment;
  Files& files;
  Processes& processes;
  Http& http;
  Network& network;
  Locks& locks;
  Clock& clock;
  Machine& machine;
};

}  // namespace host
