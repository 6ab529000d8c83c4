// A text file that grows a line at a time: metrics.jsonl, log.txt.
//
// Every line reaches the system in one write before line() returns, so a reader sees whole lines
// and a killed run loses none. Failures (a full disk) are Errors that name the file, the bytes and
// the reason. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "framework/base/files.h"

namespace trireme {

enum class LineStart : std::uint8_t {
  kFresh,   // what was there is removed
  kAppend,  // goes on behind it
};

class LineFile {
 public:
  LineFile(Files& files, const std::string& path, LineStart start);
  // `text` and a line's end.
  void line(std::string_view text);
  void sync();  // to the disk
  void close();

 private:
  std::unique_ptr<File> file_;
};

}  // namespace trireme
