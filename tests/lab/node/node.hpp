// One make-believe node of the lab: process 1 of its own pid, mount, network, host name and cgroup world. Never part of
// the product.
//
// One static program; its own name decides:
//   - lab-node netns: a network namespace with nothing in it, until stdin ends (the switch)
//   - lab-node node FOLDER: a node: systemd for one unit, slurmd for prologs and epilogs, IMDSv2, /dev/log; all in one
//     poll loop, because 36 of them run on two cores
//   - systemctl, scontrol, sudo: the clients inside the node
//
// The unit nvidia-imex.service is run as systemd 252 was seen to run a Type=forking service: the daemon lives in a real
// cgroup, a client that is killed leaves its job queued, a start behind a stop waits, a stop cancels a start, the 6th
// start in 10 s is refused until reset-failed, TERM becomes KILL after 90 s. Times follow time_scale of
// /etc/nvidia-imex/lab.cfg. Requests that it does not know are refused, never answered with success.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace lab {

using Words = std::vector<std::string>;

Words split(const std::string& text, char separator);
std::string slurp(const std::string& path);
bool spill(const std::string& path, const std::string& text);
/// Value of KEY=VALUE in a file of such lines.
std::string setting(const std::string& path, const std::string& key, const std::string& fallback);
double monotonic_now();

inline const std::string kManagerSocket = "/run/lab/systemd";
inline const std::string kLabFile = "/etc/nvidia-imex/lab.cfg";

/// Makes the node's file systems; called in the node's own namespaces by its process 1.
bool make_root(const std::string& folder, const std::string& name);
/// Address on an interface that is there already, loopback and the metadata address; false says why on stderr.
bool make_network(const std::string& interface, const std::string& address, int prefix);

/// One event for lab.py, a line on stdout.
void tell(const std::string& line);

class Imds {
 public:
  bool listen();
  std::vector<int> descriptors() const;
  void serve(int fd);

 private:
  struct Client {
    int fd;
    std::string in;
  };
  int listener_ = -1;
  std::vector<Client> clients_;
};

class Manager {
 public:
  bool listen();
  std::vector<int> descriptors() const;
  void serve(int fd);
  /// A child of process 1 has ended; true when it belonged to the unit.
  bool reaped(pid_t pid, int status);
  /// After each round: time limits, the end of the last process of the unit.
  void tick(double now);
  double next(double now) const;
  void forget();  // the node lost power

 private:
  struct Job {
    int id = 0;
    std::string type;
    std::vector<int> waiters;
  };
  void request(int client, const Words& words);
  void start(int client, bool wait);
  void stop(int client, bool wait);
  void begin_start(double now);
  void begin_stop(double now);
  void state(const std::string& active, const std::string& sub, const std::string& result);
  void finish(Job& job, int code, const std::string& error);
  void answer(int client, int code, const std::string& out, const std::string& error);
  void show(int client, const Words& properties, bool values_only);
  void signal_all(int number) const;
  std::vector<pid_t> members() const;

  int listener_ = -1;
  std::vector<int> clients_;
  std::string active_ = "inactive", sub_ = "dead", result_ = "success";
  pid_t main_ = 0, control_ = 0;
  int next_id_ = 100;
  Job running_, waiting_;  // id 0: none
  std::vector<double> starts_;
  double kill_at_ = 0, started_ = 0, entered_ = 0;
  bool killed_ = false, failed_start_ = false;
};

int node_main(const std::string& folder);
int netns_main();
int systemctl_main(const Words& words);
int scontrol_main(const Words& words);
int sudo_main(char** argv);

}  // namespace lab
