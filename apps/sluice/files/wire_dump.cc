#include "apps/sluice/files/wire_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "apps/sluice/files/output_file.h"

namespace sluice::cli {
namespace {

constexpr std::uint32_t kVersion = 1;  // of the manifest

Problem cannot(const std::string& path, const char* what, const std::string& cause) {
  return Problem{Code::io, fmt::format("{}: cannot be {}: {}", path, what, cause)};
}

template <class Each>
Verdict add_to(const std::string& path, Each each) {
  SLUICE_TRY_ASSIGN(OutputFile file, OutputFile::append(path));
  each(file);
  return file.finish();
}

Json value_of(const OptionInfo& option, double value) {
  switch (option.kind) {
    case OptionInfo::Kind::choice: return option.choices[static_cast<std::size_t>(value)];
    case OptionInfo::Kind::integer: return static_cast<std::int64_t>(value);
    case OptionInfo::Kind::real: return value;
  }
  return nullptr;
}

Json value_of(const OptionInfo& option, std::string_view text) {
  if (option.kind == OptionInfo::Kind::choice) return text;
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  SLUICE_ASSERT(parsed.ec == std::errc{});  // a canonical spec
  return value_of(option, value);
}

}  // namespace

// A canonical spec names the options that differ from their defaults.
Json options_of(const NamedCodec& codec) {
  Json json = Json::object();
  for (const OptionInfo& option : codec.info->options) {
    json[std::string(option.key)] = value_of(option, option.preset);
  }
  const std::string_view spec = codec.spec;
  for (std::size_t at = spec.find(':'); at != std::string_view::npos;) {
    const std::size_t comma = spec.find(',', at + 1);
    const std::string_view assignment = spec.substr(at + 1, comma - at - 1);
    const std::size_t equals = assignment.find('=');
    for (const OptionInfo& option : codec.info->options) {
      if (option.key != assignment.substr(0, equals)) continue;
      json[std::string(option.key)] = value_of(option, assignment.substr(equals + 1));
    }
    at = comma;
  }
  return json;
}

bool is_dump_file(std::string_view name) {
  return name == "manifest.json" || name == "down.bin" ||
         (name.starts_with("up-") && name.ends_with(".bin"));
}

Verdict check_dump_folder(const std::string& path) {
  constexpr std::string_view kAccepted = "accepted: a folder that is empty or does not exist";
  const auto refuse = [&](std::string_view what) {
    return Problem{Code::invalid_argument,
                   fmt::format("--dump-wire '{}' {}; {}", path, what, kAccepted)};
  };
  if (path.empty()) return refuse("names nothing");
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return Nothing{};
  if (error) return cannot(path, "looked at", error.message());
  if (!std::filesystem::is_directory(status)) return refuse("is not a folder");
  const bool empty = std::filesystem::is_empty(path, error);
  if (error) return cannot(path, "read", error.message());
  if (!empty) return refuse("is not empty");
  return Nothing{};
}

// One worker's end: forwards, and shows the dump what went through.
class WireDump::Tap final : public Carrier {
 public:
  Tap(WireDump& dump, Carrier& inner, std::uint32_t rank)
      : dump_(dump), inner_(inner), rank_(rank) {}

  Status post(const Ticket& ticket, const Place& place, std::span<const Round> step) override {
    if (place.on_device()) return Error{Code::unavailable, 0, "dump: bytes on a device"};
    SLUICE_TRY(inner_.post(ticket, place, step));
    // The rounds' memory stays put until this worker takes the answer.
    dump_.posted(rank_, ticket, step);
    return ok();
  }
  Result<std::span<const Answer>> take(const Ticket& ticket) override {
    auto answers = inner_.take(ticket);
    if (answers) dump_.answered(rank_, ticket, *answers);
    return answers;
  }
  Result<bool> flush() override { return inner_.flush(); }
  Status wait(std::chrono::nanoseconds timeout) override { return inner_.wait(timeout); }
  void abandon() override { inner_.abandon(); }
  std::string explain(const Ticket& ticket) override { return inner_.explain(ticket); }

