#include "recipes/huggingface/making.h"

#include "framework/base/error.h"

namespace trireme {

void make_folder(Files& files, const std::string& named, bool replace,
                 const std::function<void(const std::string& making)>& fill) {
  std::string to = named;
  while (to.size() > 1 && to.back() == '/') to.pop_back();
  check(replace || !files.exists(to) ||
            (files.status(to).kind == FileKind::kDirectory && files.list(to).empty()),
        "export to ", to, ": it is there already; a new or empty folder is expected");
  const std::string making = to + ".tmp-making";
  files.remove_all(making);  // what one that was killed has left
  files.make_directories(making);
  try {
    fill(making);
    files.sync_directory(making);
    if (files.exists(to)) replace ? files.remove_all(to) : files.remove(to);
    files.rename(making, to);
    files.sync_directory(folder_of(to));
  } catch (...) {
    try {
      files.remove_all(making);
    } catch (const Error&) {
      // The first error is on its way; what is left has a temporary name.
    }
    throw;
  }
}

}  // namespace trireme
