// A make-believe nvidia-imex and nvidia-imex-ctl for tests and the demo. Never part of the product.
//
// One executable; its own name decides: `nvidia-imex-ctl` asks, anything else is the daemon. One thread, one poll loop,
// no library beyond libstdc++, because 36 of them run beside each other on two cores.
//
// KNOWN, and done as NVIDIA's documents, its open sources or users' logs show it (docs: the IMEX guide; sources: DCGM's
// DcgmImexManager, the DRA driver; a page of AWS PCS with an 18-node sample):
//   - config.cfg keys and defaults; the node list is read once, at the start; `#` lines are comments; the node id is
//     the line's index; own address must be in the list, otherwise "No matching network interface found".
//   - The ordered list is the domain's only identity. A difference that was met blocks the pair (`!M!`) for good: only
//     a restart of a side clears that side.
//   - Words of -q; the layout of -N (legend, date without zero padding, columns); keys of -N -j; exit 255 when the
//     configuration or node list cannot be read; "error code: 14" when no daemon answers.
//   - Connections use SERVER_PORT; peers' status and version use IMEX_CMD_PORT. With the second blocked, connections
//     are up, peers are UNAVAILABLE with empty versions, and the domain is DEGRADED.
//   - No quorum at a clean start. After an unclean end (persist.dat is still there) with an unchanged list:
//     WAITING_FOR_RECOVERY. Another list: persist.dat is dropped. IMEX_WAIT_FOR_QUORUM=NONE: ignored; FULL (older
//     releases): WAITING_FOR_PEERS until every peer is connected.
//   - One session per driver: a second daemon does not start while the first process lives (NV_ERR_IN_USE).
//   - TERM, INT, QUIT end it gracefully and tell the peers; USR1 restarts outgoing connections, at most once in 5 s,
//     and does not read the list again; HUP only dumps a buffer.
//   - Log lines as seen in public logs.
//
// MODELLED, NOT KNOWN (each is a choice; where two are plausible the harder one for a prolog is the default or a
// setting):
//   - The wire format is invented; nothing of the real protocol (gRPC) is used.
//   - A pair has two connections, one opened by each side; cell i,j is the state of the one opened by i.
//   - A side that is blocked refuses the other, and the refused side, if it has not met the difference itself (it was
//     restarted since), shows N and tries again. With `refusal_blocks=1` being refused blocks it as well.
//   - When the list is compared: at the first message of each connection, by both ends.
//   - Reconnect delays: 0.5, 1, 2, 3, 3, ... s (`backoff=`); real releases were seen with 15/31/62/125 s, 60 s, or
//     these.
//   - How long INITIALIZING lasts (0.8 s), how long the start command blocks (0.3 s), how long a graceful end takes
//     (0.3 s).
//   - DOWN means: own status is not READY, or there are peers and none is connected. UP: all READY, all cells C.
//     DEGRADED: everything else.
//   - An importer of persist.dat is every peer that was ever connected; a real one must have imported memory.
//   - A peer with another version gets `!V!` on both sides and does not answer on the command port.
//   - JSON words other than CONNECTED, NEVER_CONNECTED, INVALID; the value of "changed"; the order of keys.
//   - -N waits at most 0.5 s for peers that do not answer, and does not wait again for one that was silent.
//   - The exit status with error 14 (here 1), the text of --version, and that the start succeeds with exit 0 and no
//     daemon when the list is empty (seen by a user with an empty configuration).
//   - A machine that vanishes without closing its sockets is not noticed (no keepalive); the lab always closes them.
//   - Host names in the list are looked up in /etc/hosts only.
//
// SETTINGS of the make-believe itself are read at the start, first from the file (IMEX_LAB_FILE, else
// /etc/nvidia-imex/lab.cfg, absent is fine), then from the environment: IMEX_TIME_SCALE, IMEX_RUN_DIR, IMEX_FAULTS
// (the same `key=value` pairs, separated by commas). All times are seconds and are multiplied by the scale.
//   - time_scale, run_dir, version, driver_version, backoff (`/` between the steps), hostname
//   - trace=FILE: every change of state with a monotonic time, for measuring
//   - slow_start=S: the start command itself takes S; start_hang=1: it never returns; start_fail=1: it fails
//   - slow_ready=S: INITIALIZING lasts S; never_ready=1: it lasts for ever
//   - die_after=S: the process ends without a word after S
//   - hang_after=S: it stops answering, TERM included, after S
//   - stop_delay=S: a graceful end takes S; stop_hang=1: TERM is ignored
//   - cmd_blocked=1: peers' packets to the command port are lost
//   - ctl_hang=1: nvidia-imex-ctl never answers; ctl_no_json=1: an older one that knows no -j
//   - quorum_none=1: as IMEX_WAIT_FOR_QUORUM=NONE; refusal_blocks=1: see above; local_star=1: `*` round the own address
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace imexd {

struct Settings {
  std::map<std::string, std::string> values;

  std::string text(const std::string& key, const std::string& fallback) const;
  bool flag(const std::string& key) const;
  double number(const std::string& key, double fallback) const;
  double scale() const;
  /// Seconds under `key`, scaled.
  double seconds(const std::string& key, double fallback) const;
};

struct Config {
  std::string file;
  std::map<std::string, std::string> values;

  std::string text(const std::string& key, const std::string& fallback) const;
  int number(const std::string& key, int fallback) const;
  std::string node_file() const;
  int server_port() const;
  int command_port() const;
  bool command_enabled() const;
};

struct NodeList {
  std::vector<std::string> entries;    // as written
  std::vector<std::string> addresses;  // canonical; empty: a name that is not known
};

Settings read_settings();
bool read_config(const std::string& file, Config& config);
bool read_node_list(const std::string& file, NodeList& list);

/// The identity of a domain: the ordered list and nothing else.
std::uint64_t identity(const NodeList& list);
std::string hex(std::uint64_t value);
std::vector<std::string> words(const std::string& line);

double monotonic_now();
/// `5/4/2026 06:08:10.580`, as NVIDIA prints it: no zero padding in the date.
std::string stamp();

std::string default_version();

/// A TCP socket on address:port, or -1. The connect does not wait; `from` is the own address, or empty for any.
int tcp_listen(const std::string& address, int port);
int tcp_connect(const std::string& address, int port, const std::string& from);
int unix_listen(const std::string& path);
int unix_connect(const std::string& path);
void set_nonblocking(int fd);

int daemon_main(const std::vector<std::string>& arguments);
int ctl_main(const std::vector<std::string>& arguments);

}  // namespace imexd
