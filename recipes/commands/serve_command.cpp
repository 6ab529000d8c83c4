// trireme serve FOLDER [--host 127.0.0.1] [--port 8000] [--api-key-file FILE | --api-key KEY |
// --no-key] [--max-model-len N] ... [--section.key=value ...]: answers OpenAI's clients with the
// newest good checkpoint of a run, or a Hugging Face model folder. docs/serve.md.
//
// Three kinds of threads: one reads and answers (ApiServer), the model's ranks run passes, this one
// waits for both. The port is taken before the model is loaded. Under mpirun the first process does
// that, the others are ranks and nothing else.
#include <chrono>
#include <optional>
#include <ostream>
#include <thread>

#include "framework/base/error.h"
#include "recipes/api/api_server.h"
#include "recipes/commands/opened_model.h"
#include "recipes/commands/serve_options.h"
#include "recipes/commands/text_engine.h"
#include "recipes/memory/machine_memory.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"
#include "recipes/serve/stream_growth.h"

namespace trireme {

namespace {

void check_servable(const ModelSource& source) {
  const Recipe& r = source.recipe;
  if (r.model.family == "mlp")
    throw UsageError(
        "serve: model.family = mlp classifies; a model that continues texts is served");
  if (r.pipeline.chunks > 1)
    throw UsageError(join("serve: pipeline.chunks = ", r.pipeline.chunks,
                          ": passes would meet each other on their way; use 1"));
}

// How the ranks share machine and work.
std::string ranks_text(const Process& process, const Recipe& r, std::int64_t sequences) {
  const auto& p = r.parallel;
  const bool passive = process.variable("OMP_WAIT_POLICY") == "passive";
  std::string text = join(p.ranks(), " (data ", p.data, ", pipeline ", p.pipeline, ", tensor ",
                          p.tensor, ") by ", p.launch, ", ", p.threads, " thread(s) each of ",
                          process.cores(), " core(s)", passive ? ", which wait passively" : "");
  if (p.pipeline == 1) return text;
  text += join("\n         stages work on different answers: fewer than ", p.pipeline,
               " at a time gain nothing");
  return sequences >= p.pipeline ? text : text + join(", and there are at most ", sequences);
}

// Where this machine's own clients ask: an address that stands for all has loopback among them.
std::string url_of(const std::string& host, int port) {
  const std::string own = host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host;
  const bool six = own.find(':') != std::string::npos;
  return join("http://", six ? "[" : "", own, six ? "]" : "", ":", port);
}

// "weights 257 MiB, with the cache 1.26 GiB of 22.9 GiB a rank (RAM 22.9 GiB)"
std::string memory_text(const ServedMemory& memory) {
  const MemoryLedger& ledger = *memory.ledger;
  std::string text;
  std::int64_t all = 0;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    const std::int64_t weights = ledger.entry(tier, MemoryKind::kParameters).current;
    if (weights > 0 || text.empty())
      text += join(text.empty() ? "weights " : ", ", bytes_text(weights),
                   tier == Tier::kDevice ? "" : join(" on ", name_of(tier)));
    if (tier == Tier::kDevice || (tier == Tier::kHost && !memory.device_alone))
      all += ledger.current(tier);
  }
  text += join(", with the cache ", bytes_text(all));
  return memory.limit > 0
             ? join(text, " of ", bytes_text(memory.limit), " a rank (", memory.limit_source, ")")
             : text + " a rank";
}

// A line to be copied into a shell.
std::string curl_line(const std::string& url, bool chat, bool key) {
  return join("curl ", url, chat ? "/v1/chat/completions" : "/v1/completions",
              key ? " -H \"Authorization: Bearer $KEY\"" : "", " -d '",
              chat ? R"({"messages": [{"role": "user", "content": "Hello!"}]})"
                   : R"({"prompt": "In the beginning", "max_tokens": 30})",
              "'");
}

// One server from its socket to its end.
class Serving {
 public:
  Serving(Process& process, const CommandLine& line)
      : process_(process), line_(line), wanted_(serve_options_of(process, line)) {
    if (!leads(process)) return;
    wanted_.api.drains = [this](const DrainBegin& begin) {
      process_.err << join("trireme: ", drain_text(begin, wanted_.api.drain_seconds), "\n")
                   << std::flush;
    };
    server_.emplace(wanted_.http, wanted_.api);
  }

  int run() {
    if (!server_) {
      open();
      return 0;
    }
    std::thread loop([&] { server_->run(); });
    std::exception_ptr failure;
    try {
      open();
    } catch (...) {
      failure = std::current_exception();
    }
    server_->finish();
    loop.join();
    if (failure) std::rethrow_exception(failure);
    process_.err << join("trireme: ", drain_text(server_->drained()), "\n") << std::flush;
    return 0;
  }

 private:
  void open() {
    const auto begun = std::chrono::steady_clock::now();
    open_model(process_, line_, line_.names[0],
               [&](const ModelSource& source) {
                 check_servable(source);
                 return [&, begun](const OpenedModel& model) { serve(model, begun); };
               },
               {.bytes = wanted_.kv_bytes,
                .tokens = wanted_.context,
                .whole = true,
                .texts = wanted_.engine.sequences});
  }

