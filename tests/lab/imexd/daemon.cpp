#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <list>
#include <set>
#include <sstream>

#include "imexd.hpp"

namespace imexd {

namespace {

constexpr double kForever = 1e18;

volatile std::sig_atomic_t g_stop = 0;
volatile std::sig_atomic_t g_restart_connections = 0;
volatile std::sig_atomic_t g_dump = 0;

void on_signal(int number) {
  if (number == SIGUSR1) {
    g_restart_connections = 1;
  } else if (number == SIGHUP) {
    g_dump = 1;
  } else {
    g_stop = 1;
  }
}

/// The letters of the matrix; 'M' and 'V' are printed as !M! and !V!.
enum class Cell : char {
  kNever = 'N',
  kRecovering = 'R',
  kDisconnected = 'D',
  kMismatch = 'M',
  kVersion = 'V',
  kConnected = 'C'
};

/// One non-blocking socket with what was received and not yet taken.
struct Link {
  int fd = -1;
  std::string in;

  void shut() {
    if (fd >= 0) {
      close(fd);
    }
    fd = -1;
    in.clear();
  }
  bool send_line(const std::string& line) const {
    const std::string text = line + "\n";
    return fd >= 0 && send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  /// Reads what is there; false when the other end has gone.
  bool receive() {
    char buffer[4096];
    for (;;) {
      const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
      if (got > 0) {
        in.append(buffer, static_cast<std::size_t>(got));
        if (in.size() > 65536) {
          return false;
        }
        continue;
      }
      return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    }
  }
  bool take_line(std::string& line) {
    const auto end = in.find('\n');
    if (end == std::string::npos) {
      return false;
    }
    line = in.substr(0, end);
    in.erase(0, end + 1);
    return true;
  }
};

enum class Phase { kIdle, kConnecting, kGreeting, kUp };

struct Peer {
  int id = 0;
  std::string entry;
  std::string address;
  bool self = false;

  // The connection that we opened to its server port.
  Link link;
  Phase phase = Phase::kIdle;
  Cell cell = Cell::kNever;
  double next = 0;  // next attempt, or when to give up the present one
  int attempts = 0;
  std::string instance;

  // Our connection to its command port.
  Link command;
  Phase command_phase = Phase::kIdle;
  double command_since = 0;
  double command_retry = 0;
  bool asked = false;
  bool silent = false;  // did not answer in time; not waited for again until it does

  // What it said last.
  std::string status, version, host, row;

  bool blocked() const { return cell == Cell::kMismatch || cell == Cell::kVersion; }
};

struct Incoming {
  Link link;
  int peer = -1;
};

struct Client {
  Link link;
  bool from_peer = false;
  bool wants_full = false;
};

class Daemon {
 public:
  Daemon(Settings settings, Config config) : settings_(std::move(settings)), config_(std::move(config)) {}

  int start_and_run(int port_override);

 private:
  bool prepare(int port_override);
  void say_started(bool good);
  int loop();

  void log(const char* level, const std::string& text);
  void trace(const std::string& text);

  std::string own_address() const { return peers_[static_cast<std::size_t>(self_)].address; }
  std::string status() const { return status_; }
  void set_status(const std::string& word);
  void advance_status(double now);
  bool all_connected() const;

  void set_cell(Peer& peer, Cell cell);
  void open_link(Peer& peer, double now);
  void lose_link(Peer& peer, double now, Cell cell);
  void schedule(Peer& peer, double now);
  void on_link(Peer& peer, short events, double now);
  void on_link_line(Peer& peer, const std::string& line, double now);
  void on_incoming_line(Incoming& from, const std::string& line);
  void block(Peer& peer, Cell cell, const std::string& why);
  void restart_connections(double now);

  void open_command(Peer& peer, double now);
  void on_command(Peer& peer, short events);
  void on_client_line(Client& client, const std::string& line, double now);
  void begin_gather(double now);
  void end_gather(double now);
  bool gather_complete() const;
  std::string own_row() const;
  std::string full_report();

  void write_persist();
  void graceful_end();

