// Stop signals (TERM, INT, HUP, QUIT): they end waits and children soon and in an orderly way, and the command decides
// what is left to do. A handler only notes the signal and writes to a pipe that every wait of this room watches.
#pragma once

namespace host {

// Called once, by main, before anything waits. A signal that was ignored when we were started (nohup) stays ignored.
// SIGPIPE and SIGXFSZ are ignored from here on, so that a closed stderr or a file size limit is an errno of the write.
void catch_stop_signals();

// The first stop signal that came, 0: none. Main ends with 128 + this.
int stop_signal();

// A stop signal came that nobody has acknowledged: every wait ends at once and no child is started.
bool stopping();
// A second one came meanwhile: children get KILL without the time that TERM gives them.
bool stopping_at_once();

// Before cleaning up after a stop signal: waits and children work again; a further signal ends them as before.
// stop_signal() still tells the first one.
void acknowledge_stop_signal();

// Readable while stopping() is true, for poll; -1 where catch_stop_signals() was not called.
int stop_fd();

// The signals' former actions, and all that came forgotten. For tests, which live on in the same process.
void release_stop_signals();

}  // namespace host
