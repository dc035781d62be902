/* Programs that use MPI in their own ways, with Sluice as a guest in them; run by
 * test_mpi_guest.py.
 *
 *   mpirun -n N ./mpi_guest SCENARIO
 *
 * Every rank prints "content" if all was as it should be. */
#include <mpi.h>
#include <pthread.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 5000 };

#define EXPECT(condition) expect(condition, #condition, __LINE__)

static void expect(int holds, const char* what, int line) {
  if (holds) return;
  fprintf(stderr, "mpi_guest.c:%d: %s; last error: %s\n", line, what, sluice_last_error());
  exit(1);
}

static int says(const char* words) { return strstr(sluice_last_error(), words) != NULL; }

/* A worker of a world, that averages rank + 1 without loss. */
typedef struct {
  sluice_world* world;
  sluice_codec* codec;
  sluice_group* group;
  float values[kCount];
} Worker;

static void make(Worker* worker, double timeout) {
  const sluice_tensor tensor = {1, 1, kCount};
  const uint32_t* ranks;
  sluice_options options = {0};
  EXPECT(sluice_world_make("mpi", 0, 0, &worker->world) == SLUICE_OK);
  EXPECT(sluice_codec_make("f32", &worker->codec) == SLUICE_OK);
  EXPECT(sluice_world_here(worker->world, &ranks) == 1);
  options.size = sizeof options;
  options.rank = ranks[0];
  options.workers = sluice_world_workers(worker->world);
  options.timeout = timeout;
  EXPECT(sluice_group_make(worker->world, worker->codec, &options, &tensor, 1, &worker->group) ==
         SLUICE_OK);
  for (int i = 0; i < kCount; ++i) worker->values[i] = (float)(ranks[0] + 1);
}

static sluice_code reduce(Worker* worker, uint64_t step) {
  const sluice_entry job = {0, kCount, worker->values, worker->values};
  return sluice_group_reduce(worker->group, step, &job, 1);
}

static void drop(Worker* worker) {
  sluice_group_free(worker->group);
  sluice_world_free(worker->world);
  sluice_codec_free(worker->codec);
}

/* The mean of 1 … n is (n + 1) / 2, and stays so in later steps. */
static void expect_mean(const Worker* worker) {
  const float mean = (float)(sluice_world_workers(worker->world) + 1) / 2;
  for (int i = 0; i < kCount; ++i) EXPECT(worker->values[i] == mean);
}

static void average(void) {
  static Worker worker;
  make(&worker, 0);
  EXPECT(reduce(&worker, 0) == SLUICE_OK);
  expect_mean(&worker);
  drop(&worker);
}

static void expect_handler(MPI_Errhandler expected) {
  MPI_Errhandler found;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found);
  EXPECT(found == expected);
}

static void on_error(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
}

/* The error handler of MPI_COMM_WORLD is the program's. */
static void handlers(void) {
  MPI_Errhandler mine;
  MPI_Init(NULL, NULL);
  average();
  expect_handler(MPI_ERRORS_ARE_FATAL);
  MPI_Comm_create_errhandler(on_error, &mine);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
  average();
  expect_handler(mine);
  MPI_Finalize();
}

/* Sluice has initialised MPI; the program uses it all the same, and Sluice finalises it. */
static void uninitialised(void) {
  int is_initialised, rank, size, sum;
  average();
  MPI_Initialized(&is_initialised);
  EXPECT(is_initialised);
  expect_handler(MPI_ERRORS_ARE_FATAL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT(sum == size * (size - 1) / 2);
  average();
}

/* Nothing aborts after MPI_Finalize. */
static void finalized(void) {
  static Worker worker, idle;
  sluice_world* late;
  MPI_Init(NULL, NULL);
  make(&worker, 0);
  make(&idle, 0);
  EXPECT(reduce(&worker, 0) == SLUICE_OK);
  expect_mean(&worker);
  MPI_Finalize();
  EXPECT(reduce(&worker, 1) == SLUICE_UNAVAILABLE);
  EXPECT(says("MPI_Finalize has been called"));
  EXPECT(reduce(&worker, 2) == SLUICE_UNAVAILABLE);
  EXPECT(sluice_world_make("mpi", 0, 0, &late) == SLUICE_UNAVAILABLE);
  EXPECT(says("MPI_Finalize has been called"));
  drop(&worker);
  drop(&idle);
}

/* The first call of Sluice comes after MPI_Finalize. */
static void late(void) {
  sluice_world* world;
  MPI_Init(NULL, NULL);
  MPI_Finalize();
  EXPECT(sluice_world_make("mpi", 0, 0, &world) == SLUICE_UNAVAILABLE);
  EXPECT(says("MPI_Finalize has been called"));
}

static const char* level_name;
static Worker elsewhere;

static void* refused_in_a_thread(void* nothing) {
  sluice_world* world;
  (void)nothing;
  EXPECT(sluice_world_make("mpi", 0, 0, &world) == SLUICE_UNAVAILABLE);
  EXPECT(says(level_name) && says("MPI_THREAD_SERIALIZED"));
  EXPECT(reduce(&elsewhere, 1) == SLUICE_UNAVAILABLE);
  EXPECT(says(level_name) && says("MPI_THREAD_SERIALIZED"));
  drop(&elsewhere);
  return NULL;
}

static void* average_in_a_thread(void* nothing) {
  average();
  return nothing;
}

static void run_thread(void* (*body)(void*)) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, body, NULL) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
}