 private:
  WireDump& dump_;
  Carrier& inner_;
  std::uint32_t rank_;
};

WireDump::WireDump(WireDumpOptions options)
    : options_(std::move(options)), up_sizes_(options_.workers) {}

Verdict WireDump::open() {
  SLUICE_TRY(check_dump_folder(options_.folder));
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  if (error) return cannot(options_.folder, "made", error.message());
  for (std::uint32_t rank = 0; rank < options_.workers; ++rank) {
    SLUICE_TRY(add_to(up_path(rank), [](OutputFile&) {}));
  }
  return add_to(path("down.bin"), [](OutputFile&) {});
}

std::unique_ptr<Carrier> WireDump::tap(Carrier& inner, std::uint32_t rank) {
  SLUICE_ASSERT(rank < options_.workers);
  return std::make_unique<Tap>(*this, inner, rank);
}

std::string WireDump::path(const std::string& file) const {
  return (std::filesystem::path(options_.folder) / file).string();
}

std::string WireDump::up_path(std::uint32_t rank) const {
  return path(fmt::format("up-{}.bin", rank));
}

std::vector<std::uint32_t> WireDump::ranks_of(Workers set) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < options_.workers; ++rank) {
    if (set.has(rank)) ranks.push_back(rank);
  }
  return ranks;
}

WireDump::RoundRecord WireDump::begin_record(const Round& round) const {
  RoundRecord record;
  record.what = round.what;
  record.restricted = !round.only.unrestricted();
  if (record.restricted) record.only = ranks_of(round.only);
  record.up.resize(options_.workers);
  return record;
}

std::vector<WireDump::PartRecord> WireDump::parts_of(const Answer& answer) const {
  std::vector<PartRecord> parts;
  for (const Part& part : answer.parts) {
    parts.push_back({part.first, part.count, ranks_of(part.from)});
  }
  return parts;
}

// The run goes on, so that no worker waits for one that stopped; end_step() fails.
void WireDump::complain(const Ticket& ticket, std::uint32_t step, std::size_t round,
                        std::uint32_t rank, const char* what) {
  if (!complaint_.empty()) return;
  complaint_ = fmt::format("exchange {}, step {}, round {}: worker {} {}", ticket.sequence, step,
                           round, rank, what);
}

void WireDump::posted(std::uint32_t rank, const Ticket& ticket, std::span<const Round> step) {
  const std::lock_guard lock(mutex_);
  ExchangeRecord& exchange = exchanges_[ticket.sequence];
  exchange.steps_posted.resize(options_.workers);
  const std::uint32_t number = exchange.steps_posted[rank]++;
  if (number == exchange.steps.size()) {
    auto& rounds = exchange.steps.emplace_back();
    for (const Round& round : step) rounds.push_back(begin_record(round));
  }
  auto& rounds = exchange.steps[number];
  if (rounds.size() != step.size()) {
    return complain(ticket, number, 0, rank, "posted another number of rounds than others");
  }
  for (std::size_t i = 0; i < step.size(); ++i) {
    const bool restricted = !step[i].only.unrestricted();
    if (!(rounds[i].what == step[i].what) || rounds[i].restricted != restricted ||
        (restricted && rounds[i].only != ranks_of(step[i].only))) {
      complain(ticket, number, i, rank, "asked for another reduction than others");
    }
    rounds[i].up[rank].assign(step[i].up.begin(), step[i].up.end());
  }
}

void WireDump::answered(std::uint32_t rank, const Ticket& ticket, std::span<const Answer> answers) {
  const std::lock_guard lock(mutex_);
  ExchangeRecord& exchange = exchanges_[ticket.sequence];
  SLUICE_ASSERT(exchange.steps_posted.size() == options_.workers);
  SLUICE_ASSERT(exchange.steps_posted[rank] != 0);
  const std::uint32_t number = exchange.steps_posted[rank] - 1;
  auto& rounds = exchange.steps[number];
  if (rounds.size() != answers.size()) {
    return complain(ticket, number, 0, rank, "got another number of answers than rounds");
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i];
    RoundRecord& round = rounds[i];
    if (!round.answered) {
      round.answered = true;
      round.down.assign(answer.down.begin(), answer.down.end());
      round.parts = parts_of(answer);
    } else if (!std::equal(round.down.begin(), round.down.end(), answer.down.begin(),
                           answer.down.end())) {
      complain(ticket, number, i, rank, "got other bytes down than others");
    } else if (round.parts != parts_of(answer)) {
      complain(ticket, number, i, rank, "was told of other contributors than others");
    }
  }
}

template <class Each>
void WireDump::each_round(Each each) const {
  for (const auto& [sequence, exchange] : exchanges_) {
    for (const auto& step : exchange.steps) {
      for (const RoundRecord& round : step) each(round);
    }
  }
}

