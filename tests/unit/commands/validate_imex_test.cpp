// What validate says of a domain, as one daemon or a merge of many sees it.
#include "commands/validate_imex.h"

#include <catch2/catch_test_macros.hpp>

using flow::Judgement;
using imex::Link;

namespace {

imex::DomainView up(std::size_t count) {
  imex::DomainView view;
  for (std::size_t i = 1; i <= count; ++i) view.nodes.push_back({"10.0.0." + std::to_string(i), "READY", "570.172"});
  view.links.assign(count, std::vector<Link>(count, Link::connected));
  view.state = "UP";
  return view;
}

flow::Finding domain_of(const imex::DomainView& view) {
  flow::Findings findings;
  commands::add_domain_findings(view, {}, findings);
  return findings.all().back();
}

std::size_t fails(const imex::DomainView& view) {
  flow::Findings findings;
  commands::add_domain_findings(view, {}, findings);
  std::size_t count = 0;
  for (const flow::Finding& finding : findings.all()) count += finding.judgement == Judgement::fail ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("a domain is up as the prolog judges it: state UP, or none told") {
  CHECK(domain_of(up(1)).found == "1 node, every node READY, every pair connected, state UP");
  auto view = up(2);
  view.state = "";
  CHECK(domain_of(view).judgement == Judgement::ok);
  for (const char* state : {"DOWN", "DEGRADED", "up"}) {
    view.state = state;
    CHECK(domain_of(view).judgement == Judgement::fail);
    CHECK_FALSE(domain_of(view).cure.empty());
  }
}

TEST_CASE("one fault of a domain is one fail") {
  auto dead = up(18);
  dead.nodes[6] = {"10.0.0.7", "UNAVAILABLE", ""};
  for (std::size_t peer = 0; peer < 18; ++peer) dead.links[peer][6] = Link::never;
  dead.state = "DEGRADED";
  CHECK(fails(dead) == 1);
  CHECK(domain_of(dead).judgement == Judgement::skipped);
  auto mute = up(18);
  for (std::size_t peer = 1; peer < 18; ++peer) mute.nodes[peer] = {"10.0.0.9", "UNAVAILABLE", ""};
  CHECK(fails(mute) == 1);
  CHECK(domain_of(mute).judgement == Judgement::skipped);
}
