#include "recipes/report/line_file.h"

namespace trireme {

LineFile::LineFile(Files& files, const std::string& path, LineStart start) {
  if (start == LineStart::kFresh && files.exists(path)) files.remove(path);
  file_ = files.open(path, OpenMode::kAppend);
}

void LineFile::line(std::string_view text) {
  std::string whole(text);
  whole += '\n';
  file_->append(whole);
}

void LineFile::sync() { file_->sync(); }

void LineFile::close() { file_->close(); }

}  // namespace trireme