  Settings settings_;
  Config config_;
  NodeList list_;
  std::string hash_, version_, run_dir_, host_, instance_;
  std::vector<Peer> peers_;
  std::list<Incoming> incoming_;
  std::list<Client> clients_;
  std::vector<double> backoff_;
  int self_ = -1;
  int log_ = -1, trace_ = -1, session_ = -1, server_ = -1, command_ = -1, command_unix_ = -1, ready_pipe_ = -1;
  int command_port_ = 0, server_port_ = 0;
  std::string status_ = "INITIALIZING";
  double started_ = 0;
  double last_restart_ = -kForever;
  std::set<std::string> recovering_;  // addresses of earlier importers that have not come back yet
  std::set<std::string> importers_;
  bool gathering_ = false;
  double gather_until_ = 0;
};

void Daemon::log(const char* level, const std::string& text) {
  const std::time_t now = std::time(nullptr);
  tm local{};
  localtime_r(&now, &local);
  char when[40];
  std::strftime(when, sizeof(when), "%b %d %Y %H:%M:%S", &local);
  const std::string line =
      std::string("[") + when + "] [" + level + "] [tid " + std::to_string(getpid()) + "] " + text + "\n";
  if (write(log_ >= 0 ? log_ : STDERR_FILENO, line.data(), line.size()) < 0) {
    return;  // a full disk must not end the daemon
  }
}

void Daemon::trace(const std::string& text) {
  if (trace_ < 0) {
    return;
  }
  char head[64];
  std::snprintf(head, sizeof(head), "%.6f %d ", monotonic_now(), static_cast<int>(getpid()));
  const std::string line = head + text + "\n";
  if (write(trace_, line.data(), line.size()) < 0) {
    return;
  }
}

void Daemon::set_status(const std::string& word) {
  if (word != status_) {
    status_ = word;
    trace("STATUS " + word);
    log("INFO", "IMEX daemon state is " + word);
  }
}

bool Daemon::all_connected() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.self || p.cell == Cell::kConnected; });
}

void Daemon::advance_status(double now) {
  if (status_ == "READY" || status_ == "SHUTTING_DOWN" || settings_.flag("never_ready")) {
    return;
  }
  const double initialising = settings_.seconds("slow_ready", 0.8);
  if (now < started_ + initialising) {
    if (now > started_ + initialising / 2) {
      set_status("INIT_GPU");
    }
    return;
  }
  for (const auto& peer : peers_) {
    if (peer.cell == Cell::kConnected) {
      recovering_.erase(peer.address);
    }
  }
  if (!recovering_.empty()) {
    set_status("WAITING_FOR_RECOVERY");
  } else if (config_.text("IMEX_WAIT_FOR_QUORUM", "RECOVERY") == "FULL" && !all_connected()) {
    set_status("WAITING_FOR_PEERS");
  } else {
    set_status("READY");
    write_persist();
  }
}

void Daemon::write_persist() {
  const std::string path = run_dir_ + "/persist.dat";
  const std::string temporary = path + ".new";
  if (FILE* out = std::fopen(temporary.c_str(), "we")) {
    std::fprintf(out, "%s\n", hash_.c_str());
    for (const auto& address : importers_) {
      std::fprintf(out, "%s\n", address.c_str());
    }
    std::fclose(out);
    std::rename(temporary.c_str(), path.c_str());
  }
}

void Daemon::set_cell(Peer& peer, Cell cell) {
  if (peer.cell == cell) {
    return;
  }
  peer.cell = cell;
  trace("CELL " + std::to_string(peer.id) + " " + peer.address + " " + static_cast<char>(cell) + " " +
        (peer.instance.empty() ? "-" : peer.instance));
  if (cell == Cell::kConnected && importers_.insert(peer.address).second && status_ == "READY") {
    write_persist();
  }
}

void Daemon::schedule(Peer& peer, double now) {
  const std::size_t step = std::min(static_cast<std::size_t>(std::max(peer.attempts - 1, 0)), backoff_.size() - 1);
  peer.next = now + backoff_[step] * settings_.scale();
}

