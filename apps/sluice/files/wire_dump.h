// `sluice reduce --dump-wire DIR`: everything that crossed the carrier, so that a decoder in any
// language that knows the codec's README can decode the mean and check every sum.
//
//   manifest.json   what was reduced, and per round its reduction, contributors and bytes
//   up-<rank>.bin   what this worker sent, rounds end to end
//   down.bin        the answers, rounds end to end; they are the same for all workers
//
// docs/wire-dump.md is the format. Rounds lie in the order of (training step, chunk, leg, round),
// whatever completed first, so equal runs write equal files. The manifest comes last: a folder
// without one is the rest of a run that failed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/sluice/files/json_file.h"
#include "base/result.h"
#include "catalog/codecs.h"
#include "round/carrier.h"

namespace sluice::cli {

// A decoder need not know defaults: every option of the codec with its value.
Json options_of(const NamedCodec& codec);

// Whether a dump has files of this name.
bool is_dump_file(std::string_view name);

// Refuses what is not a folder and a folder with anything in it; one that is missing is fine.
Verdict check_dump_folder(const std::string& path);

struct WireDumpOptions {
  std::string folder;
  const NamedCodec* codec = nullptr;  // outlives the dump
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  // number of the first training step
  std::uint64_t steps = 1;
  std::uint32_t workers = 1;
  std::vector<std::uint64_t> shape;
  std::string feedback;
  // The chunks of one training step in order: exchange k of the job is chunk k modulo their number.
  std::vector<Extent> extents;
};

// What the taps of all workers saw. Taps may run on a thread each; the rest is for one thread,
// between training steps.
class WireDump {
 public:
  explicit WireDump(WireDumpOptions options);

  // Makes the folder and its empty files; before the first step, once nothing else can refuse.
  // Refused as check_dump_folder(), or Code::io.
  Verdict open();

  // A carrier that passes everything on to the worker's own and keeps a copy of all bytes. Both
  // outlive it.
  std::unique_ptr<Carrier> tap(Carrier& inner, std::uint32_t rank);

  // After every training step, while no tap is in use: writes its bytes. Code::mismatch if the
  // workers got different answers, naming exchange, round and worker. Until then the step's bytes
  // are in memory.
  Verdict end_step();
  // After the last step, which is asserted: writes the manifest.
  Verdict finish();

 private:
  class Tap;
  struct PartRecord {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::vector<std::uint32_t> from;
    friend bool operator==(const PartRecord&, const PartRecord&) = default;
  };
  struct RoundRecord {
    Reduction what;  // its table lives as long as the codec
    bool restricted = false;
    std::vector<std::uint32_t> only;
    std::vector<std::vector<std::byte>> up;  // by rank
    bool answered = false;
    std::vector<std::byte> down;
    std::vector<PartRecord> parts;
  };
  struct ExchangeRecord {
    std::vector<std::vector<RoundRecord>> steps;
    std::vector<std::uint32_t> steps_posted;  // by rank
  };

  void posted(std::uint32_t rank, const Ticket& ticket, std::span<const Round> step);
  void answered(std::uint32_t rank, const Ticket& ticket, std::span<const Answer> answers);
  void complain(const Ticket& ticket, std::uint32_t step, std::size_t round, std::uint32_t rank,
                const char* what);
  [[nodiscard]] RoundRecord begin_record(const Round& round) const;
  [[nodiscard]] std::vector<PartRecord> parts_of(const Answer& answer) const;
  [[nodiscard]] std::vector<std::uint32_t> ranks_of(Workers set) const;
  [[nodiscard]] std::string path(const std::string& file) const;
  [[nodiscard]] std::string up_path(std::uint32_t rank) const;
  // The rounds of the training step in the order of the files.
  template <class Each>
  void each_round(Each each) const;
  // These count the bytes they describe: to be called in the order of the files.
  Json describe(const Extent& extent, const ExchangeRecord* exchange);
  Json describe(const RoundRecord& round);

  WireDumpOptions options_;
  std::mutex mutex_;  // over what taps write: the exchanges of the training step, the complaint
  std::map<std::uint64_t, ExchangeRecord> exchanges_;
  std::string complaint_;  // the first one
  std::uint64_t steps_ended_ = 0;
  std::vector<std::uint64_t> up_sizes_;  // of the files so far, by rank
  std::uint64_t down_size_ = 0;
  std::string exchanges_text_;  // the manifest's list, a line per exchange
};

}  // namespace sluice::cli
