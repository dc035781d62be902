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
#include <cstring>
#include <new>
#include <thread>
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
    const sluice_entry job = {0, kCount, gradients[rank], means[rank]};
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

// One worker: every collective is a copy. Its buffers may be refused, too.
struct Copies {
  Copies() = default;
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  ~Copies() {
    for (void* buffer : buffers) std::free(buffer);
  }
  sluice_collectives calls() {
    return {sizeof(sluice_collectives), this, &reserve, &start, &test, &wait};
  }
  static void* reserve(void* context, std::uint32_t buffer, std::uint64_t bytes) {
    if (refuses()) return nullptr;
    void*& one = static_cast<Copies*>(context)->buffers[buffer];
    void* const larger = std::realloc(one, bytes);
    if (larger != nullptr) one = larger;
    return larger;
  }
  static int start(void* context, const sluice_collective* what) {
    Copies& copies = *static_cast<Copies*>(context);
    ++copies.started;
    const bool all_to_all = what->kind == SLUICE_ALL_TO_ALL;
    const std::size_t size = all_to_all ? what->send_sizes[0] : what->count;
    if (what->from != what->to) {
      std::memcpy(copies.buffers[what->to], copies.buffers[what->from], size);
    }
    return 0;
  }
  static int test(void*, std::uint32_t* done) {
    *done = 1;
    return 0;
  }
  static int wait(void*, double) { return 0; }

  void* buffers[4] = {nullptr, nullptr, nullptr, nullptr};
  int started = 0;
};

// What a worker hands over: a tensor of many chunks, a small one, an exact one and rows.
struct Bucket {
  explicit Bucket(std::uint64_t step) {
    order.step = order.number = step;
    order.digest = 1;
    order.probe = 1;
  }
  sluice_order order = SLUICE_ORDER_INIT;
  sluice_entry jobs[4] = {{0, kCount, gradients[0], means[0]},
                          {1, 15, gradients[1], means[1]},
                          {2, 40, gradients[1] + 20, means[1] + 20},
                          {3, 40, gradients[1] + 60, means[1] + 60}};
};

// What a dead object says; it may not even have memory for the words.
bool says_dead(sluice_code code) {
  return code == SLUICE_UNAVAILABLE || (for_good && code == SLUICE_OUT_OF_MEMORY);
}

// Where nothing was sent the port goes on; else it is dead.
bool run_bucket(sluice_port* port, const Copies& copies, std::uint64_t step) {
  const Bucket bucket(step);
  const int before = copies.started;
  if (ok(sluice_port_run(port, &bucket.order, bucket.jobs, 4))) return true;
  const bool was_sent = copies.started != before;
  const sluice_code again = sluice_port_run(port, &bucket.order, bucket.jobs, 4);
  if (was_sent) expect(says_dead(again), "a port whose bucket failed is not dead");
  return ok(again);
}

// Serves two ports, each on a thread, until the queue is closed.
bool serve_both(sluice_queue* queue) {
  std::atomic<int> buckets(0);
  std::atomic<int> turns(0);
  bool good[2] = {false, false};
  const auto serve = [&](std::size_t port) {
    while (true) {
      sluice_event event = SLUICE_EVENT_INIT;
      if (!ok(sluice_queue_serve(queue, port, &event))) {
        expect(says_dead(sluice_queue_serve(queue, port, &event)),
               "a queue that failed is not dead");
        return;
      }
      if (event.kind == SLUICE_CLOSED) break;
      ++(event.kind == SLUICE_TURN ? turns : buckets);
    }
    good[port] = true;
  };
  ok(sluice_queue_close(queue, 0));
  const long granted = left.exchange(-1);  // the thread itself is ours
  std::thread second([&] { serve(1); });
  left = granted;
  serve(0);
  second.join();
  if (!good[0] || !good[1]) return false;
  expect(buckets == 2 && turns == 1, "not all of the queue came");
  return true;
}

// Two buckets with a turn in between, over two ports.
bool run_queue(sluice_port* const* ports) {
  doing = "queue";
  sluice_queue* queue = nullptr;
  std::uint64_t number = 7;
  const Bucket first(2);
  const Bucket second(3);
  bool good = ok(sluice_queue_make(ports, 2, 1024, &queue)) &&
              ok(sluice_queue_put(queue, &first.order, first.jobs, 1, &number)) &&
              ok(sluice_queue_put_turn(queue, &number));
  // What was refused has taken no number: the second time it works.
  if (good && !ok(sluice_queue_put(queue, &second.order, second.jobs + 1, 3, &number))) {
    good = !for_good && ok(sluice_queue_put(queue, &second.order, second.jobs + 1, 3, &number));
  }
  expect(!good || number == 2, "a bucket that was refused took a number");
  good = good && serve_both(queue);
  sluice_queue_free(queue);
  return good;
}

