// libhdf5 on top of File: a virtual file driver, so that HDF5 too goes through the one door to the
// file system.
//
// A failed write is recorded and answered with success: libhdf5's own failure paths may keep
// handles open and flush them when the program exits, into a File that is long gone. So after
// closing every handle of a file that was written, ask rethrow(). A failed read is recorded and
// answered with failure.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/files.h"

namespace trireme {

struct Hdf5OpenFile;

class Hdf5Driver {
 public:
  // `file` and this object must outlive every HDF5 handle opened with access_list(). Those that
  // libhdf5 keeps after a failure of its own are cut off: they read and write nothing any more.
  explicit Hdf5Driver(File& file);
  ~Hdf5Driver();
  Hdf5Driver(const Hdf5Driver&) = delete;
  Hdf5Driver& operator=(const Hdf5Driver&) = delete;

  // A file access property list (hid_t) for H5Fcreate and H5Fopen; the file name given there is
  // ignored. New files use the checksummed format of libhdf5 1.10; every object starts at a
  // multiple of 4096 bytes.
  std::int64_t access_list() const { return access_; }
  // Throws the first recorded failure, if any.
  void rethrow() const;

  // For the driver's callbacks.
  File& file() { return file_; }
  void record(const std::string& failure) noexcept;
  void attach(Hdf5OpenFile& file);
  void detach(Hdf5OpenFile& file);

 private:
  File& file_;
  std::string failure_;
  Hdf5OpenFile* open_ = nullptr;  // a list
  std::int64_t driver_ = -1;
  std::int64_t access_ = -1;
};

// While it lives, libhdf5 prints nothing on this thread.
class QuietHdf5 {
 public:
  QuietHdf5();
  ~QuietHdf5();
  QuietHdf5(const QuietHdf5&) = delete;
  QuietHdf5& operator=(const QuietHdf5&) = delete;

 private:
  void (*function_)() = nullptr;
  void* data_ = nullptr;
};

}  // namespace trireme
