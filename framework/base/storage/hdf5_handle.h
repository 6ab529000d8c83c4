// Owns one handle of libhdf5. For the few sources that include hdf5.h at all.
#pragma once

#include <hdf5.h>

namespace trireme {

class Hdf5Handle {
 public:
  // A negative `id` is libhdf5's way to say that there is none.
  Hdf5Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

}  // namespace trireme
