#include "tests/conformance/backend/backends.h"

#include "framework/base/error.h"
#include "tests/support/guarded_backend.h"

namespace trireme::test {

namespace {

std::unique_ptr<Backend> make(Kind kind) {
  auto ledger = std::make_shared<MemoryLedger>();
  switch (kind) {
    case Kind::kReference:
      return make_reference_backend(ledger);
    case Kind::kGuarded:
      return make_guarded_backend(ledger);
    case Kind::kCpu:
      return make_cpu_backend(ledger, 2);
  }
  return nullptr;
}

}  // namespace

std::string text(const Target& target) {
  const char* kind = target.kind == Kind::kReference ? "reference"
                     : target.kind == Kind::kGuarded ? "guarded"
                                                     : "cpu";
  return join(kind, "_", name_of(target.compute));
}

std::unique_ptr<Backend> make(const Target& target, std::string& why) {
  try {
    auto backend = make(target.kind);
    check(backend->computes(target.compute), text(target), ": the backend does not claim to");
    return backend;
  } catch (const Error& error) {
    why = error.what();
    if (why.find("this build has no cpu backend") == std::string::npos) throw;
  }
  return nullptr;
}

std::vector<Target> all_targets() {
  return {{Kind::kReference, DType::kF32}, {Kind::kReference, DType::kBF16},
          {Kind::kReference, DType::kF16}, {Kind::kReference, DType::kF64},
          {Kind::kGuarded, DType::kF64},   {Kind::kCpu, DType::kF32},
          {Kind::kCpu, DType::kBF16},      {Kind::kCpu, DType::kF16}};
}

}  // namespace trireme::test
