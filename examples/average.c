/* Averages a gradient between workers, three steps, with error feedback. C99.
 *
 *   cc examples/average.c -lsluice -o average
 *   ./average local                 four workers in this process
 *   ./average mpi                   one worker per process, under mpirun: docs/mpi.md
 *
 * Each worker's gradient is rank + 1 everywhere, so the mean of four is 2.5. */
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 100000, kWorkersHereMax = 4, kSteps = 3 };

static void check(sluice_code code) {
  if (code == SLUICE_OK) return;
  fprintf(stderr, "average: %s\n", sluice_last_error());
  exit(1);
}

/* One step of all workers that live here. On "local" that is every worker, so nobody may block:
 * all start, then each is advanced in turn until all are finished. */
static void reduce(sluice_group** groups, size_t here, uint64_t step, float (*gradients)[kCount]) {
  size_t left = here;
  uint32_t finished[kWorkersHereMax] = {0};
  for (size_t i = 0; i < here; ++i) {
    const sluice_entry entry = {0, kCount, gradients[i], gradients[i]}; /* the mean overwrites it */
    check(sluice_group_start(groups[i], step, &entry, 1));
  }
  while (left > 0) {
    for (size_t i = 0; i < here; ++i) {
      if (finished[i]) continue;
      check(sluice_group_advance(groups[i], &finished[i]));
      left -= finished[i];
    }
  }
}

int main(int argc, char** argv) {
  const char* carrier = argc > 1 ? argv[1] : "local";
  static float gradients[kWorkersHereMax][kCount];
  sluice_group* groups[kWorkersHereMax];
  sluice_world* world;
  sluice_codec* codec;
  const uint32_t* ranks;
  const sluice_tensor tensor = {1, 1, kCount}; /* id, rows, columns */
  /* 0 workers: as many as mpirun started. */
  check(sluice_world_make(carrier, strcmp(carrier, "local") == 0 ? 4 : 0, 0, &world));
  check(sluice_codec_make("tide:bits=4", &codec));
  const size_t here = sluice_world_here(world, &ranks);
  for (size_t i = 0; i < here; ++i) {
    sluice_options options = SLUICE_OPTIONS_INIT;
    options.rank = ranks[i];
    options.workers = sluice_world_workers(world);
    options.feedback = "ef";
    check(sluice_group_make(world, codec, &options, &tensor, 1, &groups[i]));
  }

  for (uint64_t step = 0; step < kSteps; ++step) {
    for (size_t i = 0; i < here; ++i) {
      for (size_t j = 0; j < kCount; ++j) gradients[i][j] = (float)(ranks[i] + 1);
    }
    reduce(groups, here, step, gradients);
  }

  sluice_stats stats = SLUICE_STATS_INIT;
  check(sluice_group_stats(groups[0], &stats));
  double mean = 0; /* of all coordinates: codes are noisy one by one */
  for (size_t j = 0; j < kCount; ++j) mean += gradients[0][j] / (double)kCount;
  printf("rank %u of %u: mean %.2f, %.1f bits up and %.1f down per coordinate\n",
         (unsigned)ranks[0], (unsigned)sluice_world_workers(world), mean,
         8.0 * (double)stats.bytes_up / (kSteps * kCount),
         8.0 * (double)stats.bytes_down / (kSteps * kCount));

  for (size_t i = 0; i < here; ++i) sluice_group_free(groups[i]);
  sluice_world_free(world);
  sluice_codec_free(codec);
  return 0;
}
