// TensorBoard's event file: events.out.tfevents.*, with the tags that Hugging Face's Trainer uses,
// so that runs of both lie over each other.
//
// A file is a list of records: length (8 bytes, little endian), masked CRC-32C of the length, a
// protocol buffer `Event`, masked CRC-32C of that. The few fields that are needed are encoded by
// hand: Event {1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary {1: Value
// {1: string tag, 2: float simple_value}}}.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/files.h"
#include "recipes/report/step_record.h"

namespace trireme {

using Scalars = std::vector<std::pair<std::string, double>>;

// train/loss, train/grad_norm, train/learning_rate, eval/loss, throughput/*, memory/*, ...
Scalars scalars_of(const StepRecord& record);

class EventFile {
 public:
  // Makes folder/events.out.tfevents.SECONDS.HOST; `wall_time` in seconds since 1970. Throws Error.
  EventFile(Files& files, const std::string& folder, double wall_time, const std::string& host);
  // One event with all scalars, in the file when this returns.
  void write(std::int64_t step, const Scalars& scalars, double wall_time);
  void close();

 private:
  std::unique_ptr<File> file_;
};

// The record around `data`.
std::string event_record(std::string_view data);
// CRC-32C (Castagnoli): of "123456789" it is e3069283.
std::uint32_t crc32c(std::string_view data);
// The checksum that records carry: rotated and shifted, for the data may hold CRCs itself.
std::uint32_t masked_crc32c(std::string_view data);

}  // namespace trireme
