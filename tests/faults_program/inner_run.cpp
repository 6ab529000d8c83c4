#include "tests/faults_program/inner_run.h"

#include <sstream>

#include "framework/base/error.h"
#include "recipes/commands/command_options.h"
#include "recipes/train/last_failure.h"

namespace trireme::test {

namespace {

int dispatch(Process& process, const CommandLine& line) {
  if (line.command == "train") return train_command(process, line);
  if (line.command == "tokenize") return tokenize_command(process, line);
  if (line.command == "memory") return memory_command(process, line);
  return checkpoint_command(process, line);
}

}  // namespace

InnerEnd run_inside(Files& files, const std::vector<std::string>& words) {
  std::ostringstream out, err;
  const std::atomic<int> signals{0}, requests{0};
  Process process{.environment = {{"XDG_CACHE_HOME", "cache"}},
                  .terminal = {},
                  .out = out,
                  .err = err,
                  .files = files,
                  .signals = signals,
                  .save_requests = requests};
  InnerEnd end;
  const auto failed = [&](int code, const std::exception& error) {
    end.code = code;
    err << error.what() << "\n";
  };
  try {
    end.code = dispatch(process, split_command_line(words, options_of(words.front())));
  } catch (const RepeatedFailure& error) {
    failed(3, error);
  } catch (const UsageError& error) {
    failed(2, error);
  } catch (const std::exception& error) {
    failed(1, error);
  }
  end.out = out.str();
  end.err = err.str();
  return end;
}

void put_tiny_recipe(Files& files) {
  std::string text;
  for (int i = 0; text.size() < 4000; ++i) text += join("oar ", i * i % 97, " beats; ");
  write_whole_atomically(files, "text", text);
  write_whole_atomically(
      files, "tiny.cfg",
      "[model]\nfamily = llama\nlayers = 1\nhidden = 8\nheads = 2\nkv_heads = 1\nffn = 16\n"
      "[data]\ntext = text\nvalidation = 0\n"
      "[batch]\nglobal = 2\nmicro = 2\nsequence = 8\n"
      "[device]\nkind = reference\n[precision]\ncompute = f64\n"
      "[optimizer]\nschedule = constant\nwarmup = 0\n"
      "[train]\nsteps = 3\nseed = 1\nfolder = run\ncheckpoint_every = 1\nkeep = 5\n");
}

std::vector<std::string> told(Files& files, const std::string& key) {
  std::vector<std::string> values;
  if (!files.exists("run/metrics.jsonl")) return values;
  std::istringstream text(read_whole(files, "run/metrics.jsonl"));
  const std::string mark = "\"" + key + "\": ";
  for (std::string line; std::getline(text, line);) {
    const std::size_t at = line.find(mark);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + mark.size();
    values.push_back(line.substr(begin, line.find_first_of(",}", begin) - begin));
  }
  return values;
}

}  // namespace trireme::test
