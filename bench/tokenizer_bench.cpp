// How fast a tokenizer loads, encodes and decodes; and its ids for another program to compare.
//
//   tokenizer_bench speed TOKENIZER TEXT      one thread, the best of five
//   tokenizer_bench records TOKENIZER IN OUT  IN: records of u32 bytes and the text. OUT: for each
//                                             u32 ids, the ids (i32), u32 bytes and their text
//   tokenizer_bench cuts TOKENIZER TEXT       ids in parts on three threads = ids of the whole?
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "framework/data/parallel_encoder.h"
#include "framework/data/tokenizer.h"

namespace {

using namespace trireme;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename Work>
double best_seconds(int times, const Work& work) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const double begin = now();
    work();
    best = std::min(best, now() - begin);
  }
  return best;
}

void speed(Files& files, const std::string& name, const std::string& path) {
  std::unique_ptr<Tokenizer> tokenizer;
  const double load = best_seconds(3, [&] { tokenizer = make_tokenizer(name, files); });
  const std::string text = read_whole(files, path);
  const auto encoder = tokenizer->encoder();
  std::vector<std::int32_t> ids;
  const double encode = best_seconds(5, [&] {
    ids.clear();
    encoder->encode(text, ids);
  });
  std::string back;
  const double decode = best_seconds(5, [&] { back = tokenizer->decode(ids); });
  const double megabytes = static_cast<double>(text.size()) * 1e-6;
  std::printf("load %.3f s, encode %.1f MB/s, decode %.1f MB/s, %zu ids\n", load,
              megabytes / encode, megabytes / decode, ids.size());
}

void put(std::string& out, std::size_t value) {
  const auto word = static_cast<std::uint32_t>(value);
  out.append(reinterpret_cast<const char*>(&word), sizeof word);
}

void records(Files& files, const std::string& name, const std::string& in,
             const std::string& out_path) {
  const auto tokenizer = make_tokenizer(name, files);
  const auto encoder = tokenizer->encoder();
  const std::string all = read_whole(files, in);
  std::string out;
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; at + 4 <= all.size();) {
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, all.data() + at, sizeof bytes);
    ids.clear();
    encoder->encode(std::string_view(all).substr(at + 4, bytes), ids);
    at += 4 + bytes;
    const std::string text = tokenizer->decode(ids);
    put(out, ids.size());
    out.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int32_t));
    put(out, text.size());
    out += text;
    // The same, as it comes.
    StreamingDecoder stream(*tokenizer);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += stream.push(id);
    streamed += stream.finish();
    check(streamed == text, "record at ", at, ": streamed text differs");
  }
  write_whole_atomically(files, out_path, out);
}

void cuts(Files& files, const std::string& name, const std::string& path) {
  const auto tokenizer = make_tokenizer(name, files);
  const std::string text = read_whole(files, path);
  std::vector<std::int32_t> whole, parts;
  tokenizer->encode(text, whole);
  ParallelEncoder encoder(*tokenizer, 3);
  encoder.add(text, parts);
  encoder.finish(parts);
  check(whole == parts, "ids in parts differ");
  std::printf("the same %zu ids in parts\n", whole.size());
}

}  // namespace

int main(int count, char** arguments) try {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  const auto files = real_files();
  const std::string mode = words.empty() ? "" : words[0];
  if (mode == "speed" && words.size() == 3)
    speed(*files, words[1], words[2]);
  else if (mode == "records" && words.size() == 4)
    records(*files, words[1], words[2], words[3]);
  else if (mode == "cuts" && words.size() == 3)
    cuts(*files, words[1], words[2]);
  else
    fail("speed TOKENIZER TEXT | records TOKENIZER IN OUT | cuts TOKENIZER TEXT");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "tokenizer_bench: %s\n", error.what());
  return 1;
}