  // Positions and pages of the cache: what was wished, or what there is room for.
  std::pair<std::int64_t, std::int64_t> sizes(const OpenedModel& model,
                                              const ServeOptions& options) {
    const std::int64_t trained = trained_context(process_.files, model.source);
    if (wanted_.context > trained)
      throw UsageError(
          join("--max-model-len = ", wanted_.context, ": the model has ", trained, " positions"));
    std::int64_t context = wanted_.context > 0 ? wanted_.context : trained;
    std::int64_t pages = pages_within({model.engine, model.mesh, model.backend}, model.cache_bytes);
    pages = std::min(pages, options.sequences * ((context + kPageTokens - 1) / kPageTokens));
    check(pages >= 1, "--kv-cache = ", wanted_.kv_bytes, ": not even one page fits");
    if (pages * kPageTokens >= context) return {context, pages};
    check(wanted_.context == 0, "--kv-cache = ", bytes_text(wanted_.kv_bytes), " has room for ",
          pages * kPageTokens, " tokens, --max-model-len = ", wanted_.context,
          " needs more; give it more, or make the length smaller");
    return {pages * kPageTokens, pages};
  }

  // More at a time, if weights are streamed.
  ServeOptions options_for(const OpenedModel& model, const RankParts& rank) const {
    const WeightStream* const stream = model.engine.stage().stream();
    if (!stream) return wanted_.engine;
    return grown_for(stream->streamed(), pages_within(rank, model.cache_bytes),
                     {.sequences = line_.options.contains("max-num-seqs"),
                      .budget = line_.options.contains("max-num-batched-tokens")},
                     wanted_.engine);
  }

  void serve(const OpenedModel& model, std::chrono::steady_clock::time_point begun) {
    const RankParts rank{model.engine, model.mesh, model.backend};
    const ServeOptions options = options_for(model, rank);
    const auto [context, pages] = sizes(model, options);
    if (model.mesh.world().rank() != 0) return follow_passes(rank, pages);
    const auto runner = lead_passes(rank, pages, context);
    const Tokenizer& tokenizer = *model.source.tokenizer;
    ServeEngine engine(*runner, tokenizer, options);
    Sampling drawing;  // the API's defaults
    use_defaults(model.source.drawing, line_, drawing);
    ServedModel served{.name = wanted_.name,
                       .created = std::chrono::duration_cast<std::chrono::seconds>(
                                      std::chrono::system_clock::now().time_since_epoch())
                                      .count(),
                       .tokenizer = tokenizer,
                       .vocab = std::min(runner->vocab(), tokenizer.vocabulary()),
                       .context = context,
                       .start = model.source.start,
                       .ends = model.source.ends,
                       .answer_ends = model.source.answer_ends,
                       .memory = memory_of(model),
                       .drawing = drawing};
    read_chat_template(model.source, served);
    server_->serve(served, engine);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    tell(model, served, options, pages, took.count());
    std::exception_ptr failure;
    try {
      engine.run(server_->stop());
    } catch (...) {
      failure = std::current_exception();
    }
    server_->withdraw();
    if (failure) std::rethrow_exception(failure);
  }

  ServedMemory memory_of(const OpenedModel& model) {
    const Recipe& r = model.source.recipe;
    const int ranks = static_cast<int>(r.parallel.ranks());
    const MemoryLimit limit = memory_limit(process_.files, r.device.memory, ranks);
    return {.ledger = &model.backend.ledger(),
            .ranks = ranks,
            .page_tokens = kPageTokens,
            .page_bytes = KvCache::page_bytes(model.engine.cache_options(1)),
            .limit = limit.bytes,
            .device_alone = limit.device_alone,
            .limit_source = limit.source};
  }

  void tell(const OpenedModel& model, const ServedModel& served, const ServeOptions& options,
            std::int64_t pages, double seconds) {
    const Recipe& r = model.source.recipe;
    const std::string& host = wanted_.http.host;
    const std::string url = url_of(host, server_->port());
    const std::int64_t page = KvCache::page_bytes(model.engine.cache_options(1));
    std::string text = join(
        "model    ", served.name, ", ", r.precision.compute, ", from ", model.source.place,
        "\nranks    ", ranks_text(process_, r, options.sequences), "\ncontext  ", served.context,
        " tokens",
        served.context < trained_context(process_.files, model.source)
            ? join(" (the model has ", trained_context(process_.files, model.source),
                   "; --kv-cache and --max-model-len decide)")
            : std::string(),
        "\ncache    ", pages * kPageTokens, " tokens, ", bytes_text(pages * page),
        " a rank; at most ", options.sequences, " answers at a time",
        r.parallel.data > 1 ? " on each replica, " : ", ", wanted_.engine.queue,
        " requests wait\nmemory   ", memory_text(served.memory),
        host == "0.0.0.0" || host == "::" ? "\nlistens  at all addresses of this machine" : "",
        "\nasking   ",
        wanted_.api.keys.empty()       ? "needs no key"
        : wanted_.api.keys.size() == 1 ? "needs the key"
                                       : join("needs one of ", wanted_.api.keys.size(), " keys"),
        served.chat                   ? ""
        : served.chat_problem.empty() ? "; no chat template: /v1/completions only"
                                      : "; /v1/completions only: " + printable(served.chat_problem),
        "\n");
    text +=
        join("try      ", curl_line(url, served.chat != nullptr, !wanted_.api.keys.empty()),
             "\nready in ", fixed(seconds, 1), " s: ", url, "/v1, a page to chat at ", url, "/\n");
    process_.err << text << std::flush;
  }

  Process& process_;
  const CommandLine& line_;
  ServeWishes wanted_;
  std::optional<ApiServer> server_;  // of the process that has rank 0
};

}  // namespace

int serve_command(Process& process, const CommandLine& line) {
  if (line.names.size() != 1)
    throw UsageError(
        "serve: needs the folder of a run with checkpoints, or a Hugging Face model folder: "
        "trireme serve FOLDER [--host 127.0.0.1] [--port 8000] [--api-key-file FILE] "
        "[--max-model-len N] [--kv-cache 1GiB] [--max-num-seqs 64]; docs/serve.md has all options");
  return Serving(process, line).run();
}

}  // namespace trireme
