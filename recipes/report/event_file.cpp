#include "recipes/report/event_file.h"

#include <bit>
#include <boost/crc.hpp>
#include <cmath>

namespace trireme {
namespace {

template <typename Word>
std::string little_endian(Word word) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(Word); ++i) bytes += static_cast<char>(word >> (8 * i) & 0xff);
  return bytes;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

// Wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
std::string field(int number, int wire, std::string_view payload) {
  std::string bytes = varint(static_cast<std::uint64_t>(number << 3 | wire));
  if (wire == 2) bytes += varint(payload.size());
  return bytes.append(payload);
}

std::string wall(double seconds) {
  return field(1, 1, little_endian(std::bit_cast<std::uint64_t>(seconds)));
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(data.data(), data.size());
  return crc.checksum();
}

std::uint32_t masked_crc32c(std::string_view data) {
  std::uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string event_record(std::string_view data) {
  std::string length = little_endian(std::uint64_t{data.size()});
  std::string record = length + little_endian(masked_crc32c(length));
  return record.append(data) + little_endian(masked_crc32c(data));
}

EventFile::EventFile(Files& files, const std::string& folder, double wall_time,
                     const std::string& host) {
  std::string seconds = std::to_string(static_cast<std::int64_t>(std::floor(wall_time)));
  file_ = files.open(path_join(folder, "events.out.tfevents." + seconds + "." + host),
                     OpenMode::kAppend);
  file_->append(event_record(wall(wall_time) + field(3, 2, "brain.Event:2")));
}

void EventFile::write(std::int64_t step, const Scalars& scalars, double wall_time) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    summary += field(1, 2, field(1, 2, tag) + field(2, 5, little_endian(bits)));
  }
  file_->append(event_record(wall(wall_time) +
                             field(2, 0, varint(static_cast<std::uint64_t>(step))) +
                             field(5, 2, summary)));
}

void EventFile::close() { file_->close(); }

Scalars scalars_of(const StepRecord& record) {
  Scalars scalars{{"train/loss", record.loss},
                  {"train/grad_norm", record.grad_norm},
                  {"train/learning_rate", record.lr},
                  {"train/loss_scale", record.loss_scale},
                  {"train/skipped", static_cast<double>(record.skipped)},
                  {"throughput/tokens_per_s", record.tokens_per_s},
                  {"throughput/tflops", record.flops_per_s * 1e-12},
                  {"throughput/step_seconds", record.seconds},
                  {"memory/device/peak_gib", static_cast<double>(record.memory) * 0x1p-30}};
  if (record.validation_loss) scalars.emplace_back("eval/loss", *record.validation_loss);
  if (record.measured_peak > 0)
    scalars.emplace_back("throughput/of_measured_peak", record.flops_per_s / record.measured_peak);
  if (record.bubble) scalars.emplace_back("pipeline/bubble", *record.bubble);
  return scalars;
}

}  // namespace trireme
