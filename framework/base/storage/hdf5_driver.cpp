#include "framework/base/storage/hdf5_driver.h"

#include <hdf5.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <new>
#include <type_traits>

#include "framework/base/error.h"

namespace trireme {

namespace {

static_assert(std::is_same_v<hid_t, std::int64_t> || sizeof(hid_t) == sizeof(std::int64_t));

constexpr haddr_t kLargestAddress = std::numeric_limits<std::int64_t>::max();

}  // namespace

// libhdf5 sees the base; `base` must come first. It may outlive its driver: after a failure of its
// own (no memory, say) libhdf5 keeps files open until the program ends, and flushes them then.
struct Hdf5OpenFile {
  H5FD_t base;
  Hdf5Driver* driver;  // null when that is gone: nothing can be read, and writes go nowhere
  Hdf5OpenFile* next;  // of the same driver
  haddr_t end_of_allocation;
  haddr_t end_of_file;
};

namespace {

using OpenFile = Hdf5OpenFile;

OpenFile* from(H5FD_t* file) { return reinterpret_cast<OpenFile*>(file); }
const OpenFile* from(const H5FD_t* file) { return reinterpret_cast<const OpenFile*>(file); }

// Runs `call`; an exception must not cross C code, so it is recorded.
template <typename Call>
bool recorded(Hdf5Driver& driver, const Call& call) {
  try {
    call();
    return true;
  } catch (const std::exception& error) {
    driver.record(reason_of(error));
  } catch (...) {
    driver.record("file access failed");
  }
  return false;
}

H5FD_t* open_file(const char*, unsigned flags, hid_t access, haddr_t) {
  const void* info = H5Pget_driver_info(access);
  if (info == nullptr) return nullptr;
  Hdf5Driver* driver = *static_cast<Hdf5Driver* const*>(info);
  haddr_t end = 0;
  const bool fresh = (flags & H5F_ACC_TRUNC) != 0;  // the bytes stay: tokens may already lie there
  if (!fresh && !recorded(*driver, [&] { end = static_cast<haddr_t>(driver->file().size()); }))
    return nullptr;
  auto* file = new (std::nothrow) OpenFile{};
  if (file == nullptr) {
    driver->record("out of memory");
    return nullptr;
  }
  file->end_of_file = end;
  driver->attach(*file);
  return &file->base;
}

herr_t close_file(H5FD_t* file) {
  if (Hdf5Driver* driver = from(file)->driver) driver->detach(*from(file));
  delete from(file);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = 0;
  return 0;
}

haddr_t get_allocated(const H5FD_t* file, H5FD_mem_t) { return from(file)->end_of_allocation; }

herr_t set_allocated(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  from(file)->end_of_allocation = address;
  return 0;
}

haddr_t get_end(const H5FD_t* file, H5FD_mem_t) { return from(file)->end_of_file; }

herr_t read_bytes(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* into) {
  if (address > kLargestAddress || size > kLargestAddress - address) return -1;
  if (from(file)->driver == nullptr) return -1;
  Hdf5Driver& driver = *from(file)->driver;
  return recorded(driver,
                  [&] {
                    driver.file().read(into, static_cast<std::int64_t>(size),
                                       static_cast<std::int64_t>(address));
                  })
             ? 0
             : -1;
}

herr_t write_bytes(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size,
                   const void* data) {
  OpenFile& open = *from(file);
  if (open.driver == nullptr) return 0;
  recorded(*open.driver, [&] {
    open.driver->file().write(data, static_cast<std::int64_t>(size),
                              static_cast<std::int64_t>(address));
  });
  open.end_of_file = std::max<haddr_t>(open.end_of_file, address + size);
  return 0;
}

herr_t truncate_file(H5FD_t* file, hid_t, hbool_t) {
  OpenFile& open = *from(file);
  if (open.driver == nullptr || open.end_of_file == open.end_of_allocation) return 0;
  recorded(*open.driver, [&] {
    open.driver->file().truncate(static_cast<std::int64_t>(open.end_of_allocation));
  });
  open.end_of_file = open.end_of_allocation;
  return 0;
}

H5FD_class_t driver_class() {
  H5FD_class_t c{};
  // libhdf5 1.14 added two members in front; named here only where they exist.
  [](auto& any) {
    if constexpr (requires { any.version; }) any.version = 1;
    if constexpr (requires { any.value; }) any.value = static_cast<decltype(any.value)>(511);
  }(c);
  c.name = "trireme_files";
  c.maxaddr = kLargestAddress;
  c.fc_degree = H5F_CLOSE_STRONG;
  c.fapl_size = sizeof(Hdf5Driver*);
  c.open = open_file;
  c.close = close_file;
  c.query = query;
  c.get_eoa = get_allocated;
  c.set_eoa = set_allocated;
  c.get_eof = get_end;
  c.read = read_bytes;
  c.write = write_bytes;
  c.truncate = truncate_file;
  const H5FD_mem_t map[] = H5FD_FLMAP_SINGLE;
  std::copy(std::begin(map), std::end(map), std::begin(c.fl_map));
  return c;
}

}  // namespace

Hdf5Driver::Hdf5Driver(File& file) : file_(file) {
  H5dont_atexit();
  const H5FD_class_t c = driver_class();
  driver_ = H5FDregister(&c);
  access_ = H5Pcreate(H5P_FILE_ACCESS);
  Hdf5Driver* self = this;
  const bool ready = driver_ >= 0 && access_ >= 0 && H5Pset_driver(access_, driver_, &self) >= 0 &&
                     H5Pset_libver_bounds(access_, H5F_LIBVER_V110, H5F_LIBVER_LATEST) >= 0 &&
                     H5Pset_alignment(access_, 1, 4096) >= 0;
  check(ready, "HDF5: cannot set up file access for ", file.path());
}

Hdf5Driver::~Hdf5Driver() {
  while (open_ != nullptr) detach(*open_);
  if (access_ >= 0) H5Pclose(access_);
  if (driver_ >= 0) H5FDunregister(driver_);
}

void Hdf5Driver::attach(Hdf5OpenFile& file) {
  file.driver = this;
  file.next = open_;
  open_ = &file;
}

void Hdf5Driver::detach(Hdf5OpenFile& file) {
  Hdf5OpenFile** at = &open_;
  while (*at != &file) at = &(*at)->next;
  *at = file.next;
  file.driver = nullptr;
}

void Hdf5Driver::rethrow() const {
  if (!failure_.empty()) throw Error(failure_);
}

void Hdf5Driver::record(const std::string& failure) noexcept {
  if (failure_.empty()) remember(failure_, failure);
}

// After a failed allocation of its own libhdf5 crashes when it tidies up at the program's end.
// There is nothing to tidy: every handle of ours is closed. Heard only before its first other call.
QuietHdf5::QuietHdf5() {
  H5dont_atexit();
  H5E_auto2_t function = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &function, &data_);
  function_ = reinterpret_cast<void (*)()>(function);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

QuietHdf5::~QuietHdf5() {
  H5Eset_auto2(H5E_DEFAULT, reinterpret_cast<H5E_auto2_t>(function_), data_);
}

}  // namespace trireme
