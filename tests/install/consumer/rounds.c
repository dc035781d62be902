/* A C99 user that runs the rounds itself, in both ways the header offers, and gets the very bits of
 * sluice_reduce_local: exchanges round by round, and parcels by all-to-all and all-gather. */
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
  expect(sluice_memory_make(codec, &options, &memory));
  expect(sluice_memory_add(memory, &tensor, 1));
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

static sluice_parcel* parcels[WORKERS];
static unsigned char sent[WORKERS][1 << 19];
static unsigned char received[1 << 19];
static unsigned char gathered[1 << 20];
static int32_t lanes[WORKERS][1 << 17];

static void all_reduce(const sluice_step* step) {
  uint64_t i;
  int rank;
  for (rank = 0; rank < WORKERS; ++rank) {
    expect(sluice_parcel_pack_lanes(parcels[rank], lanes[rank], step->lane_count));
  }
  for (rank = 1; rank < WORKERS; ++rank) {
    for (i = 0; i < step->lane_count; ++i) {
      if (step->collective == SLUICE_SUM) {
        lanes[0][i] = (int32_t)((uint32_t)lanes[0][i] + (uint32_t)lanes[rank][i]);
      } else if (lanes[rank][i] > lanes[0][i]) {
        lanes[0][i] = lanes[rank][i];
      }
    }
  }
  for (rank = 0; rank < WORKERS; ++rank) {
    expect(sluice_parcel_spread_lanes(parcels[rank], lanes[0], step->lane_count));
  }
}

static void shards(const sluice_step* steps) {
  uint64_t sizes[WORKERS], answer_sizes[WORKERS];
  const uint64_t stride = sizeof gathered / WORKERS;
  int from, to, peer;
  for (from = 0; from < WORKERS; ++from) {
    uint64_t total = 0;
    for (to = 0; to < WORKERS; ++to) total += steps[from].send_sizes[to];
    if (total > sizeof sent[from]) exit(3);
    expect(sluice_parcel_pack(parcels[from], sent[from], total));
  }
  for (to = 0; to < WORKERS; ++to) {
    uint64_t at = 0;
    const void* answer;
    for (from = 0; from < WORKERS; ++from) {
      uint64_t offset = 0;
      for (peer = 0; peer < to; ++peer) offset += steps[from].send_sizes[peer];
      sizes[from] = steps[from].send_sizes[to];
      memcpy(received + at, sent[from] + offset, (size_t)sizes[from]);
      at += sizes[from];
    }
    expect(sluice_parcel_combine(parcels[to], received, sizes, &answer, &answer_sizes[to]));
    if (answer_sizes[to] > stride) exit(4);
    if (answer != NULL) memcpy(gathered + (size_t)to * stride, answer, (size_t)answer_sizes[to]);
  }
  for (to = 0; to < WORKERS && steps[0].collective == SLUICE_SHARDS; ++to) {
    expect(sluice_parcel_spread(parcels[to], gathered, stride, answer_sizes));
  }
}

static void run_parcels(const sluice_codec* codec) {
  sluice_memory* memories[WORKERS];
  sluice_step steps[WORKERS];
  sluice_order order = SLUICE_ORDER_INIT;
  const sluice_step fresh = SLUICE_STEP_INIT;
  int rank;
  order.step = 3;
  for (rank = 0; rank < WORKERS; ++rank) {
    sluice_job job;
    job.tensor = 0;
    job.count = COUNT;
    job.gradient = gradients[rank];
    job.mean = means[rank];
    memories[rank] = make_memory(codec, (uint32_t)rank);
    expect(sluice_parcel_make(memories[rank], &parcels[rank]));
    expect(sluice_parcel_begin(parcels[rank], &order, &job, 1));
  }
  for (;;) {
    for (rank = 0; rank < WORKERS; ++rank) {
      steps[rank] = fresh;
      expect(sluice_parcel_next(parcels[rank], &steps[rank]));
    }
    if (steps[0].collective == SLUICE_DONE) break;
    if (steps[0].collective == SLUICE_SHARDS || steps[0].collective == SLUICE_WHOLE) {
      shards(steps);
    } else {
      all_reduce(&steps[0]);
    }
  }
  for (rank = 0; rank < WORKERS; ++rank) {
    sluice_parcel_free(parcels[rank]);
    sluice_memory_free(memories[rank]);
  }
}

int main(void) {
  static float expected[COUNT];
  const float* all[WORKERS];
  size_t i;
  int rank, way;
  fill();
  for (rank = 0; rank < WORKERS; ++rank) all[rank] = gradients[rank];
  for (i = 0; i < sluice_codec_count(); ++i) {
    sluice_codec* codec = NULL;
    expect(sluice_codec_make(sluice_codec_name(i), &codec));
    expect(sluice_reduce_local(sluice_codec_name(i), WORKERS, COUNT, all, 7, 3, expected));
    for (way = 0; way < 2; ++way) {
      memset(means, 0, sizeof means);
      if (way == 0) run_exchanges(codec);
      if (way == 1) run_parcels(codec);
      for (rank = 0; rank < WORKERS; ++rank) {
        if (memcmp(means[rank], expected, sizeof expected) != 0) {
          fprintf(stderr, "%s: worker %d got other bits\n", sluice_codec_spec(codec), rank);
          return 5;
        }
      }
    }
    printf("C: %s by exchanges and by parcels, the same bits\n", sluice_codec_spec(codec));
    sluice_codec_free(codec);
  }
  return 0;
}
