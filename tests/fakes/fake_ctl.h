// The IMEX daemons as nvidia-imex-ctl shows them, by a timetable: at each point in time the last entry counts. A
// question that nobody set up is an exception.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "fakes/fake_clock.h"
#include "imex/ctl.h"

namespace fakes {

class FakeCtl : public imex::Ctl {
 public:
  using View = base::Result<imex::DomainView>;

  explicit FakeCtl(FakeClock& clock) : clock_(clock), begin_(clock.now()) {}

  FakeCtl& says(host::milliseconds from, imex::LocalStatus status) {
    words_.insert_or_assign(from, std::move(status));
    return *this;
  }
  FakeCtl& shows(host::milliseconds from, View view) {
    views_.insert_or_assign(from, std::move(view));
    return *this;
  }
  FakeCtl& peer_shows(const std::string& address, host::milliseconds from, View view) {
    peers_[address].insert_or_assign(from, std::move(view));
    return *this;
  }

  host::milliseconds now() const { return std::chrono::duration_cast<host::milliseconds>(clock_.now() - begin_); }

  imex::LocalStatus local_status(host::milliseconds limit) override {
    ++asked;
    imex::LocalStatus status = at(words_, "local_status");
    if (status.hung) clock_.pass(limit);
    return status;
  }
  View domain(host::milliseconds limit) override {
    ++looks;
    View view = at(views_, "domain");
    if (!view && view.error().code == base::ExitCode::time_out) clock_.pass(limit);
    return view;
  }
  std::vector<View> peer_domains(const std::vector<std::string>& addresses, unsigned port,
                                 host::milliseconds limit) override {
    peers_asked.push_back(addresses);
    ports.push_back(port);
    std::vector<View> views;
    bool hung = false;
    for (const std::string& address : addresses) {
      views.push_back(at(peers_[address], "peer " + address));
      hung = hung || (!views.back() && views.back().error().code == base::ExitCode::time_out);
    }
    if (hung) clock_.pass(limit);  // side by side: once for all
    return views;
  }

  int asked = 0;  // for the local status
  int looks = 0;  // at the domain
  std::vector<std::vector<std::string>> peers_asked;
  std::vector<unsigned> ports;

 private:
  template <class T>
  const T& at(const std::map<host::milliseconds, T>& timetable, const std::string& question) const {
    auto next = timetable.upper_bound(now());
    if (next == timetable.begin()) throw std::logic_error("FakeCtl: nobody set up: " + question);
    return (--next)->second;
  }

  FakeClock& clock_;
  FakeClock::time_point begin_;
  std::map<host::milliseconds, imex::LocalStatus> words_;
  std::map<host::milliseconds, View> views_;
  std::map<std::string, std::map<host::milliseconds, View>> peers_;
};

// A status that nvidia-imex-ctl -q did not tell: no daemon answers yet.
inline imex::LocalStatus no_daemon_yet() {
  return {"", "nvidia-imex-ctl -q: exit 0: Query Status returned error code: 14", false};
}
inline imex::LocalStatus hangs() { return {"", "nvidia-imex-ctl -q: no end after 5 s, so it was stopped", true}; }
inline imex::LocalStatus word(const std::string& said) { return {said, "", false}; }

}  // namespace fakes