Json WireDump::describe(const RoundRecord& round) {
  const Reduction& what = round.what;
  Json json;
  json["what"] = {{"op", name_of(what.op)}, {"bits", what.bits},   {"down", name_of(what.down)},
                  {"extra", what.extra},    {"count", what.count}, {"grain", what.grain},
                  {"table", Json(nullptr)}};
  if (!what.table.empty()) {
    json["what"]["table"] = std::vector<std::uint16_t>(what.table.begin(), what.table.end());
  }
  json["only"] = round.restricted ? Json(round.only) : Json(nullptr);
  json["parts"] = Json::array();
  for (const PartRecord& part : round.parts) {
    json["parts"].push_back({{"first", part.first}, {"count", part.count}, {"from", part.from}});
  }
  json["up"] = Json::array();
  for (std::uint32_t rank = 0; rank < options_.workers; ++rank) {
    const std::uint64_t size = round.up[rank].size();
    json["up"].push_back(Json::array({up_sizes_[rank], size}));
    up_sizes_[rank] += size;
  }
  json["down"] = Json::array({down_size_, round.down.size()});
  down_size_ += round.down.size();
  return json;
}

Json WireDump::describe(const Extent& extent, const ExchangeRecord* exchange) {
  Json json;
  json["step"] = options_.step + steps_ended_;
  json["tensor"] = {
      {"id", extent.tensor.id}, {"rows", extent.tensor.rows}, {"cols", extent.tensor.cols}};
  json["offset"] = extent.offset;
  json["count"] = extent.count;
  json["rounds"] = Json::array();
  if (exchange == nullptr) return json;  // nothing but rounds of zero lanes
  for (const auto& step : exchange->steps) {
    Json rounds = Json::array();
    for (const RoundRecord& round : step) rounds.push_back(describe(round));
    json["rounds"].push_back(std::move(rounds));
  }
  return json;
}

Verdict WireDump::end_step() {
  const std::lock_guard lock(mutex_);
  if (!complaint_.empty()) return Problem{Code::mismatch, complaint_};
  const std::uint64_t first = steps_ended_ * options_.extents.size();
  // Sequences beyond the step would be chunks cut otherwise than here.
  SLUICE_ASSERT(exchanges_.empty() ||
                (exchanges_.begin()->first >= first &&
                 exchanges_.rbegin()->first - first < options_.extents.size()));
  for (std::size_t i = 0; i < options_.extents.size(); ++i) {
    const auto found = exchanges_.find(first + i);
    const Json json =
        describe(options_.extents[i], found == exchanges_.end() ? nullptr : &found->second);
    exchanges_text_ += fmt::format("{}\n    {}", exchanges_text_.empty() ? "" : ",", json.dump());
  }
  // A file at a time: thousands of workers are more than the files a process may have open.
  for (std::uint32_t rank = 0; rank < options_.workers; ++rank) {
    SLUICE_TRY(add_to(up_path(rank), [&](OutputFile& file) {
      each_round([&](const RoundRecord& round) { file.write(round.up[rank]); });
    }));
  }
  SLUICE_TRY(add_to(path("down.bin"), [&](OutputFile& file) {
    each_round([&](const RoundRecord& round) { file.write(round.down); });
  }));
  exchanges_.clear();
  ++steps_ended_;
  return Nothing{};
}

Verdict WireDump::finish() {
  SLUICE_ASSERT(steps_ended_ == options_.steps);
  Json head;
  head["version"] = kVersion;
  head["codec"] = options_.codec->spec;
  head["options"] = options_of(*options_.codec);
  head["seed"] = options_.seed;
  head["step"] = options_.step;
  head["steps"] = options_.steps;
  head["workers"] = options_.workers;
  std::uint64_t count = 0;
  for (const Extent& extent : options_.extents) count += extent.count;
  head["count"] = count;
  head["shape"] = options_.shape;
  head["feedback"] = options_.feedback;
  // An exchange is a line: a number per line would be thousands of lines per round.
  std::string text = "{\n";
  for (const auto& [key, value] : head.items()) {
    text += fmt::format("  \"{}\": {},\n", key, value.dump());
  }
  text += fmt::format("  \"exchanges\": [{}\n  ]\n}}\n", exchanges_text_);
  return write_file(path("manifest.json"), text);
}

}  // namespace sluice::cli