void Daemon::open_link(Peer& peer, double now) {
  ++peer.attempts;
  if (peer.attempts > 1 && (peer.attempts < 4 || peer.attempts % 50 == 0)) {
    log("INFO", "Attempting connection for target node " + std::to_string(peer.id) + ", attempt #" +
                    std::to_string(peer.attempts));
  }
  peer.link.shut();
  peer.link.fd = peer.address.empty() ? -1 : tcp_connect(peer.address, server_port_, own_address());
  if (peer.link.fd < 0) {
    peer.phase = Phase::kIdle;
    schedule(peer, now);
    return;
  }
  peer.phase = Phase::kConnecting;
  peer.next = now + std::max(5.0 * settings_.scale(), 0.5);
}

void Daemon::lose_link(Peer& peer, double now, Cell cell) {
  if (peer.phase == Phase::kUp) {
    log("ERROR", "Connection lost to node " + std::to_string(peer.id) + " (" + peer.entry + ")");
    if (cell == Cell::kRecovering && config_.number("IMEX_NODE_DISCONNECTED_GRACE_TIME", -1) == 0) {
      log("INFO", "Node disconnect event detected for node " + std::to_string(peer.id));
      cell = Cell::kDisconnected;
    }
    if (!peer.blocked()) {
      set_cell(peer, cell);
    }
    peer.attempts = 0;
  }
  peer.link.shut();
  peer.phase = Phase::kIdle;
  schedule(peer, now);
}

void Daemon::block(Peer& peer, Cell cell, const std::string& why) {
  if (peer.blocked()) {
    return;
  }
  log("ERROR",
      why + " with node " + std::to_string(peer.id) + " (" + peer.entry + "). Communication with it is disabled.");
  set_cell(peer, cell);
  peer.link.shut();
  peer.phase = Phase::kIdle;
  peer.next = kForever;
}

void Daemon::on_link(Peer& peer, short events, double now) {
  if (peer.phase == Phase::kConnecting) {
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(peer.link.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      lose_link(peer, now, Cell::kRecovering);
      return;
    }
    peer.phase = Phase::kGreeting;
    if (!peer.link.send_line("HELLO " + version_ + " " + hash_ + " " + std::to_string(self_) + " " + instance_ + " " +
                             own_address())) {
      lose_link(peer, now, Cell::kRecovering);
    }
    return;
  }
  if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) {
    return;
  }
  const bool alive = peer.link.receive();
  for (std::string line; peer.link.fd >= 0 && peer.link.take_line(line);) {
    on_link_line(peer, line, now);
  }
  if (!alive && peer.link.fd >= 0) {
    lose_link(peer, now, Cell::kRecovering);
  }
}

void Daemon::on_link_line(Peer& peer, const std::string& line, double now) {
  const auto said = words(line);
  if (said.empty()) {
    return;
  }
  if (said[0] == "OK" && said.size() == 4) {
    if (said[1] != version_) {
      block(peer, Cell::kVersion, "Version mismatch");
    } else if (said[2] != hash_) {
      block(peer, Cell::kMismatch, "Node configuration mapping mismatch");
    } else if (!peer.blocked()) {
      peer.phase = Phase::kUp;
      peer.instance = said[3];
      peer.attempts = 0;
      set_cell(peer, Cell::kConnected);
      log("INFO", "Connection established to node " + std::to_string(peer.id) + " (" + peer.entry + ")");
    }
  } else if (said[0] == "MAP") {
    block(peer, Cell::kMismatch, "Node configuration mapping mismatch");
  } else if (said[0] == "VER") {
    block(peer, Cell::kVersion, "Version mismatch");
  } else if (said[0] == "BLOCKED") {
    if (settings_.flag("refusal_blocks")) {
      block(peer, Cell::kMismatch, "Node configuration mapping mismatch");
    } else {
      peer.link.shut();
      peer.phase = Phase::kIdle;
      schedule(peer, now);
    }
  } else if (said[0] == "BYE") {
    log("INFO", "Received notification of shutdown from node " + std::to_string(peer.id) + " (" + peer.entry + ")");
    lose_link(peer, now, Cell::kDisconnected);
  }
}

