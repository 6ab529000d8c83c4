#include "recipes/commands/serve_options.h"

#include <algorithm>
#include <random>

#include "framework/base/error.h"
#include "recipes/api/api_keys.h"
#include "recipes/cli/values.h"
#include "recipes/commands/text_engine.h"

namespace trireme {

namespace {

std::string text_of(const CommandLine& line, const char* name, const std::string& otherwise) {
  const auto given = line.options.find(name);
  if (given == line.options.end()) return otherwise;
  if (given->second.empty()) throw UsageError(join("--", name, " is empty"));
  return given->second;
}

std::vector<std::string> keys_of(Process& process, const CommandLine& line) {
  const bool one = line.options.contains("api-key"), file = line.options.contains("api-key-file"),
             none = line.options.contains("no-key");
  if (one + file + none > 1)
    throw UsageError("--api-key, --api-key-file and --no-key exclude each other");
  std::vector<std::string> keys;
  if (one) keys = {line.options.at("api-key")};
  if (file) {
    const std::string path = text_of(line, "api-key-file", "");
    if (process.files.status(path).kind != FileKind::kFile)
      throw UsageError(join("--api-key-file: there is no file ", path));
    keys = keys_in(read_whole(process.files, path));
    if (keys.empty()) throw UsageError(join("--api-key-file: ", path, " has no key"));
  }
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (const std::string problem = key_problem(keys[i]); !problem.empty())
      throw UsageError(join(one ? "--api-key" : "--api-key-file", ", key ", i + 1, ": ", problem));
  return keys;
}

// By which names browsers and others may call this server.
std::vector<std::string> hosts_of(const CommandLine& line, const std::string& host) {
  std::vector<std::string> hosts{"localhost", "127.0.0.1", "[::1]"};
  const bool six = host.find(':') != std::string::npos;
  hosts.push_back(six ? "[" + host + "]" : host);
  const std::string more = text_of(line, "allow-host", "-");
  if (more == "*") return {};
  if (more != "-") hosts.push_back(host_name(more));
  const bool any = host == "0.0.0.0" || host == "::";
  return any && more == "-" ? std::vector<std::string>() : hosts;
}

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

ServeWishes serve_options_of(Process& process, const CommandLine& line) {
  if (line.options.contains("json")) throw UsageError("serve: there is no table for --json");
  ServeWishes w;
  w.http.host = text_of(line, "host", "127.0.0.1");
  if (w.http.host == "localhost") w.http.host = "127.0.0.1";
  w.http.port = static_cast<int>(count_option(line, "port", 8000, 0, 65535));
  w.http.connections = static_cast<int>(count_option(line, "max-connections", 256, 1, 65536));
  w.api.keys = keys_of(process, line);
  if (!is_loopback(w.http.host) && w.api.keys.empty() && !line.options.contains("no-key"))
    throw UsageError(join("--host = ", w.http.host,
                          ": others could ask this server; give --api-key-file a file of keys, or "
                          "say --no-key"));
  w.api.hosts = hosts_of(line, w.http.host);
  w.api.drain_seconds = static_cast<double>(count_option(line, "drain", 30, 0, 86400));
  w.api.seed = random_number();
  w.api.asked_to_end = [&signals = process.signals] { return signals.load() > 0; };
  w.engine.sequences = count_option(line, "max-num-seqs", 64, 1, 1024);
  w.engine.budget = count_option(line, "max-num-batched-tokens",
                                 std::max<std::int64_t>(512, w.engine.sequences), 1, 1 << 20);
  if (w.engine.budget < w.engine.sequences)
    throw UsageError(join("--max-num-batched-tokens = ", w.engine.budget,
                          ": at least --max-num-seqs, ", w.engine.sequences));
  w.engine.queue = count_option(line, "max-queue", 64, 1, 100000);
  w.engine.hash_key = random_number();
  w.name = text_of(line, "served-model-name", folder_name(line.names[0]));
  w.context = count_option(line, "max-model-len", 0, 1, 1 << 24);
  const std::string cache = text_of(line, "kv-cache", "1GiB");
  w.kv_bytes = parse_size(cache).value_or(0);
  if (w.kv_bytes < 1) throw UsageError(join("--kv-cache = ", cache, ": expected a size, as 1GiB"));
  return w;
}

}  // namespace trireme
