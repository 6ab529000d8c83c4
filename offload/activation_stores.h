// Where Recompute's kept inputs live between forward and backward besides the device: cut over the
// tensor ranks (ZeRO's Pa, arXiv 1910.02054, section 6.1), on the host or on disk (Pa+cpu).
//
// A kept input is taken apart and put together by copies alone, so it comes back with the same
// bits. Stores nest: partitioned(host) keeps 1/t of each input on the host. All calls of a store
// and of its fetches come from the rank's thread.
//
// A fetch that is dropped uncalled (an aborted step) gives its memory or slot back. Fetches of the
// disk may be dropped after their store has died, and nothing happens then; called so, they throw
// Error.
#pragma once

#include <memory>

#include "framework/comm/communicator.h"
#include "framework/nn/recompute.h"
#include "offload/scratch_folder.h"
#include "offload/slot_file.h"

namespace trireme {

// Each tensor rank keeps its piece (piece_begin's) of every input and gives it to `inner`; fetching
// is an all-gather over `tensor`, in the same order on all its ranks. For inputs that are equal on
// all tensor ranks: not under sequence parallelism. Arguments must outlive it and its fetches.
// Pieces and the gathered input are counted as activations.
std::unique_ptr<ActivationStore> partition_activations(Backend& backend, Communicator& tensor,
                                                       ActivationStore& inner);

// Copies to host memory, counted there as activations. `backend` must outlive its fetches.
std::unique_ptr<ActivationStore> activations_on_host(Backend& backend);

struct DiskActivations {
  std::int64_t slots = 0;       // most inputs kept at a time, from the schedule
  std::int64_t slot_bytes = 0;  // of the largest
  int buffers = 3;              // host copies in flight, at most
};
// Writes begin at once and go on during forward; reads happen when backward comes. A failed write
// is thrown by the fetch, or by the keep() that needs its buffer. keep() throws Error when more
// inputs are kept than there are slots, or one is larger than a slot. Counted from the start:
// on the disk tier slots * SlotFile::slot_bytes(slot_bytes) as activations, on the host `buffers`
// times that of one slot as communication. The arguments must outlive the store.
std::unique_ptr<ActivationStore> activations_on_disk(Backend& backend, const ScratchFolder& folder,
                                                     IoPool& pool, const DiskActivations& options);

}  // namespace trireme
