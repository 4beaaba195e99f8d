// What a dry run would have changed, in order, as sentences that begin with "would".
#pragma once

#include <string>
#include <vector>

namespace host {

class Plan {
 public:
  void add(std::string sentence) { sentences_.push_back(std::move(sentence)); }
  const std::vector<std::string>& sentences() const { return sentences_; }

 private:
  std::vector<std::string> sentences_;
};

}  // namespace host
