// `sluice generate`: gradients to try things on, the same for the same seed.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/sluice/commands/commands.h"
#include "apps/sluice/files/json_file.h"
#include "apps/sluice/files/npy.h"
#include "apps/sluice/process/memory_limit.h"
#include "apps/sluice/process/terminal.h"
#include "apps/sluice/reduce/generate.h"
#include "base/limits.h"

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

Verdict check(const Request& request) {
  if (request.workers < 1 || request.workers > kWorkersMax) {
    return Problem{Code::invalid_argument,
                   fmt::format("--workers {}; accepted: 1 to {}", request.workers, kWorkersMax)};
  }
  if (request.count > (std::uint64_t{1} << 32)) {
    return Problem{Code::invalid_argument, fmt::format("--count {}; accepted: 0 to {}",
                                                       request.count, std::uint64_t{1} << 32)};
  }
  for (const std::string_view kind : kGradientKinds) {
    if (kind == request.kind) return Nothing{};
  }
  return Problem{Code::invalid_argument, fmt::format("--kind '{}'; accepted: {}", request.kind,
                                                     fmt::join(kGradientKinds, ", "))};
}

// Whatever the number of workers: a later call may have more.
bool is_worker_file(std::string_view name) {
  return name.starts_with("w") && name.ends_with(".npy");
}

Verdict run(const Request& request) {
  SLUICE_TRY(check(request));
  std::error_code error;
  std::filesystem::create_directories(request.out, error);
  if (error) {
    return Problem{Code::io, fmt::format("{}: cannot be made: {}", request.out, error.message())};
  }
  Json files = Json::array();
  std::vector<float> gradient(request.count);
  Progress progress("writing");
  for (std::uint32_t rank = 0; rank < request.workers; ++rank) {
    progress.update(rank, request.workers);
    const std::string path = fmt::format("{}/w{}.npy", request.out, rank);
    const std::uint64_t shape[] = {request.count};
    generate_gradient(request.kind, request.seed, rank, gradient);
    SLUICE_TRY(write_npy(path, shape, gradient));
    files.push_back(path);
  }
  if (request.json != "-") {
    print(fmt::format("{} files of {} {} coordinates in {}\n", request.workers, request.count,
                      request.kind, request.out));
  }
  return write_json(request.json, Json{{"files", files}});
}

}  // namespace

void add_generate_command(Command& program) {
  Command command =
      program.add_command("generate", "Write one generated gradient per worker to try things on");
  const auto request = std::make_shared<Request>();
  command.number("--workers", request->workers, "How many files [8]");
  command.number("--count", request->count, "Coordinates per file [1048576]");
  command.text("--kind", request->kind,
               "normal; layers: scales differ by layer, as in a real model; sparse: one in "
               "64 is not zero [layers]");
  command.number("--seed", request->seed, "Same seed, same files [0]");
  command.output_folder("--out", request->out, "Folder for w0.npy, w1.npy, …", &is_worker_file)
      .required();
  command.output_file_or_stdout("--json", request->json,
                                "Write the list of files here (- for stdout)");
  command.action([request] {
    return with_memory(
        fmt::format("--count {} wants {} bytes", request->count, request->count * sizeof(float)),
        [&] { return run(*request); });
  });
}

}  // namespace sluice::cli
