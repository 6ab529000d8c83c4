#include "recipes/train/gather.h"

#include "framework/backend/host_values.h"

namespace trireme {

std::vector<double> reduce_values(Communicator& group, Backend& backend,
                                  const std::vector<double>& mine, ReduceOp op) {
  Tensor x = backend.allocate({static_cast<std::int64_t>(mine.size())}, DType::kF64,
                              MemoryKind::kWorkspace);
  upload_doubles(backend, mine, x);
  group.all_reduce(x, op).wait();
  return download_doubles(backend, x);
}

std::vector<std::string> gather_texts(Communicator& group, Backend& backend,
                                      const std::string& mine) {
  std::vector<double> lengths(static_cast<std::size_t>(group.size()), 0.0);
  lengths[static_cast<std::size_t>(group.rank())] = static_cast<double>(mine.size());
  lengths = reduce_values(group, backend, lengths, ReduceOp::kSum);
  std::vector<std::string> all;
  for (int rank = 0; rank < group.size(); ++rank) {
    std::string text = rank == group.rank() ? mine : std::string();
    text.resize(static_cast<std::size_t>(lengths[static_cast<std::size_t>(rank)]));
    Tensor bytes = backend.allocate({static_cast<std::int64_t>(text.size())}, DType::kU8,
                                    MemoryKind::kWorkspace);
    backend.upload(text.data(), bytes);
    group.broadcast(bytes, rank).wait();
    backend.download(bytes, text.data());
    all.push_back(std::move(text));
  }
  return all;
}

}  // namespace trireme
