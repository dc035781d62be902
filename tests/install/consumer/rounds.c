/* A C99 user that moves the bytes itself, in the ways that the header offers, and gets the very
 * bits of sluice_reduce_local: exchanges round by round, and ports and queues over collectives. */
#define _POSIX_C_SOURCE 200112L
#include <pthread.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, COUNT = 60000 };

static float gradients[WORKERS][COUNT];
static float means[WORKERS][COUNT];

static void expect(sluice_code code) {
  if (code == SLUICE_OK) return;
  fprintf(stderr, "code %d: %s\n", (int)code, sluice_last_error());
  exit(1);
}

static void fill(void) {
  uint32_t state = 1;
  int rank, i;
  for (rank = 0; rank < WORKERS; ++rank) {
    for (i = 0; i < COUNT; ++i) {
      state = state * 1664525u + 1013904223u;
      gradients[rank][i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
  }
}

static sluice_memory* make_memory(const sluice_codec* codec, uint32_t rank) {
  const sluice_tensor tensor = {0, 1, COUNT};
  sluice_options options = SLUICE_OPTIONS_INIT;
  sluice_memory* memory = NULL;
  options.rank = rank;
  options.workers = WORKERS;
  options.seed = 7;
  expect(sluice_memory_make(&options, &memory));
  expect(sluice_memory_add(memory, codec, &tensor, 1));
  return memory;
}

/* Each round's contributions go through the reference reduction; every worker gets the answer. */
static void run_exchanges(const sluice_codec* codec) {
  sluice_memory* memories[WORKERS];
  sluice_exchange* exchanges[WORKERS];
  sluice_round* rounds[WORKERS];
  size_t count = 1, i;
  int rank;
  for (rank = 0; rank < WORKERS; ++rank) {
    memories[rank] = make_memory(codec, (uint32_t)rank);
    if (sluice_memory_chunk(memories[rank], 0) < COUNT) exit(2);
    expect(sluice_exchange_begin(memories[rank], 3, 0, 0, COUNT, gradients[rank], means[rank],
                                 &exchanges[rank]));
  }
  while (count != 0) {
    for (rank = 0; rank < WORKERS; ++rank) {
      expect(sluice_exchange_next(exchanges[rank], &rounds[rank], &count));
    }
    for (i = 0; i < count; ++i) {
      const void* ups[WORKERS];
      size_t sizes[WORKERS];
      for (rank = 0; rank < WORKERS; ++rank) {
        ups[rank] = rounds[rank][i].up;
        sizes[rank] = rounds[rank][i].up_size;
      }
      for (rank = 0; rank < WORKERS; ++rank) {
        sluice_round* round = &rounds[rank][i];
        if (round->what.count == 0) continue;
        expect(sluice_combine(&round->what, WORKERS, ups, sizes, round->down, round->down_capacity,
                              &round->down_size));
      }
    }
  }
  for (rank = 0; rank < WORKERS; ++rank) {
    sluice_exchange_free(exchanges[rank]);
    sluice_memory_free(memories[rank]);
  }
}

/* One worker's end of the collectives, and the one that it is in. */
typedef struct {
  uint32_t rank;
  const sluice_codec* codec;
  int32_t buffers[4][1 << 18];
  sluice_collective wanted;
} worker;

static worker workers[WORKERS];
static pthread_barrier_t meeting;

static void* reserve(void* context, uint32_t buffer, uint64_t bytes) {
  worker* me = context;
  return bytes <= sizeof me->buffers[buffer] ? me->buffers[buffer] : NULL;
}

static uint64_t sum(const uint64_t* sizes, uint32_t count) {
  uint64_t total = 0;
  uint32_t i;
  for (i = 0; i < count; ++i) total += sizes[i];
  return total;
}

/* What a rank has for me. */
static void take(worker* me, const worker* from) {
  const sluice_collective *mine = &me->wanted, *its = &from->wanted;
  const char* source = (const char*)from->buffers[its->from];
  char* target = (char*)me->buffers[mine->to];
  if (mine->kind == SLUICE_ALL_GATHER) {
    memcpy(target + from->rank * mine->count, source, (size_t)mine->count);
    return;
  }
  if (mine->receive_sizes[from->rank] != its->send_sizes[me->rank]) exit(3);
  memcpy(target + sum(mine->receive_sizes, from->rank), source + sum(its->send_sizes, me->rank),
         (size_t)its->send_sizes[me->rank]);
}

static void all_reduce(const sluice_collective* what) {
  int32_t* first = workers[0].buffers[what->from];
  uint64_t i;
  int rank;
  for (rank = 1; rank < WORKERS; ++rank) {
    const int32_t* other = workers[rank].buffers[what->from];
    for (i = 0; i < what->count; ++i) {
      if (what->kind == SLUICE_SUM) {
        first[i] = (int32_t)((uint32_t)first[i] + (uint32_t)other[i]);
      } else if (other[i] > first[i]) {
        first[i] = other[i];
      }
    }
  }
  for (rank = 1; rank < WORKERS; ++rank) {
    memcpy(workers[rank].buffers[what->to], first, (size_t)what->count * sizeof *first);
  }
}

static int start(void* context, const sluice_collective* what) {
  worker* me = context;
  int from;
  if (what->size != sizeof *what || what->step != 3 || what->number != 0) exit(4);
  me->wanted = *what;
  pthread_barrier_wait(&meeting);
  if (workers[0].wanted.kind != what->kind) exit(5);
  for (from = 0; from < WORKERS && what->kind <= SLUICE_ALL_GATHER; ++from) {
    take(me, &workers[from]);
  }
  if (what->kind > SLUICE_ALL_GATHER && me->rank == 0) all_reduce(what);
  pthread_barrier_wait(&meeting);
  return 0;
}

static int test(void* context, uint32_t* done) {
  (void)context;
  *done = 1;
  return 0;
}

static int wait_for_it(void* context, double seconds) {
  (void)context;
  return seconds > 0 && seconds <= 60 ? 0 : 1;
}

static sluice_port* make_port(worker* me, sluice_memory* memory) {
  sluice_collectives calls = SLUICE_COLLECTIVES_INIT;
  sluice_port* port = NULL;
  calls.context = me;
  calls.reserve = reserve;
  calls.start = start;
  calls.test = test;
  calls.wait = wait_for_it;
  expect(sluice_port_over(memory, &calls, 60, &port));
  return port;
}

static void fill_job(worker* me, sluice_entry* job) {
  job->tensor = 0;
  job->count = COUNT;
  job->gradient = gradients[me->rank];
  job->mean = means[me->rank];
}

static void* run_port(void* argument) {
  worker* me = argument;
  sluice_memory* memory = make_memory(me->codec, me->rank);
  sluice_port* port = make_port(me, memory);
  sluice_order order = SLUICE_ORDER_INIT;
  sluice_entry job;
  fill_job(me, &job);
  order.step = 3;
  expect(sluice_port_run(port, &order, &job, 1));
  sluice_port_free(port);
  sluice_memory_free(memory);
  return NULL;
}

static void* run_queue(void* argument) {
  worker* me = argument;
  sluice_memory* memory = make_memory(me->codec, me->rank);
  sluice_port* port = make_port(me, memory);
  sluice_queue* queue = NULL;
  sluice_event event = SLUICE_EVENT_INIT;
  sluice_order order = SLUICE_ORDER_INIT;
  uint64_t number = 7;
  sluice_entry job;
  fill_job(me, &job);
  order.step = 3;
  expect(sluice_queue_make(&port, 1, 0, &queue));
  expect(sluice_queue_put(queue, &order, &job, 1, &number));
  expect(sluice_queue_close(queue, 0));
  expect(sluice_queue_serve(queue, 0, &event));
  if (event.kind != SLUICE_BUCKET || event.number != number) exit(6);
  expect(sluice_queue_serve(queue, 0, &event));
  if (event.kind != SLUICE_CLOSED) exit(7);
  sluice_memory_free(memory);
  sluice_port_free(port);
  sluice_queue_free(queue);
  return NULL;
}

static void run_threads(const sluice_codec* codec, void* (*body)(void*)) {
  pthread_t threads[WORKERS];
  int rank;
  for (rank = 0; rank < WORKERS; ++rank) {
    workers[rank].rank = (uint32_t)rank;
    workers[rank].codec = codec;
    if (pthread_create(&threads[rank], NULL, body, &workers[rank]) != 0) exit(8);
  }
  for (rank = 0; rank < WORKERS; ++rank) pthread_join(threads[rank], NULL);
}

int main(void) {
  static float expected[COUNT];
  const float* all[WORKERS];
  size_t i;
  int rank, way;
  fill();
  if (pthread_barrier_init(&meeting, NULL, WORKERS) != 0) return 10;
  for (rank = 0; rank < WORKERS; ++rank) all[rank] = gradients[rank];
  for (i = 0; i < sluice_codec_count(); ++i) {
    sluice_codec* codec = NULL;
    expect(sluice_codec_make(sluice_codec_name(i), &codec));
    expect(sluice_reduce_local(sluice_codec_name(i), WORKERS, COUNT, all, 7, 3, expected));
    for (way = 0; way < 3; ++way) {
      memset(means, 0, sizeof means);
      if (way == 0) run_exchanges(codec);
      if (way == 1) run_threads(codec, run_port);
      if (way == 2) run_threads(codec, run_queue);
      for (rank = 0; rank < WORKERS; ++rank) {
        if (memcmp(means[rank], expected, sizeof expected) != 0) {
          fprintf(stderr, "%s: worker %d got other bits\n", sluice_codec_spec(codec), rank);
          return 9;
        }
      }
    }
    printf("C: %s by exchanges, a port and a queue, the same bits\n", sluice_codec_spec(codec));
    sluice_codec_free(codec);
  }
  return 0;
}
