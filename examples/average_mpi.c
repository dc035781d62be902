/* Averages a gradient between the ranks of an MPI program, beside the program's own MPI calls. C99.
 *
 *   mpicc examples/average_mpi.c -lsluice -o average_mpi
 *   mpirun -n 4 ./average_mpi     as root or with few cores: docs/mpi.md
 *
 * Each rank's gradient is rank + 1 everywhere, so the mean of four is 2.5. */
#include <mpi.h>
#include <sluice/sluice.h>
#include <stdio.h>

enum { kCount = 100000 };

static void check(sluice_code code) {
  if (code == SLUICE_OK) return;
  fprintf(stderr, "average_mpi: %s\n", sluice_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  static float gradient[kCount], exact[kCount];
  int level, rank, size;
  sluice_world* world;
  sluice_codec* codec;
  sluice_group* group;
  sluice_options options = {0};
  const sluice_tensor tensor = {1, 1, kCount};            /* id, rows, columns */
  const sluice_entry entry = {0, kCount, gradient, gradient}; /* the mean overwrites the gradient */

  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < kCount; ++i) gradient[i] = (float)(rank + 1);
  MPI_Allreduce(gradient, exact, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);

  check(sluice_world_make("mpi", 0, 0, &world)); /* 0 workers: all ranks of MPI_COMM_WORLD */
  check(sluice_codec_make("tide:bits=8", &codec));
  options.size = sizeof options;
  options.rank = (uint32_t)rank;
  options.workers = (uint32_t)size;
  check(sluice_group_make(world, codec, &options, &tensor, 1, &group));
  check(sluice_group_reduce(group, 0, &entry, 1));
  sluice_group_free(group);
  sluice_world_free(world);
  sluice_codec_free(codec);

  double means[2] = {0, 0}; /* of all coordinates: codes are noisy one by one */
  for (int i = 0; i < kCount; ++i) {
    means[0] += gradient[i] / (double)kCount;
    means[1] += exact[i] / ((double)kCount * size);
  }
  double largest[2]; /* the program's own MPI goes on as before */
  MPI_Allreduce(means, largest, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  printf("rank %d of %d: mean %.3f, exactly %.3f; largest of any rank %.3f\n", rank, size, means[0],
         means[1], largest[0]);
  MPI_Finalize();
  return 0;
}
