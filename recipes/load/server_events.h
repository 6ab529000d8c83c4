// Server-sent events as they come in pieces: the data of each. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class ServerEvents {
 public:
  // The `data` of the events that this piece completes; comments are left out.
  std::vector<std::string> push(std::string_view piece);

 private:
  std::string held_;
};

}  // namespace trireme
