// What a clone without Git LFS has instead of a large file: three lines of text that name it.
#pragma once

#include <string>
#include <string_view>

#include "framework/base/error.h"

namespace trireme {

// Error if `begin`, the first bytes of the file at `path`, is one.
inline void refuse_lfs_pointer(std::string_view begin, const std::string& path) {
  check(!begin.starts_with("version https://git-lfs"), path,
        ": it is a pointer of Git LFS, not the file itself; git lfs pull fetches that");
}

}  // namespace trireme