void Daemon::on_incoming_line(Incoming& from, const std::string& line) {
  const auto said = words(line);
  if (said.size() != 6 || said[0] != "HELLO") {
    from.link.shut();
    return;
  }
  Peer* peer = nullptr;
  for (auto& candidate : peers_) {
    if (!candidate.self && candidate.address == said[5]) {
      peer = &candidate;
    }
  }
  if (said[1] != version_) {
    from.link.send_line("VER " + version_);
    if (peer != nullptr) {
      block(*peer, Cell::kVersion, "Version mismatch");
    }
    from.link.shut();
  } else if (said[2] != hash_ || peer == nullptr) {
    from.link.send_line("MAP " + hash_);
    if (peer != nullptr) {
      block(*peer, Cell::kMismatch, "Node configuration mapping mismatch");
    } else {
      log("ERROR", "Node configuration mapping mismatch: " + said[5] + " is not in our node configuration file.");
    }
    from.link.shut();
  } else if (peer->blocked()) {
    from.link.send_line("BLOCKED");
    from.link.shut();
  } else {
    from.peer = peer->id;
    from.link.send_line("OK " + version_ + " " + hash_ + " " + instance_);
  }
}

void Daemon::restart_connections(double now) {
  if (now < last_restart_ + 5.0 * settings_.scale()) {
    log("INFO", "Ignoring SIGUSR1: connections were restarted less than 5 seconds ago.");
    return;
  }
  last_restart_ = now;
  log("INFO", "SIGUSR1 received: restarting all outgoing connections.");
  for (auto& peer : peers_) {
    if (peer.self || peer.blocked()) {
      continue;
    }
    if (peer.phase == Phase::kUp) {
      set_cell(peer, Cell::kRecovering);
    }
    peer.link.shut();
    peer.phase = Phase::kIdle;
    peer.attempts = 0;
    peer.next = now;
  }
}

// --- the command port ------------------------------------------------------------------------------------------------

void Daemon::open_command(Peer& peer, double now) {
  if (peer.command_phase != Phase::kIdle || now < peer.command_retry || peer.address.empty()) {
    return;
  }
  peer.command.fd = tcp_connect(peer.address, command_port_, own_address());
  if (peer.command.fd < 0) {
    peer.command_retry = now + 0.05;
    return;
  }
  peer.command_phase = Phase::kConnecting;
  peer.command_since = now;
  peer.silent = false;
}

void Daemon::on_command(Peer& peer, short events) {
  const auto drop = [&peer] {
    peer.command.shut();
    peer.command_phase = Phase::kIdle;
    peer.asked = false;
    peer.status.clear();
  };
  if (peer.command_phase == Phase::kConnecting) {
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(peer.command.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      drop();
      peer.command_retry = monotonic_now() + 0.05;
      return;
    }
    peer.command_phase = Phase::kUp;
    if (gathering_) {
      peer.asked = peer.command.send_line("P " + version_);
    }
    return;
  }
  if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) {
    return;
  }
  const bool alive = peer.command.receive();
  for (std::string line; peer.command.take_line(line);) {
    const auto said = words(line);
    if (said.size() == 5 && said[0] == "S") {
      peer.status = said[1];
      peer.version = said[2];
      peer.host = said[3];
      peer.row = said[4];
      peer.asked = false;
      peer.silent = false;
    } else {
      peer.status.clear();
      peer.asked = false;
    }
  }
  if (!alive) {
    drop();
  }
}

std::string Daemon::own_row() const {
  std::string row;
  for (const auto& peer : peers_) {
    row += static_cast<char>(peer.self ? Cell::kConnected : peer.cell);
  }
  return row;
}

void Daemon::begin_gather(double now) {
  gathering_ = true;
  gather_until_ = now + 0.5;
  for (auto& peer : peers_) {
    if (peer.self) {
      continue;
    }
    open_command(peer, now);
    if (peer.command_phase == Phase::kUp && !peer.asked) {
      peer.asked = peer.command.send_line("P " + version_);
    }
  }
}

bool Daemon::gather_complete() const {
  return std::none_of(peers_.begin(), peers_.end(), [this](const Peer& peer) {
    const bool opening = peer.command_phase == Phase::kConnecting && peer.command_since + 0.5 >= gather_until_ - 1e-9;
    return !peer.self && !peer.silent && (peer.asked || opening);
  });
}

