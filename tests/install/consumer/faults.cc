// A whole session of the library with the nth allocation refused, alone or with all that follow,
// for every n until none is: every function returns a code, what was made can be freed, and the
// same session works afterwards.
//
// Linked with the static library, whose operator new is then the one below.
#include <sluice/sluice.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

// Allocations that are still granted; below 0: all.
std::atomic<long> left(-1);
std::atomic<bool> refused(false);
bool for_good = false;   // all that follow are refused, too
bool only_here = false;  // of this thread: an aggregator's has all that it wants
thread_local bool is_here = false;

bool refuses() {
  if (left.load() < 0 || (only_here && !is_here)) return false;
  if (left.fetch_sub(1) > 0) return false;
  left = for_good ? 0 : -1;
  refused = true;
  return true;
}

void* take(std::size_t size, std::size_t alignment) {
  if (refuses()) throw std::bad_alloc();
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, size == 0 ? 1 : size) != 0) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return take(size, 16); }
void* operator new[](std::size_t size) { return take(size, 16); }
#ifdef __cpp_aligned_new
void* operator new(std::size_t size, std::align_val_t a) { return take(size, std::size_t(a)); }
void* operator new[](std::size_t size, std::align_val_t a) { return take(size, std::size_t(a)); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

enum { kWorkers = 2, kCount = 3000 };
float gradients[kWorkers][kCount];
float means[kWorkers][kCount];
char saved[1 << 20];

const char* doing = "";

// Whether it worked. Anything but a refused allocation is a fault of the library's.
bool ok(sluice_code code) {
  if (code == SLUICE_OK) return true;
  if (code == SLUICE_OUT_OF_MEMORY && refused) {
    if (sluice_last_error()[0] != '\0') return false;
    std::fprintf(stderr, "faults: %s: no words\n", doing);
  } else if (code == SLUICE_UNAVAILABLE && refused) {
    return false;  // dead after that, or no thread
  } else {
    std::fprintf(stderr, "faults: %s: code %d: %s\n", doing, int(code), sluice_last_error());
  }
  std::exit(1);
}

void expect(bool truth, const char* otherwise) {
  if (truth) return;
  std::fprintf(stderr, "faults: %s: %s\n", doing, otherwise);
  std::exit(1);
}

struct Codec {
  explicit Codec(const char* spec) { good = ok(sluice_codec_make(spec, &handle)); }
  ~Codec() { sluice_codec_free(handle); }
  sluice_codec* handle = nullptr;
  bool good;
};

// Start, advance, save, load, again.
bool step_all(sluice_group** groups, std::uint64_t step) {
  std::uint32_t finished[kWorkers] = {0, 0};
  for (int rank = 0; rank < kWorkers; ++rank) {
    const sluice_job job = {0, kCount, gradients[rank], means[rank]};
    // A group that was not started is as it was: the second time it works.
    if (!ok(sluice_group_start(groups[rank], step, &job, 1))) {
      if (for_good || !ok(sluice_group_start(groups[rank], step, &job, 1))) return false;
    }
  }
  for (int turn = 0; turn < 1000 && finished[0] + finished[1] < 2; ++turn) {
    for (int rank = 0; rank < kWorkers; ++rank) {
      if (ok(sluice_group_advance(groups[rank], &finished[rank]))) continue;
      const sluice_code again = sluice_group_advance(groups[rank], &finished[rank]);
      expect(again == (for_good ? SLUICE_OUT_OF_MEMORY : SLUICE_UNAVAILABLE) ||
                 again == SLUICE_UNAVAILABLE,
             "a group whose step failed is not dead");
      return false;
    }
  }
  return finished[0] + finished[1] == 2;
}

bool run_groups(const sluice_codec* codec, const char* feedback) {
  sluice_world* world = nullptr;
  sluice_group* groups[kWorkers] = {nullptr, nullptr};
  const sluice_tensor tensor = {1, 1, kCount};
  bool good = ok(sluice_world_make("local", kWorkers, 0, &world));
  for (std::uint32_t rank = 0; good && rank < kWorkers; ++rank) {
    sluice_options options = SLUICE_OPTIONS_INIT;
    options.rank = rank;
    options.workers = kWorkers;
    options.feedback = feedback;
    options.chunk = 1024;
    good = ok(sluice_group_make(world, codec, &options, &tensor, 1, &groups[rank]));
  }
  good = good && step_all(groups, 1);
  for (int rank = 0; good && rank < kWorkers; ++rank) {
    std::size_t size = 0;
    good = ok(sluice_group_save(groups[rank], saved, sizeof saved, &size)) &&
           ok(sluice_group_load(groups[rank], saved, size));
  }
  good = good && step_all(groups, 2);
  for (sluice_group* group : groups) sluice_group_free(group);
  sluice_world_free(world);
  return good;
}

// One worker: every collective is a copy.
bool carry(sluice_parcel* parcel) {
  static char bytes[1 << 20];
  static std::int32_t lanes[1 << 16];
  while (true) {
    sluice_step step = SLUICE_STEP_INIT;
    if (!ok(sluice_parcel_next(parcel, &step))) return false;
    if (step.collective == SLUICE_DONE) return true;
    if (step.collective == SLUICE_MAXIMUM || step.collective == SLUICE_SUM) {
      if (!ok(sluice_parcel_pack_lanes(parcel, lanes, step.lane_count))) return false;
      if (!ok(sluice_parcel_spread_lanes(parcel, lanes, step.lane_count))) return false;
      continue;
    }
    const std::uint64_t size = step.send_sizes[0];
    const void* answer = nullptr;
    std::uint64_t answer_size = 0;
    if (!ok(sluice_parcel_pack(parcel, bytes, size))) return false;
    if (!ok(sluice_parcel_combine(parcel, bytes, &size, &answer, &answer_size))) return false;
    if (step.collective != SLUICE_SHARDS) continue;
    if (!ok(sluice_parcel_spread(parcel, answer, answer_size, &answer_size))) return false;
  }
}

bool run_exchange(sluice_memory* memory) {
  sluice_exchange* exchange = nullptr;
  bool good = ok(sluice_exchange_begin(memory, 9, 0, 0, 1024, gradients[0], means[0], &exchange));
  std::size_t count = 1;
  while (good && count != 0) {
    sluice_round* rounds = nullptr;
    good = ok(sluice_exchange_next(exchange, &rounds, &count));
    for (std::size_t i = 0; good && i < count; ++i) {
      sluice_round& round = rounds[i];
      if (round.what.count == 0) continue;
      good = ok(sluice_combine(&round.what, 1, &round.up, &round.up_size, round.down,
                               round.down_capacity, &round.down_size));
    }
  }
  sluice_exchange_free(exchange);
  return good;
}

bool run_memory(const sluice_codec* codec, const char* feedback) {
  sluice_memory* memory = nullptr;
  sluice_parcel* parcel = nullptr;
  sluice_options options = SLUICE_OPTIONS_INIT;
  options.workers = 1;
  options.feedback = feedback;
  options.chunk = 1024;
  options.keep_before = 1;
  const sluice_tensor tensors[3] = {{1, 1, kCount}, {2, 3, 5}, {3, 1, 1}};
  bool good =
      ok(sluice_memory_make(codec, &options, &memory)) && ok(sluice_memory_add(memory, tensors, 1));
  // What was refused has changed nothing: the second time it works.
  if (good && !ok(sluice_memory_add(memory, tensors + 1, 2))) {
    good = !for_good && ok(sluice_memory_add(memory, tensors + 1, 2));
  }
  for (std::uint32_t i = 0; good && i < 3; ++i) {
    float* residual = nullptr;
    std::uint64_t count = 0;
    good = ok(sluice_memory_residual(memory, i, &residual, &count));
    expect(!good || count == (residual == nullptr ? 0 : tensors[i].rows * tensors[i].cols),
           "a residual is not that of its tensor");
  }
  good = good && ok(sluice_parcel_make(memory, &parcel));
  for (std::uint64_t step = 0; good && step < 2; ++step) {
    sluice_order order = SLUICE_ORDER_INIT;
    order.step = order.sequence = step;
    order.digest = 1;
    order.probe = 1;
    const sluice_job jobs[4] = {{0, kCount, gradients[0], means[0]},
                                {1, 15, gradients[1], means[1]},
                                {SLUICE_EXACT, 40, gradients[1] + 20, means[1] + 20},
                                {SLUICE_SPARSE, 40, gradients[1] + 60, means[1] + 60}};
    good = ok(sluice_parcel_begin(parcel, &order, jobs, 4)) && carry(parcel) &&
           ok(step == 0 ? sluice_memory_undo_step(memory) : sluice_memory_end_step(memory));
  }
  good = good && run_exchange(memory);
  sluice_memory_free(memory);
  sluice_parcel_free(parcel);
  return good;
}

bool run_local(const char* spec) {
  const float* all[kWorkers] = {gradients[0], gradients[1]};
  doing = "reduce_local";
  const sluice_code code = sluice_reduce_local(spec, kWorkers, kCount, all, 1, 2, means[0]);
  expect(code != SLUICE_UNAVAILABLE, "no memory for a thread is told as something else");
  return ok(code);
}

// An aggregator of its own for a session, since a worker without memory may not say good-bye there.
// It has all the memory that it wants.
struct Aggregator {
  Aggregator() {
    is_here = false;
    expect(sluice_aggregator_start("127.0.0.1:0", &handle) == SLUICE_OK, "no aggregator");
    is_here = true;
  }
  ~Aggregator() {
    is_here = false;
    sluice_aggregator_free(handle, 0);
  }
  sluice_aggregator* handle = nullptr;
};

// A worker alone at an aggregator.
bool run_port(const char* spec) {
  doing = "port";
  const Aggregator aggregator;
  const Codec codec(spec);
  if (!codec.good) return false;
  sluice_memory* memory = nullptr;
  sluice_port* port = nullptr;
  sluice_options options = SLUICE_OPTIONS_INIT;
  options.workers = 1;
  options.chunk = 1024;
  const sluice_tensor tensor = {1, 1, kCount};
  bool good = ok(sluice_memory_make(codec.handle, &options, &memory)) &&
              ok(sluice_memory_add(memory, &tensor, 1)) &&
              ok(sluice_port_open(memory, sluice_aggregator_addresses(aggregator.handle), 1, 2, 60,
                                  -1, &port));
  for (std::uint64_t step = 0; good && step < 2; ++step) {
    sluice_order order = SLUICE_ORDER_INIT;
    order.step = order.sequence = step;
    const sluice_job job = {0, kCount, gradients[0], means[0]};
    good = ok(sluice_port_run(port, &order, &job, 1));
  }
  sluice_port_free(port);
  sluice_memory_free(memory);
  return good;
}

bool session(const char* spec, const char* feedback) {
  doing = "codec";
  const Codec codec(spec);
  if (!codec.good) return false;
  doing = "groups";
  if (!run_groups(codec.handle, feedback)) return false;
  doing = "memory";
  if (!run_memory(codec.handle, feedback)) return false;
  return run_local(spec);
}

// How many allocations had to be granted.
template <class Session>
long run_all(const char* spec, const Session& session) {
  for (long granted = 0;; ++granted) {
    refused = false;
    left = granted;
    const bool good = session();
    left = -1;
    if (!refused) {
      if (!good) std::fprintf(stderr, "faults: %s does not work at all\n", spec), std::exit(1);
      return granted;
    }
    refused = false;
    // Now and then: the whole session once more, with memory.
    if (granted % 16 == 0 && !session()) {
      std::fprintf(stderr, "faults: %s does not work after allocation %ld\n", spec, granted);
      std::exit(1);
    }
  }
}

void run_ports() {
  only_here = true;
  for (const bool all_that_follow : {false, true}) {
    for_good = all_that_follow;
    const long count = run_all("tide:bits=4", [] { return run_port("tide:bits=4"); });
    std::printf("C++: a port%s: each of %ld allocations refused, and codes only\n",
                for_good ? ", from there on" : "", count);
    std::fflush(stdout);
  }
  only_here = false;
}

}  // namespace

int main() {
  for (int rank = 0; rank < kWorkers; ++rank) {
    for (int i = 0; i < kCount; ++i) {
      gradients[rank][i] = i % 7 == 0 ? float(i % 101) / 50.0f - 1.0f + float(rank) : 0.0f;
    }
  }
  const char* const kinds[][2] = {{"f32", "none"},
                                  {"fixed", "ef"},
                                  {"thc", "none"},
                                  {"tide:bits=4", "ef"},
                                  {"tide:scales=previous", "none"},
                                  {"blocks", "ef"},
                                  {"lossless", "none"},
                                  {"lhc", "none"}};
  for (const auto& kind : kinds) {
    for_good = false;
    const auto run = [&] { return session(kind[0], kind[1]); };
    const long count = run_all(kind[0], run);
    for_good = true;
    run_all(kind[0], run);
    std::printf("C++: %s with feedback %s: each of %ld allocations refused, and codes only\n",
                kind[0], kind[1], count);
    std::fflush(stdout);
  }
  run_ports();
  return 0;
}
