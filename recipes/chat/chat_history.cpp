#include "recipes/chat/chat_history.h"

#include "framework/base/error.h"
#include "framework/base/json/json.h"

namespace trireme {

ChatHistory::ChatHistory(Files& files, std::string path) : files_(files), path_(std::move(path)) {
  if (path_.empty()) return;
  std::size_t lines = 0;
  bool cut = false;  // its last line has no end
  if (files_.status(path_).kind == FileKind::kFile) {
    const std::string text = read_whole(files_, path_, std::int64_t{64} << 20);
    for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
         begin = end + 1, ++lines) {
      try {
        const Json json = parse_json(std::string_view(text).substr(begin, end - begin), "line");
        earlier_.push_back(json.text("line"));
      } catch (const Error&) {
        // Of another program, or cut short by a full disk.
      }
    }
    cut = !text.empty() && !text.ends_with('\n');
    if (earlier_.size() > kKept)
      earlier_.erase(earlier_.begin(), earlier_.end() - static_cast<long>(kKept));
  } else {
    files_.make_directories(folder_of(path_));
    files_.open(path_, OpenMode::kScratch)->close();  // 0600 from its first moment on
  }
  if (lines > 2 * kKept || cut) write_all();
  file_ = files_.open(path_, OpenMode::kAppend);
}

void ChatHistory::write_all() {
  const std::string temporary = files_.temporary_name(path_);
  const auto file = files_.open(temporary, OpenMode::kScratch);
  std::string text;
  for (const std::string& message : earlier_) text += to_text(Json(message)) + "\n";
  file->write(text.data(), std::ssize(text), 0);
  file->close();
  files_.rename(temporary, path_);
}

void ChatHistory::add(const std::string& message) {
  if (file_) file_->append(to_text(Json(message)) + "\n");
}

}  // namespace trireme