bool save_and_load(sluice_memory* memory) {
  static char bytes[1 << 20];
  std::size_t size = 0;
  if (!ok(sluice_memory_save(memory, bytes, sizeof bytes, &size))) return false;
  const sluice_saved saved{bytes, size};
  return ok(sluice_memory_load(memory, &saved, 1, 0, 0));
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
  Copies copies[2];
  sluice_port* ports[2] = {nullptr, nullptr};
  sluice_options options = SLUICE_OPTIONS_INIT;
  options.workers = 1;
  options.feedback = feedback;
  options.chunk = 1024;
  options.keep_before = 1;
  const sluice_tensor tensors[4] = {{1, 1, kCount}, {2, 3, 5}, {3, 1, 40}, {4, 10, 20}};
  const Codec exact("f32");
  if (!exact.good) return false;
  bool good =
      ok(sluice_memory_make(&options, &memory)) && ok(sluice_memory_add(memory, codec, tensors, 1));
  // What was refused has changed nothing: the second time it works.
  if (good && !ok(sluice_memory_add(memory, codec, tensors + 1, 2))) {
    good = !for_good && ok(sluice_memory_add(memory, codec, tensors + 1, 2));
  }
  const std::uint32_t third = 2;
  good = good && ok(sluice_memory_add_rows(memory, exact.handle, tensors + 3, 1)) &&
         ok(sluice_memory_choose(memory, &third, 1, exact.handle));
  for (std::uint32_t i = 0; good && i < 3; ++i) {
    float* residual = nullptr;
    std::uint64_t count = 0;
    good = ok(sluice_memory_kept(memory, i, 0, &residual, &count));
    expect(!good || count == (residual == nullptr ? 0 : tensors[i].rows * tensors[i].cols),
           "a residual is not that of its tensor");
  }
  for (int i = 0; good && i < 2; ++i) {
    const sluice_collectives calls = copies[i].calls();
    good = ok(sluice_port_over(memory, &calls, 60, &ports[i]));
  }
  for (std::uint64_t step = 0; good && step < 2; ++step) {
    good = run_bucket(ports[0], copies[0], step) &&
           ok(step == 0 ? sluice_memory_undo_step(memory) : sluice_memory_end_step(memory));
  }
  good = good && save_and_load(memory) && run_exchange(memory) && run_queue(ports);
  sluice_memory_free(memory);
  for (sluice_port* port : ports) sluice_port_free(port);
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

// A bucket through a queue, served by this thread.
bool run_queue_of_one(sluice_port* port) {
  sluice_queue* queue = nullptr;
  sluice_event event = SLUICE_EVENT_INIT;
  std::uint64_t number = 0;
  const sluice_order order = SLUICE_ORDER_INIT;
  const sluice_entry job = {0, kCount, gradients[0], means[0]};
  const bool good = ok(sluice_queue_make(&port, 1, 1024, &queue)) &&
                    ok(sluice_queue_put(queue, &order, &job, 1, &number)) &&
                    ok(sluice_queue_serve(queue, 0, &event));
  expect(!good || event.kind == SLUICE_BUCKET, "something else came of a queue");
  sluice_queue_free(queue);
  return good;
}

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
  bool good = ok(sluice_memory_make(&options, &memory)) &&
              ok(sluice_memory_add(memory, codec.handle, &tensor, 1)) &&
              ok(sluice_port_open(memory, sluice_aggregator_addresses(aggregator.handle), 1, 2, 60,
                                  -1, &port));
  for (std::uint64_t step = 0; good && step < 2; ++step) {
    sluice_order order = SLUICE_ORDER_INIT;
    order.step = order.number = step;
    const sluice_entry job = {0, kCount, gradients[0], means[0]};
    good = ok(sluice_port_run(port, &order, &job, 1));
  }
  good = good && run_queue_of_one(port);
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
    std::printf("C++: a port and its queue%s: each of %ld allocations refused, and codes only\n",
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
