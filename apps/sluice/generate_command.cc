// `sluice generate`: gradients to try things on, the same for the same seed.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <memory>

#include "base/limits.h"
#include "base/random.h"
#include "commands.h"
#include "json_file.h"
#include "normal.h"
#include "npy.h"
#include "terminal.h"

namespace sluice::cli {
namespace {

struct Request {
  std::uint32_t workers = 8;
  std::uint64_t count = 1 << 20;
  std::string kind = "layers";
  std::uint64_t seed = 0;
  std::string out;
  std::string json;
};

constexpr std::array<std::string_view, 3> kKinds{"normal", "layers", "sparse"};
constexpr std::uint64_t kSparseOneIn = 64;

// What the workers share plus what is each one's own, as in data-parallel training.
std::vector<float> gradient(const Request& request, std::uint32_t rank) {
  const RandomStream common(chunk_key(request.seed, 0, 0), Purpose::data, kShared);
  const RandomStream own(chunk_key(request.seed, 0, 0), Purpose::data, rank);
  const RandomStream layers(chunk_key(request.seed, 0, 1), Purpose::data, kShared);
  std::vector<float> values(request.count);
  for (std::uint64_t i = 0; i < request.count; ++i) {
    float value = std::sqrt(kSignal) * normal(common, i) + std::sqrt(1 - kSignal) * normal(own, i);
    if (request.kind == "layers") value *= 1e-3f * std::exp2(2 * normal(layers, i / kLayer));
    if (request.kind == "sparse" && layers.word(i) % kSparseOneIn != 0) value = 0;
    values[i] = value;
  }
  return values;
}

Verdict check(const Request& request) {
  if (request.workers < 1 || request.workers > kWorkersMax) {
    return Problem{Code::invalid_argument,
                   fmt::format("--workers {}; accepted: 1 to {}", request.workers, kWorkersMax)};
  }
  if (request.count > (std::uint64_t{1} << 32)) {
    return Problem{Code::invalid_argument, fmt::format("--count {}; accepted: 0 to {}",
                                                       request.count, std::uint64_t{1} << 32)};
  }
  for (const std::string_view kind : kKinds) {
    if (kind == request.kind) return Nothing{};
  }
  return Problem{Code::invalid_argument,
                 fmt::format("--kind '{}'; accepted: {}", request.kind, fmt::join(kKinds, ", "))};
}

Verdict run(const Request& request) {
  SLUICE_TRY(check(request));
  std::error_code error;
  std::filesystem::create_directories(request.out, error);
  if (error) {
    return Problem{Code::io, fmt::format("{}: cannot be made: {}", request.out, error.message())};
  }
  Json files = Json::array();
  Progress progress("writing");
  for (std::uint32_t rank = 0; rank < request.workers; ++rank) {
    progress.update(rank, request.workers);
    const std::string path = fmt::format("{}/w{}.npy", request.out, rank);
    const std::uint64_t shape[] = {request.count};
    SLUICE_TRY(write_npy(path, shape, gradient(request, rank)));
    files.push_back(path);
  }
  if (request.json != "-") {
    print(fmt::format("{} files of {} {} coordinates in {}\n", request.workers, request.count,
                      request.kind, request.out));
  }
  return write_json(request.json, Json{{"files", files}});
}

}  // namespace

void add_generate_command(CLI::App& app, Action& action) {
  CLI::App* const command =
      app.add_subcommand("generate", "Write one generated gradient per worker to try things on");
  const auto request = std::make_shared<Request>();
  command->add_option("--workers", request->workers, "How many files [8]")->check(whole_number());
  command->add_option("--count", request->count, "Coordinates per file [1048576]")
      ->check(whole_number());
  command->add_option("--kind", request->kind,
                      "normal; layers: scales differ by layer, as in a real model; sparse: one in "
                      "64 is not zero [layers]");
  command->add_option("--seed", request->seed, "Same seed, same files [0]")->check(whole_number());
  command->add_option("--out", request->out, "Folder for w0.npy, w1.npy, …")->required();
  command->add_option("--json", request->json, "Write the list of files here (- for stdout)");
  command->callback([&action, request] { action = [request] { return run(*request); }; });
}

}  // namespace sluice::cli