void Daemon::end_gather(double) {
  gathering_ = false;
  for (auto& peer : peers_) {
    if (peer.asked) {
      peer.silent = true;
      peer.status.clear();
    }
  }
  const std::string report = full_report();
  for (auto& client : clients_) {
    if (client.wants_full) {
      client.wants_full = false;
      send(client.link.fd, report.data(), report.size(), MSG_NOSIGNAL);
    }
  }
}

std::string Daemon::full_report() {
  const std::size_t count = peers_.size();
  std::ostringstream out;
  bool all_good = true;
  bool any_peer = false;
  for (auto& peer : peers_) {
    std::string state = peer.self ? status() : peer.status;
    std::string version = peer.self ? version_ : peer.version;
    std::string row = peer.self ? own_row() : peer.row;
    std::string host = peer.self ? host_ : peer.host;
    if (state.empty() || row.size() != count) {
      state = "UNAVAILABLE";
      version = "-";
      host = "-";
      row = std::string(count, 'I');
    }
    all_good = all_good && state == "READY" && row == std::string(count, 'C');
    any_peer = any_peer || (!peer.self && peer.cell == Cell::kConnected);
    out << "NODE " << peer.id << ' ' << peer.entry << ' ' << state << ' ' << version << ' ' << host << ' ' << row
        << (peer.self ? " self" : " peer") << '\n';
  }
  const bool down = status() != "READY" || (count > 1 && !any_peer);
  out << "DOMAIN " << (down ? "DOWN" : all_good ? "UP" : "DEGRADED") << "\nEND\n";
  return out.str();
}

void Daemon::on_client_line(Client& client, const std::string& line, double now) {
  const auto said = words(line);
  if (settings_.flag("cmd_blocked") && client.from_peer) {
    return;
  }
  if (line == "Q") {
    client.link.send_line(status());
  } else if (line == "N") {
    client.wants_full = true;
    if (!gathering_) {
      begin_gather(now);
    }
  } else if (said.size() == 2 && said[0] == "P") {
    if (said[1] == version_) {
      client.link.send_line("S " + status() + " " + version_ + " " + host_ + " " + own_row());
    } else {
      client.link.send_line("X");
    }
  }
}

// --- start, loop, end ------------------------------------------------------------------------------------------------

std::string printed(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof(text));
  }
  return text;
}

std::set<std::string> local_addresses() {
  std::set<std::string> result;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) {
    return result;
  }
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr != nullptr && (one->ifa_flags & IFF_UP) != 0) {
      result.insert(printed(one->ifa_addr));
    }
  }
  freeifaddrs(all);
  return result;
}

