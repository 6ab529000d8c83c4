#include "framework/data/parallel_encoder.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

namespace trireme {

namespace {

constexpr std::size_t kPart = std::size_t{1} << 20;  // bytes of text for one thread at a time

}  // namespace

ParallelEncoder::ParallelEncoder(const Tokenizer& tokenizer, int threads)
    : tokenizer_(tokenizer), enough_(kPart * static_cast<std::size_t>(std::max(1, threads))) {
  for (int i = 0; i < std::max(1, threads); ++i) encoders_.push_back(tokenizer.encoder());
}

void ParallelEncoder::add(std::string_view piece, std::vector<std::int32_t>& ids) {
  waiting_ += piece;
  if (waiting_.size() > enough_) encode(false, ids);
}

void ParallelEncoder::finish(std::vector<std::int32_t>& ids) {
  encode(true, ids);
  began_ = false;
}

// The rest of the text stays unless `all`. Where there is no cut, twice as much is tried.
std::vector<ParallelEncoder::Part> ParallelEncoder::parts(bool all) const {
  std::vector<Part> found;
  std::string_view text = waiting_;
  std::size_t limit = kPart;
  while (text.size() > limit) {
    const std::size_t cut = tokenizer_.cut_before(text, limit);
    if (cut == 0) {
      limit *= 2;
      continue;
    }
    found.push_back({text.substr(0, cut), began_ || !found.empty(), {}});
    text.remove_prefix(cut);
    limit = kPart;
  }
  if (all && !text.empty()) found.push_back({text, began_ || !found.empty(), {}});
  return found;
}

void ParallelEncoder::encode_parts(std::vector<Part>& parts) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failures(encoders_.size());
  const auto work = [&](std::size_t worker) {
    try {
      for (std::size_t i = next++; i < parts.size(); i = next++)
        encoders_[worker]->encode(parts[i].text, parts[i].ids, {.continues = parts[i].continues});
    } catch (...) {
      failures[worker] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  try {
    for (std::size_t i = 1; i < std::min(encoders_.size(), parts.size()); ++i)
      threads.emplace_back(work, i);
  } catch (const std::exception&) {
    // Fewer threads, or none, are only slower.
  }
  work(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

void ParallelEncoder::encode(bool all, std::vector<std::int32_t>& ids) {
  std::vector<Part> all_parts = parts(all);
  encode_parts(all_parts);
  std::size_t done = 0;
  for (const Part& part : all_parts) {
    ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    done += part.text.size();
  }
  began_ = began_ || done > 0;
  waiting_.erase(0, done);
  enough_ = std::max(kPart * encoders_.size(), waiting_.size() * 2);
}

}  // namespace trireme
