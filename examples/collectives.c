/* Averages over collectives that are not ours: a framework's, MPI's, or, as here, those of two
 * threads that meet. Three buckets a step through a queue. C99 and POSIX threads.
 *
 *   cc examples/collectives.c -lsluice -lpthread -o collectives
 *   ./collectives
 *
 * Each worker's gradient is rank + 1 everywhere, so the mean of two is 1.5. */
#define _POSIX_C_SOURCE 200112L
#include <pthread.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWorkers = 2, kTensors = 3, kCount = 100000, kSteps = 2, kBuffers = 4 };

static void check(sluice_code code) {
  if (code == SLUICE_OK) return;
  fprintf(stderr, "collectives: %s\n", sluice_last_error());
  exit(1);
}

/* One worker, and what it wants of the collective that all are in. */
typedef struct worker {
  uint32_t rank;
  void* buffers[kBuffers];
  sluice_collective wanted;
  double mean;
  float gradients[kTensors][kCount];
} worker;

static worker workers[kWorkers];
static pthread_barrier_t meeting;

static void* reserve(void* context, uint32_t buffer, uint64_t bytes) {
  worker* me = context;
  void* larger = realloc(me->buffers[buffer], bytes);
  if (larger != NULL) me->buffers[buffer] = larger;
  return larger;
}

static uint64_t sum(const uint64_t* sizes, uint32_t count) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < count; ++i) total += sizes[i];
  return total;
}

/* What rank `from` has for me. */
static void take(worker* me, uint32_t from) {
  const sluice_collective *mine = &me->wanted, *its = &workers[from].wanted;
  const char* source = workers[from].buffers[its->from];
  char* target = me->buffers[mine->to];
  if (mine->kind == SLUICE_ALL_TO_ALL) {
    memcpy(target + sum(mine->receive_sizes, from), source + sum(its->send_sizes, me->rank),
           its->send_sizes[me->rank]);
  } else {
    memcpy(target + from * mine->count, source, mine->count);
  }
}

/* Maximum or sum of everybody's lanes, by rank 0. */
static void reduce(const sluice_collective* what) {
  int32_t* first = workers[0].buffers[what->from];
  for (uint32_t rank = 1; rank < kWorkers; ++rank) {
    const int32_t* other = workers[rank].buffers[what->from];
    for (uint64_t i = 0; i < what->count; ++i) {
      if (what->kind == SLUICE_SUM) {
        first[i] = (int32_t)((uint32_t)first[i] + (uint32_t)other[i]);
      } else if (other[i] > first[i]) {
        first[i] = other[i];
      }
    }
  }
  for (uint32_t rank = 1; rank < kWorkers; ++rank) {
    memcpy(workers[rank].buffers[what->to], first, 4 * what->count);
  }
}

/* A collective that blocks may do all of it here. One that does not begins here. */
static int start(void* context, const sluice_collective* what) {
  worker* me = context;
  me->wanted = *what;
  pthread_barrier_wait(&meeting); /* all have said what they want */
  if (what->kind == SLUICE_ALL_TO_ALL || what->kind == SLUICE_ALL_GATHER) {
    for (uint32_t from = 0; from < kWorkers; ++from) take(me, from);
  } else if (me->rank == 0) {
    reduce(what);
  }
  pthread_barrier_wait(&meeting); /* nobody reads any more */
  return 0;
}

static int test(void* context, uint32_t* done) {
  (void)context;
  *done = 1;
  return 0;
}

static int wait_for_it(void* context, double seconds) {
  (void)context, (void)seconds;
  return 0;
}

static void run_step(worker* me, sluice_queue* queue, uint64_t step) {
  sluice_order order = SLUICE_ORDER_INIT;
  order.step = step;
  for (uint32_t i = 0; i < kTensors; ++i) {
    uint64_t number;
    const sluice_entry entry = {i, kCount, me->gradients[i], me->gradients[i]};
    for (size_t j = 0; j < kCount; ++j) me->gradients[i][j] = (float)(me->rank + 1);
    check(sluice_queue_put(queue, &order, &entry, 1, &number)); /* as soon as it is there */
  }
  for (int left = kTensors; left > 0; --left) {
    sluice_event event = SLUICE_EVENT_INIT;
    check(sluice_queue_serve(queue, 0, &event));
    printf("rank %u: bucket %u is there\n", (unsigned)me->rank, (unsigned)event.number);
  }
}

static void* work(void* argument) {
  worker* me = argument;
  sluice_options options = SLUICE_OPTIONS_INIT;
  sluice_collectives calls = SLUICE_COLLECTIVES_INIT;
  const sluice_tensor tensors[kTensors] = {{1, 1, kCount}, {2, 1, kCount}, {3, 1, kCount}};
  sluice_codec* codec;
  sluice_memory* memory;
  sluice_port* port;
  sluice_queue* queue;
  options.rank = me->rank, options.workers = kWorkers, options.feedback = "ef";
  calls.context = me, calls.reserve = reserve;
  calls.start = start, calls.test = test, calls.wait = wait_for_it;
  check(sluice_codec_make("tide:bits=4", &codec));
  check(sluice_memory_make(&options, &memory));
  check(sluice_memory_add(memory, codec, tensors, kTensors));
  check(sluice_port_over(memory, &calls, 60, &port));
  check(sluice_queue_make(&port, 1, 0, &queue));
  for (uint64_t step = 0; step < kSteps; ++step) {
    run_step(me, queue, step);
    check(sluice_memory_end_step(memory));
  }
  for (size_t j = 0; j < kCount; ++j) me->mean += me->gradients[0][j] / (double)kCount;
  sluice_queue_free(queue);
  sluice_port_free(port);
  sluice_memory_free(memory);
  sluice_codec_free(codec);
  return NULL;
}

int main(void) {
  pthread_t threads[kWorkers];
  pthread_barrier_init(&meeting, NULL, kWorkers);
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    workers[rank].rank = rank;
    if (pthread_create(&threads[rank], NULL, work, &workers[rank]) != 0) return 1;
  }
  for (uint32_t rank = 0; rank < kWorkers; ++rank) pthread_join(threads[rank], NULL);
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    printf("rank %u of %u: mean %.2f\n", (unsigned)rank, (unsigned)kWorkers, workers[rank].mean);
    for (int i = 0; i < kBuffers; ++i) free(workers[rank].buffers[i]);
  }
  return 0;
}