bool Daemon::prepare(int port_override) {
  version_ = settings_.text("version", default_version());
  run_dir_ = settings_.text("run_dir", "/var/run/nvidia-imex");
  server_port_ = port_override > 0 ? port_override : config_.server_port();
  command_port_ = config_.command_port();
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  host_ = settings_.text("hostname", host[0] != '\0' ? host : "-");
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  instance_ = hex((static_cast<std::uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(now.tv_nsec)) ^
                  (static_cast<std::uint64_t>(getpid()) << 48U));
  std::istringstream steps(settings_.text("backoff", "0.5/1/2/3"));
  for (std::string step; std::getline(steps, step, '/');) {
    backoff_.push_back(std::atof(step.c_str()));
  }

  log("INFO", "IMEX version " + version_ + " is running with the following configuration options:");
  log("INFO", "IMEX library communication bind port = " + std::to_string(server_port_));
  if (settings_.flag("start_fail")) {
    log("ERROR", "Failed to initialize the NvGpu library.");
    return false;
  }
  const std::string driver = settings_.text("driver_version", version_);
  if (driver != version_) {
    log("ERROR", "NvGpu Library version " + version_ + " is not matching with current GPU driver version " + driver +
                     ". Aborting.");
    return false;
  }
  log("INFO", "NvGpu Library version matched with GPU Driver version");

  const std::string file = config_.node_file();
  if (!read_node_list(file, list_)) {
    log("ERROR", "Failed to read node configuration file " + file);
    return false;
  }
  hash_ = hex(identity(list_));
  for (std::size_t i = 0; i < list_.entries.size(); ++i) {
    Peer peer;
    peer.id = static_cast<int>(i);
    peer.entry = list_.entries[i];
    peer.address = list_.addresses[i] == "0.0.0.0" || list_.addresses[i] == "::" ? "" : list_.addresses[i];
    if (peer.entry != list_.addresses[i]) {
      log("INFO", "Treating node config entry '" + peer.entry + "' as a host name.");
    }
    peers_.push_back(peer);
  }
  const std::string bind_to = config_.text("BIND_INTERFACE_IP", "");
  const auto local = bind_to.empty() ? local_addresses() : std::set<std::string>{bind_to};
  for (auto& peer : peers_) {
    if (!peer.address.empty() && local.count(peer.address) != 0) {
      peer.self = true;
      self_ = peer.id;
      break;
    }
  }
  if (self_ < 0) {
    log("ERROR",
        "No matching network interface found for any IP addresses in the node configuration file " + file + ".");
    return false;
  }
  log("INFO", "Identified this node as ID " + std::to_string(self_) + ", using bind IP of '" + own_address() + "'");

  mkdir(run_dir_.c_str(), 0755);
  session_ = open((run_dir_ + "/session").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (session_ < 0 || flock(session_, LOCK_EX | LOCK_NB) != 0) {
    log("ERROR", "Failed to allocate Imex session. Error: NV_ERR_IN_USE");
    return false;
  }

  server_ = tcp_listen(own_address(), server_port_);
  if (server_ < 0) {
    log("ERROR",
        "Failed to bind to " + own_address() + ":" + std::to_string(server_port_) + ": " + std::strerror(errno));
    return false;
  }
  if (config_.command_enabled()) {
    const std::string path = config_.text("IMEX_CMD_UNIX_DOMAIN_PATH", "");
    if (!path.empty()) {
      command_unix_ = unix_listen(path);
    }
    command_ = tcp_listen(config_.text("IMEX_CMD_BIND_INTERFACE_IP", "0.0.0.0"), command_port_);
    if (command_ < 0) {
      log("ERROR",
          "Failed to bind the command service to port " + std::to_string(command_port_) + ": " + std::strerror(errno));
      return false;
    }
  }

  const std::string persist = run_dir_ + "/persist.dat";
  if (FILE* in = std::fopen(persist.c_str(), "re")) {
    char line[256];
    std::vector<std::string> lines;
    while (std::fgets(line, sizeof(line), in) != nullptr) {
      for (const auto& word : words(line)) {
        lines.push_back(word);
      }
    }
    std::fclose(in);
    const bool ignored = settings_.flag("quorum_none") || config_.text("IMEX_WAIT_FOR_QUORUM", "RECOVERY") == "NONE";
    if (!lines.empty() && lines[0] == hash_ && !ignored) {
      recovering_.insert(lines.begin() + 1, lines.end());
      importers_ = recovering_;
      log("WARNING",
          "Unclean shutdown detected: waiting for " + std::to_string(recovering_.size()) + " earlier importers.");
    } else {
      unlink(persist.c_str());
      log("INFO", "Persistence file belongs to another node configuration, dropped.");
    }
  } else {
    log("INFO", "Persistence file does not exist, no previous importers.");
  }
  log("INFO", "GPU event successfully subscribed");
  return true;
}

void Daemon::say_started(bool good) {
  if (ready_pipe_ >= 0) {
    const char word = good ? '+' : '-';
    if (write(ready_pipe_, &word, 1) < 0) {
      log("WARNING", "the starting process has gone");
    }
    close(ready_pipe_);
    ready_pipe_ = -1;
  }
}

void sleep_for(double seconds) {
  const double until = monotonic_now() + seconds;
  for (double left = seconds; left > 0; left = until - monotonic_now()) {
    timespec rest{static_cast<time_t>(left),
                  static_cast<long>((left - static_cast<double>(static_cast<time_t>(left))) * 1e9)};
    nanosleep(&rest, nullptr);
  }
}

int Daemon::start_and_run(int port_override) {
  const std::string log_file = config_.text("LOG_FILE_NAME", "/var/log/nvidia-imex.log");
  log_ = open(log_file.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  const std::string trace_file = settings_.text("trace", "");
  if (!trace_file.empty()) {
    trace_ = open(trace_file.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  }
  if (settings_.flag("start_hang")) {
    trace("START_HANGS");
    for (;;) {
      pause();
    }
  }
  {
    NodeList list;
    if (read_node_list(config_.node_file(), list) && list.entries.empty()) {
      log("WARNING", "No nodes in the node configuration file " + config_.node_file() + ", nothing to do.");
      return 0;
    }
  }
  if (config_.number("DAEMONIZE", 1) != 0) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      return 1;
    }
    const pid_t child = fork();
    if (child < 0) {
      return 1;
    }
    if (child > 0) {
      close(ends[1]);
      char word = '-';
      while (read(ends[0], &word, 1) < 0 && errno == EINTR) {
      }
      if (word != '+') {
        waitpid(child, nullptr, 0);
      }
      return word == '+' ? 0 : 1;
    }
    setsid();
    close(ends[0]);
    ready_pipe_ = ends[1];
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0) {
      for (const int fd : {0, 1, 2}) {
        dup2(nothing, fd);
      }
    }
  }
  if (!prepare(port_override)) {
    say_started(false);
    return 1;
  }
  trace("START " + hash_ + " " + std::to_string(peers_.size()) + " " + std::to_string(self_) + " " + instance_ + " " +
        own_address());
  sleep_for(settings_.seconds("slow_start", 0.3));
  say_started(true);
  const int code = loop();
  trace("EXIT");
  return code;
}

