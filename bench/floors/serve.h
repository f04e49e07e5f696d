// The floors as one more driver of peers/measure.h: serves commands from standard input like the peers do.
#pragma once

#include "peers/measure.h"
#include "peers/ranks.h"

namespace floors {

struct ServeOptions {
  int ranks = 2;
  rk_pins pins = {};
  bool tcp = false;
  rk_hosts hosts = {};      // none: on this host
  bool registered = false;  // every rank can reach the buffers of all
};

// The process's exit status.
int serve(const ServeOptions& options);

}  // namespace floors