/* Below MPI_THREAD_SERIALIZED the thread that initialised MPI may average, and others are told. */
static void low_level(int level, const char* name) {
  int provided;
  level_name = name;
  if (level == MPI_THREAD_SINGLE) {
    MPI_Init(NULL, NULL);
  } else {
    MPI_Init_thread(NULL, NULL, level, &provided);
  }
  MPI_Query_thread(&provided);
  EXPECT(provided == level);
  average();
  make(&elsewhere, 0);
  EXPECT(reduce(&elsewhere, 0) == SLUICE_OK);
  expect_mean(&elsewhere);
  run_thread(refused_in_a_thread);
  average();
  MPI_Finalize();
}

static void serialized(void) {
  int provided;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
  run_thread(average_in_a_thread);
  average();
  MPI_Finalize();
}

static void* many_steps(void* worker) {
  for (uint64_t step = 0; step < 50; ++step) EXPECT(reduce(worker, step) == SLUICE_OK);
  expect_mean(worker);
  return NULL;
}

/* Two threads at the same time, with a world each. Who initialised MPI: us. */
static void two_threads(void) {
  static Worker workers[2];
  pthread_t threads[2];
  int level;
  for (int i = 0; i < 2; ++i) make(&workers[i], 0);
  MPI_Query_thread(&level);
  EXPECT(level == MPI_THREAD_MULTIPLE);
  for (int i = 0; i < 2; ++i) {
    EXPECT(pthread_create(&threads[i], NULL, many_steps, &workers[i]) == 0);
  }
  for (int i = 0; i < 2; ++i) EXPECT(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < 2; ++i) drop(&workers[i]);
}

/* Worlds come and go, two at a time, between messages of the program's own. */
static void many_worlds(void) {
  static Worker first, second;
  int rank, size, got;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 20; ++i) {
    MPI_Request request; /* in flight while we average; under tags that our messages have, too */
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    make(&first, 0);
    make(&second, 0);
    EXPECT(reduce(&second, 0) == SLUICE_OK);
    EXPECT(reduce(&first, 0) == SLUICE_OK);
    expect_mean(&first);
    expect_mean(&second);
    drop(&first);
    const int sent = 100 * i + rank;
    MPI_Send(&sent, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT(got == 100 * i + (rank + size - 1) % size);
    drop(&second);
  }
  MPI_Finalize();
}

/* Rank 1 leaves after a step; the others are told who is missing, and all end in peace. */
static void one_leaves(void) {
  static Worker worker;
  int rank;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  make(&worker, 2);
  EXPECT(reduce(&worker, 0) == SLUICE_OK);
  expect_mean(&worker);
  if (rank != 1) {
    EXPECT(reduce(&worker, 1) == SLUICE_TIMEOUT);
    EXPECT(says("workers: 1 "));
    EXPECT(reduce(&worker, 2) == SLUICE_UNAVAILABLE);
  }
  drop(&worker);
  MPI_Finalize();
}

/* Open MPI sees one process where the launcher claims more. */
static void alone(void) {
  sluice_world* world;
  EXPECT(sluice_world_make("mpi", 0, 0, &world) == SLUICE_UNAVAILABLE);
  EXPECT(says("PMI_SIZE says 4 workers") && says("alone"));
}

static void single(void) { low_level(MPI_THREAD_SINGLE, "MPI_THREAD_SINGLE"); }
static void funneled(void) { low_level(MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED"); }

static const struct {
  const char* name;
  void (*run)(void);
} kScenarios[] = {
    {"handlers", handlers},
    {"uninitialised", uninitialised},
    {"finalized", finalized},
    {"late", late},
    {"single", single},
    {"funneled", funneled},
    {"serialized", serialized},
    {"two_threads", two_threads},
    {"many_worlds", many_worlds},
    {"one_leaves", one_leaves},
    {"alone", alone},
};

int main(int argc, char** argv) {
  const char* const name = argc > 1 ? argv[1] : "";
  for (size_t i = 0; i < sizeof kScenarios / sizeof kScenarios[0]; ++i) {
    if (strcmp(name, kScenarios[i].name) != 0) continue;
    kScenarios[i].run();
    printf("content\n");
    return 0;
  }
  fprintf(stderr, "mpi_guest: no scenario '%s'\n", name);
  return 2;
}