void Daemon::graceful_end() {
  set_status("SHUTTING_DOWN");
  for (auto& peer : peers_) {
    peer.link.send_line("BYE");
  }
  for (auto& from : incoming_) {
    from.link.send_line("BYE");
  }
  sleep_for(settings_.seconds("stop_delay", 0.3));
  unlink((run_dir_ + "/persist.dat").c_str());
  const std::string path = config_.text("IMEX_CMD_UNIX_DOMAIN_PATH", "");
  if (!path.empty()) {
    unlink(path.c_str());
  }
  log("INFO", "IMEX daemon has ended.");
}

int Daemon::loop() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int number : {SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGHUP}) {
    sigaction(number, &action, nullptr);
  }
  started_ = monotonic_now();
  for (auto& peer : peers_) {
    peer.next = started_;
  }
  const double die_at =
      settings_.text("die_after", "").empty() ? kForever : started_ + settings_.seconds("die_after", 0);
  const double hang_at =
      settings_.text("hang_after", "").empty() ? kForever : started_ + settings_.seconds("hang_after", 0);

  // Who is behind each poll entry: filled together with the entries, called when the entry has something.
  std::vector<pollfd> polled;
  std::vector<std::function<void(short)>> handlers;
  const auto watch = [&](int fd, short events, std::function<void(short)> handler) {
    if (fd >= 0) {
      polled.push_back({fd, events, 0});
      handlers.push_back(std::move(handler));
    }
  };
  const auto accept_all = [](int fd, const std::function<void(int, const std::string&)>& take) {
    for (;;) {
      sockaddr_storage from{};
      socklen_t size = sizeof(from);
      const int got = accept4(fd, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (got < 0) {
        return;
      }
      const int on = 1;
      setsockopt(got, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      take(got, printed(reinterpret_cast<sockaddr*>(&from)));
    }
  };

  for (;;) {
    double now = monotonic_now();
    if (g_stop != 0) {
      if (!settings_.flag("stop_hang")) {
        graceful_end();
        return 0;
      }
      g_stop = 0;
      log("INFO", "SIGTERM received.");
    }
    if (g_dump != 0) {
      g_dump = 0;
      log("INFO", "SIGHUP received: dumping the verbose log buffer.");
    }
    if (g_restart_connections != 0) {
      g_restart_connections = 0;
      restart_connections(now);
    }
    if (now >= die_at) {
      log("ERROR", "the make-believe dies here");
      _exit(1);
    }
    if (now >= hang_at) {
      for (;;) {
        pause();
      }
    }
    advance_status(now);
    double wake = std::min({die_at, hang_at, now + 5.0});
    if (status_ != "READY" && status_ != "SHUTTING_DOWN") {
      const double initialising = settings_.seconds("slow_ready", 0.8);
      for (const double at : {started_ + initialising / 2 + 1e-4, started_ + initialising + 1e-4}) {
        wake = at > now ? std::min(wake, at) : wake;
      }
    }
    for (auto& peer : peers_) {
      if (peer.self) {
        continue;
      }
      if (peer.phase == Phase::kUp) {
        continue;
      }
      if (now >= peer.next) {
        if (peer.phase == Phase::kIdle) {
          open_link(peer, now);
        } else {
          lose_link(peer, now, Cell::kRecovering);
        }
      }
      wake = std::min(wake, peer.next);
    }
    if (gathering_) {
      if (gather_complete() || now >= gather_until_) {
        end_gather(now);
      } else {
        wake = std::min(wake, gather_until_);
      }
    }

    polled.clear();
    handlers.clear();
    watch(server_, POLLIN, [&](short) {
      accept_all(server_, [&](int fd, const std::string&) {
        incoming_.emplace_back();
        incoming_.back().link.fd = fd;
      });
    });
    const auto take_client = [&](int fd, const std::string& from) {
      clients_.emplace_back();
      clients_.back().link.fd = fd;
      clients_.back().from_peer =
          std::any_of(peers_.begin(), peers_.end(), [&](const Peer& p) { return !p.self && p.address == from; });
    };
    watch(command_, POLLIN, [&](short) { accept_all(command_, take_client); });
    watch(command_unix_, POLLIN, [&](short) { accept_all(command_unix_, take_client); });
    for (auto& peer : peers_) {
      watch(peer.link.fd, peer.phase == Phase::kConnecting ? POLLOUT : POLLIN,
            [&](short events) { on_link(peer, events, now); });
      watch(peer.command.fd, peer.command_phase == Phase::kConnecting ? POLLOUT : POLLIN,
            [&](short events) { on_command(peer, events); });
    }
    for (auto& from : incoming_) {
      watch(from.link.fd, POLLIN, [&](short) {
        const bool alive = from.link.receive();
        for (std::string line; from.link.fd >= 0 && from.link.take_line(line);) {
          if (line != "BYE") {
            on_incoming_line(from, line);
          }
        }
        if (!alive) {
          from.link.shut();
        }
      });
    }
    for (auto& client : clients_) {
      watch(client.link.fd, POLLIN, [&](short) {
        const bool alive = client.link.receive();
        for (std::string line; client.link.take_line(line);) {
          on_client_line(client, line, now);
        }
        if (!alive) {
          client.link.shut();
        }
      });
    }
    const int wait_ms = static_cast<int>(std::clamp((wake - now) * 1000.0 + 0.999, 0.0, 5000.0));
    const int ready = poll(polled.data(), polled.size(), wait_ms);
    now = monotonic_now();
    for (std::size_t i = 0; ready > 0 && i < polled.size(); ++i) {
      if (polled[i].revents != 0) {
        handlers[i](polled[i].revents);
      }
    }
    incoming_.remove_if([](const Incoming& from) { return from.link.fd < 0; });
    clients_.remove_if([](const Client& client) { return client.link.fd < 0; });
  }
}

}  // namespace

int daemon_main(const std::vector<std::string>& arguments) {
  std::string file = "/etc/nvidia-imex/config.cfg";
  int port = 0;
  const Settings settings = read_settings();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool more = i + 1 < arguments.size();
    if (word == "--version" || word == "-v") {
      std::printf("IMEX version is: %s\n", settings.text("version", default_version()).c_str());
      return 0;
    }
    if (word == "--nogpu") {
      continue;
    }
    if ((word == "-c" || word == "--config") && more) {
      file = arguments[++i];
    } else if ((word == "-p" || word == "--port") && more) {
      port = std::atoi(arguments[++i].c_str());
    } else {
      std::fprintf(stderr, "nvidia-imex: unknown option '%s'\n", word.c_str());
      return 1;
    }
  }
  Config config;
  if (!read_config(file, config)) {
    std::fprintf(stderr, "Failed to read configuration file %s\n", file.c_str());
    return 1;
  }
  return Daemon(settings, config).start_and_run(port);
}

}  // namespace imexd
