// Asking the IMEX daemons: nvidia-imex-ctl, which can hang, and so always has a limit.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "host/files.h"
#include "host/plan.h"
#include "host/processes.h"
#include "imex/status.h"

namespace imex {

struct LocalStatus {
  std::string word;   // empty: not yet known
  std::string why;    // for an empty word: what was said instead
  bool hung = false;  // the call met its limit
};

class Ctl {
 public:
  virtual ~Ctl() = default;
  virtual LocalStatus local_status(host::milliseconds limit) = 0;
  // The domain as the local daemon sees it. Error: source or time_out.
  virtual base::Result<DomainView> domain(host::milliseconds limit) = 0;
  // The domain as the daemon of each address sees it, over its command port; asked side by side, answers in the
  // addresses' order.
  virtual std::vector<base::Result<DomainView>> peer_domains(const std::vector<std::string>& addresses, unsigned port,
                                                             host::milliseconds limit) = 0;
};

class ToolCtl : public Ctl {
 public:
  // `program`: trusted absolute path; `config`: the daemon's config file, named only where it is not the default.
  ToolCtl(std::string program, std::string config, host::Processes& processes)
      : program_(std::move(program)), config_(std::move(config)), processes_(processes) {}

  LocalStatus local_status(host::milliseconds limit) override;
  base::Result<DomainView> domain(host::milliseconds limit) override;
  std::vector<base::Result<DomainView>> peer_domains(const std::vector<std::string>& addresses, unsigned port,
                                                     host::milliseconds limit) override;

 private:
  host::Exit run(std::vector<std::string> arguments, host::milliseconds limit);

  std::string program_;
  std::string config_;
  host::Processes& processes_;
  bool no_json_ = false;  // this release has no -j: the text form from then on
};

// For a dry run: the outcome that the planned list would have.
class DryCtl : public Ctl {
 public:
  // `files` shows the planned list at `nodes_config`.
  DryCtl(const host::Files& files, std::string nodes_config, host::Plan& plan)
      : files_(files), nodes_config_(std::move(nodes_config)), plan_(plan) {}

  LocalStatus local_status(host::milliseconds limit) override;
  base::Result<DomainView> domain(host::milliseconds limit) override;
  std::vector<base::Result<DomainView>> peer_domains(const std::vector<std::string>& addresses, unsigned port,
                                                     host::milliseconds limit) override;

 private:
  const host::Files& files_;
  std::string nodes_config_;
  host::Plan& plan_;
  bool told_ready_ = false;
  bool told_domain_ = false;
};

}  // namespace imex
