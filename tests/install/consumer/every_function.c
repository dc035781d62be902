/* Every function of sluice.h with NULL, 0 and numbers that are too large: each returns, with a code
 * and words, and what comes after it works. C99. CASE names the function that a line is about;
 * tests/install/covers looks whether every function of the headers has one, here or in
 * every_port.c. */
#include "cases.h"

static const uint64_t kHuge[] = {((uint64_t)1 << 40) + 1, (uint64_t)1 << 62, (uint64_t)1 << 63,
                                 UINT64_MAX};
enum { HUGES = 4 };

static void the_library(void) {
  size_t count = 7;
  CASE(sluice_version), is_true(strchr(sluice_version(), '.') != NULL);
  CASE(sluice_abi_version), is_true(sluice_abi_version() == SLUICE_ABI_VERSION);
  CASE(sluice_last_error), is_true(sluice_last_error() != NULL);
  CASE(sluice_check_environment), works(sluice_check_environment());
  CASE(sluice_kernel_level), is_true(sluice_kernel_level()[0] != '\0');
  CASE(sluice_codec_count), is_true(sluice_codec_count() > 0);
  CASE(sluice_codec_name), is_true(sluice_codec_name(SIZE_MAX) == NULL);
  CASE(sluice_codec_summary), is_true(sluice_codec_summary(SIZE_MAX) == NULL);
  CASE(sluice_codec_options), is_true(sluice_codec_options(SIZE_MAX, &count) == NULL && count == 0);
  is_true(sluice_codec_options(1, NULL) == NULL);
  CASE(sluice_carrier_count), is_true(sluice_carrier_count() > 0);
  CASE(sluice_carrier_name), is_true(sluice_carrier_name(SIZE_MAX) == NULL);
}

static void one_call(void) {
  const float* all[2];
  const float* holes[2] = {values, NULL};
  int i;
  all[0] = all[1] = values;
  CASE(sluice_reduce_local);
  refused(sluice_reduce_local(NULL, 2, COUNT, all, 0, 0, means), "codec is NULL");
  refused(sluice_reduce_local("f32", 0, COUNT, all, 0, 0, means), "workers is 0");
  refused(sluice_reduce_local("f32", UINT32_MAX, COUNT, all, 0, 0, means), "workers is 4294967295");
  refused(sluice_reduce_local("f32", 2, COUNT, NULL, 0, 0, means), "gradients is NULL");
  refused(sluice_reduce_local("f32", 2, COUNT, all, 0, 0, NULL), "mean is NULL");
  refused(sluice_reduce_local("f32", 2, COUNT, holes, 0, 0, means), "gradients[1] is NULL");
  refused(sluice_reduce_local("", 2, COUNT, all, 0, 0, means), "unknown codec");
  for (i = 0; i < HUGES; ++i) {
    refused(sluice_reduce_local("f32", 2, kHuge[i], all, 0, 0, means), "count is");
  }
  works(sluice_reduce_local("f32", 2, 0, all, 0, 0, NULL));
  works(sluice_reduce_local("f32", 2, COUNT, all, UINT64_MAX, UINT64_MAX, means));
}

static void out_of_memory(void) {
  const float* all[4096];
  int i;
  for (i = 0; i < 4096; ++i) all[i] = values;
  CASE(sluice_reduce_local);
  /* 2^54 bytes: more than any machine has addresses for. */
  is_code(sluice_reduce_local("f32", 4096, (uint64_t)1 << 40, all, 0, 0, means),
          SLUICE_OUT_OF_MEMORY);
  is_true(strstr(sluice_last_error(), "out of memory: 18014398509481984 bytes") != NULL);
}

static void halves(void) {
  uint16_t short_ones[4] = {0, 0, 0, 0};
  CASE(sluice_widen);
  refused(sluice_widen(NULL, short_ones, 4, values), "format 'NULL'");
  refused(sluice_widen("bf16", NULL, 4, values), "from is NULL");
  refused(sluice_widen("bf16", short_ones, 4, NULL), "to is NULL");
  refused(sluice_widen("bf16", short_ones, UINT64_MAX, values), "18446744073709551615 elements");
  works(sluice_widen("bf16", NULL, 0, NULL));
  CASE(sluice_shorten);
  refused(sluice_shorten("fp8", values, 4, short_ones), "format 'fp8'");
  refused(sluice_shorten("bf16", NULL, 4, short_ones), "from is NULL");
  refused(sluice_shorten("bf16", values, 4, NULL), "to is NULL");
  refused(sluice_shorten("bf16", values, kHuge[1], short_ones), "elements");
  works(sluice_shorten("fp16", values, 4, short_ones));
}

static sluice_codec* codecs(void) {
  sluice_codec* codec = NULL;
  sluice_traits traits = SLUICE_TRAITS_INIT;
  CASE(sluice_codec_make);
  refused(sluice_codec_make(NULL, &codec), "spec is NULL");
  refused(sluice_codec_make("f32", NULL), "codec is NULL");
  refused(sluice_codec_make("f32:f32:f32==,,", &codec), "f32");
  is_true(codec == NULL);
  works(sluice_codec_make("tide:bits=2", &codec));
  CASE(sluice_codec_spec), is_true(sluice_codec_spec(NULL) == NULL);
  CASE(sluice_codec_traits);
  refused(sluice_codec_traits(NULL, 2, &traits), "codec is NULL");
  refused(sluice_codec_traits(codec, 2, NULL), "traits is NULL");
  refused(sluice_codec_traits(codec, UINT32_MAX, &traits), "workers is 4294967295");
  works(sluice_codec_traits(codec, 2, &traits));
  is_true(traits.homomorphic == 1 && traits.size == sizeof traits);
  traits.size = 0;
  refused(sluice_codec_traits(codec, 2, &traits),
          "traits.size is 0; accepted: sizeof, which is 32");
  traits.size = SIZE_MAX;
  refused(sluice_codec_traits(codec, 2, &traits), "traits.size is 18446744073709551615");
  CASE(sluice_codec_free), sluice_codec_free(NULL);
  return codec;
}

static void groups_refuse(sluice_world* world, const sluice_codec* codec) {
  sluice_group* group = NULL;
  sluice_options options = SLUICE_OPTIONS_INIT;
  const sluice_tensor tensor = {1, 1, COUNT};
  const sluice_tensor twins[2] = {{1, 1, COUNT}, {1, 2, 2}};
  sluice_tensor large = {2, 0, 0};
  struct {
    sluice_options known;
    char more[16];
  } newer;
  int i;
  options.workers = 1;
  CASE(sluice_group_make);
  refused(sluice_group_make(NULL, codec, &options, &tensor, 1, &group), "world is NULL");
  refused(sluice_group_make(world, NULL, &options, &tensor, 1, &group), "codec is NULL");
  refused(sluice_group_make(world, codec, NULL, &tensor, 1, &group), "options is NULL");
  refused(sluice_group_make(world, codec, &options, NULL, 1, &group), "tensors is NULL");
  refused(sluice_group_make(world, codec, &options, &tensor, 1, NULL), "group is NULL");
  refused(sluice_group_make(world, codec, &options, &tensor, SIZE_MAX, &group),
          "tensors; accepted");
  refused(sluice_group_make(world, codec, &options, twins, 2, &group), "two tensors with id 1");
  for (i = 0; i < HUGES; ++i) {
    large.rows = large.cols = kHuge[i];
    refused(sluice_group_make(world, codec, &options, &large, 1, &group), "2^40");
  }
  large.rows = (uint64_t)1 << 20, large.cols = (uint64_t)1 << 20;
  options.feedback = "ef";
  is_code(sluice_group_make(world, codec, &options, &large, 1, &group), SLUICE_OUT_OF_MEMORY);
  is_true(strstr(sluice_last_error(), "4398046511104 bytes") != NULL);
  options.feedback = "no such";
  refused(sluice_group_make(world, codec, &options, &tensor, 1, &group), "no such");
  options.feedback = NULL;
  options.window = UINT32_MAX;
  refused(sluice_group_make(world, codec, &options, &tensor, 1, &group), "window");
  options.window = 5;
  refused(sluice_group_make(world, codec, &options, &tensor, 1, &group), "at most 4, as the world");
  options.window = 0, options.chunk = UINT32_MAX;
  refused(sluice_group_make(world, codec, &options, &tensor, 1, &group), "chunks of 4294967295");
  options.chunk = 0, options.timeout = -1;
  refused(sluice_group_make(world, codec, &options, &tensor, 1, &group), "timeout");
  options.timeout = 0, options.rank = UINT32_MAX;
  refused(sluice_group_make(world, codec, &options, &tensor, 1, &group), "rank 4294967295");
  options.rank = 0, options.size = 8;
  refused(sluice_group_make(world, codec, &options, &tensor, 1, &group), "options.size is 8");
  is_true(group == NULL);
  /* A caller of a newer version, with and without something that this one does not know. */
  memset(&newer, 0, sizeof newer);
  newer.known.size = sizeof newer, newer.known.workers = 1;
  works(sluice_group_make(world, codec, &newer.known, &tensor, 1, &group));
  CASE(sluice_group_free), sluice_group_free(group), sluice_group_free(NULL);
  newer.more[3] = 1;
  refused(sluice_group_make(world, codec, &newer.known, &tensor, 1, &group), "does not know");
}

static void groups_run(sluice_group* group) {
  const sluice_entry job = {0, COUNT, values, means};
  const sluice_entry twice[2] = {{0, COUNT, values, means}, {0, COUNT, values, means}};
  sluice_entry bad = {0, COUNT, values, means};
  uint32_t finished = 7;
  int i;
  CASE(sluice_group_advance), works(sluice_group_advance(group, &finished));
  is_true(finished == 1);
  refused(sluice_group_advance(NULL, &finished), "group is NULL");
  refused(sluice_group_advance(group, NULL), "finished is NULL");
  CASE(sluice_group_start), refused(sluice_group_start(NULL, 0, &job, 1), "group is NULL");
  CASE(sluice_group_reduce), refused(sluice_group_reduce(NULL, 0, &job, 1), "group is NULL");
  for (i = 0; i < 2; ++i) {
    sluice_code (*run)(sluice_group*, uint64_t, const sluice_entry*, size_t) =
        i == 0 ? sluice_group_start : sluice_group_reduce;
    refused(run(group, 0, NULL, 1), "entries is NULL");
    refused(run(group, 0, &job, SIZE_MAX), "entries; accepted");
    refused(run(group, 0, twice, 2), "entry 1: tensor 0 is twice");
    bad.tensor = UINT32_MAX;
    refused(run(group, 0, &bad, 1), "entry 0 does not fit: tensor 4294967295; accepted: below 1");
    bad.tensor = 0, bad.count = COUNT - 1;
    refused(run(group, 0, &bad, 1), "entry 0 does not fit: 999 coordinates");
    refused(run(group, 0, &bad, 1), "accepted: 1000, which is 1 x 1000");
    bad.count = UINT64_MAX;
    refused(run(group, 0, &bad, 1), "entries[0].count is 18446744073709551615");
    bad.count = COUNT, bad.gradient = NULL;
    refused(run(group, 0, &bad, 1), "entries[0].gradient is NULL");
    bad.gradient = values, bad.mean = NULL;
    refused(run(group, 0, &bad, 1), "entries[0].mean is NULL");
    bad.mean = means;
  }
  works(sluice_group_reduce(group, 0, NULL, 0));
  works(sluice_group_reduce(group, UINT64_MAX, &job, 1));
}

static void groups_save(sluice_group* group) {
  const sluice_entry job = {0, COUNT, values, means};
  sluice_stats stats = SLUICE_STATS_INIT;
  char* bytes;
  char small[3];
  size_t size = 0;
  uint32_t finished = 0;
  CASE(sluice_group_save);
  refused(sluice_group_save(NULL, NULL, 0, &size), "group is NULL");
  refused(sluice_group_save(group, NULL, 0, NULL), "size is NULL");
  refused(sluice_group_save(group, NULL, 1 << 20, &size), "NULL for 1048576 bytes");
  refused(sluice_group_save(group, small, sizeof small, &size), "room for 3 bytes");
  works(sluice_group_save(group, NULL, 0, &size));
  bytes = malloc(size);
  works(sluice_group_save(group, bytes, size, &size));
  CASE(sluice_group_load);
  refused(sluice_group_load(NULL, bytes, size), "group is NULL");
  refused(sluice_group_load(group, NULL, size), "bytes is NULL");
  is_code(sluice_group_load(group, bytes, 0), SLUICE_MALFORMED);
  /* In the middle of a step. */
  CASE(sluice_group_start), works(sluice_group_start(group, 5, &job, 1));
  refused(sluice_group_start(group, 5, &job, 1), "in flight");
  CASE(sluice_group_save), refused(sluice_group_save(group, bytes, size, &size), "in flight");
  CASE(sluice_group_load), refused(sluice_group_load(group, bytes, size), "in flight");
  while (!finished) works(sluice_group_advance(group, &finished));
  works(sluice_group_load(group, bytes, size));
  free(bytes);
  CASE(sluice_group_stats);
  refused(sluice_group_stats(NULL, &stats), "group is NULL");
  refused(sluice_group_stats(group, NULL), "stats is NULL");
  stats.size = 4;
  refused(sluice_group_stats(group, &stats), "stats.size is 4");
  stats.size = sizeof stats;
  works(sluice_group_stats(group, &stats));
}

static void worlds(sluice_codec* codec) {
  sluice_world* world = NULL;
  sluice_group* group = NULL;
  sluice_options options = SLUICE_OPTIONS_INIT;
  const sluice_tensor tensor = {1, 1, COUNT};
  const uint32_t* ranks = NULL;
  CASE(sluice_world_make);
  refused(sluice_world_make(NULL, 1, 0, &world), "carrier is NULL");
  refused(sluice_world_make("local", 1, 0, NULL), "world is NULL");
  refused(sluice_world_make("local", 0, 0, &world), "workers is 0");
  refused(sluice_world_make("local", UINT32_MAX, 0, &world), "4294967295 workers");
  refused(sluice_world_make("local", 1, UINT32_MAX, &world), "window 4294967295");
  refused(sluice_world_make("", 1, 0, &world), "carrier");
  works(sluice_world_make("local", 1, 0, &world));
  CASE(sluice_world_workers), is_true(sluice_world_workers(NULL) == 0);
  CASE(sluice_world_here), is_true(sluice_world_here(NULL, &ranks) == 0);
  is_true(sluice_world_here(world, NULL) == 0);
  groups_refuse(world, codec);
  options.workers = 1, options.feedback = "ef";
  works(sluice_group_make(world, codec, &options, &tensor, 1, &group));
  /* In the wrong order: the group goes on. */
  CASE(sluice_world_free), sluice_world_free(world), sluice_world_free(NULL);
  groups_run(group);
  groups_save(group);
  sluice_group_free(group);
}

static void memories_choose(sluice_memory* memory, const sluice_codec* codec) {
  const sluice_tensor tensor = {4, 1, COUNT};
  const uint32_t both[2] = {0, 1}, bad = UINT32_MAX;
  sluice_codec* exact = NULL;
  works(sluice_codec_make("f32", &exact));
  CASE(sluice_memory_add_rows);
  refused(sluice_memory_add_rows(NULL, exact, &tensor, 1), "memory is NULL");
  refused(sluice_memory_add_rows(memory, NULL, &tensor, 1), "codec is NULL");
  refused(sluice_memory_add_rows(memory, exact, NULL, 1), "tensors is NULL");
  refused(sluice_memory_add_rows(memory, exact, &tensor, SIZE_MAX), "tensors; accepted");
  works(sluice_memory_add_rows(memory, exact, &tensor, 1));
  CASE(sluice_memory_choose);
  refused(sluice_memory_choose(NULL, both, 2, exact), "memory is NULL");
  refused(sluice_memory_choose(memory, NULL, 2, exact), "tensors is NULL");
  refused(sluice_memory_choose(memory, both, 2, NULL), "codec is NULL");
  refused(sluice_memory_choose(memory, &bad, 1, exact), "tensor 4294967295; accepted: below 3");
  refused(sluice_memory_choose(memory, both, SIZE_MAX, exact), "2^40");
  works(sluice_memory_choose(memory, both, 2, exact));
  CASE(sluice_memory_spec), is_true(sluice_memory_spec(NULL, 0) == NULL);
  is_true(sluice_memory_spec(memory, UINT32_MAX) == NULL);
  is_true(strcmp(sluice_memory_spec(memory, 1), "f32") == 0);
  CASE(sluice_memory_resumes), refused(sluice_memory_resumes(NULL, 0, "f32"), "memory is NULL");
  refused(sluice_memory_resumes(memory, 0, NULL), "spec is NULL");
  refused(sluice_memory_resumes(memory, 9, "f32"), "tensor 9");
  works(sluice_memory_resumes(memory, 0, "f32"));
  works(sluice_memory_choose(memory, both, 2, codec));
  is_code(sluice_memory_resumes(memory, 0, "f32"), SLUICE_MISMATCH);
  sluice_codec_free(exact); /* which the memory still has */
}

static void memories_keep(sluice_memory* memory) {
  float* residual = NULL;
  void* state = NULL;
  uint64_t count = 0;
  size_t size = 0;
  CASE(sluice_memory_kept_name), is_true(sluice_memory_kept_name(NULL, 0) == NULL);
  is_true(strcmp(sluice_memory_kept_name(memory, 0), "residual") == 0);
  is_true(sluice_memory_kept_name(memory, UINT32_MAX) == NULL);
  CASE(sluice_memory_kept);
  refused(sluice_memory_kept(NULL, 0, 0, &residual, &count), "memory is NULL");
  refused(sluice_memory_kept(memory, 0, 0, NULL, &count), "values is NULL");
  refused(sluice_memory_kept(memory, 0, 0, &residual, NULL), "count is NULL");
  refused(sluice_memory_kept(memory, 3, 0, &residual, &count), "tensor 3; accepted: below 3");
  works(sluice_memory_kept(memory, 0, UINT32_MAX, &residual, &count));
  is_true(residual == NULL && count == 0);
  CASE(sluice_memory_state);
  refused(sluice_memory_state(NULL, 0, &state, &size), "memory is NULL");
  refused(sluice_memory_state(memory, 0, NULL, &size), "state is NULL");
  refused(sluice_memory_state(memory, 0, &state, NULL), "size is NULL");
  refused(sluice_memory_state(memory, UINT32_MAX, &state, &size), "tensor 4294967295");
  CASE(sluice_memory_model);
  refused(sluice_memory_model(NULL, "f32", &state, &size), "memory is NULL");
  refused(sluice_memory_model(memory, NULL, &state, &size), "spec is NULL");
  refused(sluice_memory_model(memory, "f32", NULL, &size), "model is NULL");
  refused(sluice_memory_model(memory, "f32", &state, NULL), "size is NULL");
  refused(sluice_memory_model(memory, "no such", &state, &size), "codec 'no such'");
  works(sluice_memory_model(memory, sluice_memory_spec(memory, 0), &state, &size));
}

static void memories_save(sluice_memory* memory) {
  char small[3];
  size_t size = 0;
  sluice_saved saved = {NULL, 0};
  CASE(sluice_memory_save);
  refused(sluice_memory_save(NULL, NULL, 0, &size), "memory is NULL");
  refused(sluice_memory_save(memory, NULL, 0, NULL), "size is NULL");
  refused(sluice_memory_save(memory, NULL, 1 << 20, &size), "NULL for 1048576 bytes");
  refused(sluice_memory_save(memory, small, sizeof small, &size), "room for 3 bytes");
  works(sluice_memory_save(memory, NULL, 0, &size));
  void* bytes = malloc(size);
  works(sluice_memory_save(memory, bytes, size, &size));
  CASE(sluice_memory_load);
  refused(sluice_memory_load(memory, &saved, 1, 0, 0), "saved[0].bytes is NULL");
  saved.bytes = bytes;
  is_code(sluice_memory_load(memory, &saved, 1, 0, 0), SLUICE_MALFORMED);
  saved.size = size;
  refused(sluice_memory_load(NULL, &saved, 1, 0, 0), "memory is NULL");
  refused(sluice_memory_load(memory, NULL, 1, 0, 0), "saved is NULL");
  refused(sluice_memory_load(memory, &saved, 0, 0, 0), "0 states; accepted: 1 to 2^24");
  refused(sluice_memory_load(memory, &saved, SIZE_MAX, 0, 0), "states; accepted");
  refused(sluice_memory_load(memory, &saved, 1, 4, 0), "first 4 and grows 0; accepted: at most 3");
  refused(sluice_memory_load(memory, &saved, 1, 0, 2), "grows 2");
  works(sluice_memory_load(memory, &saved, 1, 0, 0));
  works(sluice_memory_load(memory, &saved, 1, 3, 1));
  free(bytes);
}

static void memories(const sluice_codec* codec) {
  sluice_memory* memory = NULL;
  sluice_options options = SLUICE_OPTIONS_INIT;
  sluice_tensor tensor = {2, 1, COUNT};
  options.workers = 1;
  CASE(sluice_memory_make);
  refused(sluice_memory_make(NULL, &memory), "options is NULL");
  refused(sluice_memory_make(&options, NULL), "memory is NULL");
  options.workers = UINT32_MAX;
  refused(sluice_memory_make(&options, &memory), "4294967295 workers");
  options.workers = 1, options.window = 4;
  refused(sluice_memory_make(&options, &memory), "window 4");
  options.window = 0, options.feedback = "ef";
  works(sluice_memory_make(&options, &memory));
  CASE(sluice_memory_add);
  refused(sluice_memory_add(NULL, codec, &tensor, 1), "memory is NULL");
  refused(sluice_memory_add(memory, NULL, &tensor, 1), "codec is NULL");
  refused(sluice_memory_add(memory, codec, NULL, 1), "tensors is NULL");
  refused(sluice_memory_add(memory, codec, &tensor, SIZE_MAX), "tensors; accepted");
  works(sluice_memory_add(memory, codec, &tensor, 1));
  refused(sluice_memory_add(memory, codec, &tensor, 1), "two tensors with id 2");
  tensor.id = 3, tensor.rows = (uint64_t)1 << 40, tensor.cols = 1;
  is_code(sluice_memory_add(memory, codec, &tensor, 1), SLUICE_OUT_OF_MEMORY);
  tensor.rows = 3; /* nothing was left of the attempt */
  works(sluice_memory_add(memory, codec, &tensor, 1));
  memories_choose(memory, codec);
  memories_keep(memory);
  memories_save(memory);
  CASE(sluice_memory_end_step), refused(sluice_memory_end_step(NULL), "memory is NULL");
  works(sluice_memory_end_step(memory));
  CASE(sluice_memory_undo_step), refused(sluice_memory_undo_step(NULL), "memory is NULL");
  refused(sluice_memory_undo_step(memory), "keep_before");
  CASE(sluice_memory_shorten);
  refused(sluice_memory_shorten(NULL, 0, "bf16", values, 4, means), "memory is NULL");
  refused(sluice_memory_shorten(memory, 9, "bf16", values, 4, means), "tensor 9");
  refused(sluice_memory_shorten(memory, 0, NULL, values, COUNT, means), "format 'NULL'");
  refused(sluice_memory_shorten(memory, 0, "bf16", NULL, COUNT, means), "mean is NULL");
  refused(sluice_memory_shorten(memory, 0, "bf16", values, COUNT, NULL), "halves is NULL");
  refused(sluice_memory_shorten(memory, 2, "bf16", values, UINT64_MAX, means), "2^40");
  CASE(sluice_memory_pay), refused(sluice_memory_pay(NULL, 0, values, COUNT), "memory is NULL");
  refused(sluice_memory_pay(memory, 9, values, COUNT), "tensor 9");
  refused(sluice_memory_pay(memory, 0, values, 1), "count is 1");
  refused(sluice_memory_pay(memory, 0, NULL, COUNT), "gradient is NULL");
  works(sluice_memory_pay(memory, 0, means, COUNT));
  CASE(sluice_memory_chunk), is_true(sluice_memory_chunk(NULL, 0) == 0);
  is_true(sluice_memory_chunk(memory, UINT32_MAX) == 0);
  CASE(sluice_memory_free), sluice_memory_free(memory), sluice_memory_free(NULL);
}

static void exchanges(const sluice_codec* codec) {
  sluice_memory* memory = NULL;
  sluice_exchange* exchange = NULL;
  sluice_round* rounds = NULL;
  size_t count = 0;
  sluice_options options = SLUICE_OPTIONS_INIT;
  const sluice_tensor tensors[2] = {{1, 1, COUNT}, {2, 0, 7}};
  options.workers = 1;
  works(sluice_memory_make(&options, &memory));
  works(sluice_memory_add(memory, codec, tensors, 2));
  CASE(sluice_exchange_begin);
  refused(sluice_exchange_begin(NULL, 0, 0, 0, COUNT, values, means, &exchange), "memory is NULL");
  refused(sluice_exchange_begin(memory, 0, 9, 0, COUNT, values, means, &exchange), "tensor 9");
  refused(sluice_exchange_begin(memory, 0, 0, 0, COUNT, NULL, means, &exchange),
          "gradient is NULL");
  refused(sluice_exchange_begin(memory, 0, 0, 0, COUNT, values, NULL, &exchange), "mean is NULL");
  refused(sluice_exchange_begin(memory, 0, 0, 0, COUNT, values, means, NULL), "exchange is NULL");
  refused(sluice_exchange_begin(memory, 0, 0, UINT64_MAX, COUNT, values, means, &exchange),
          "chunks of");
  refused(sluice_exchange_begin(memory, 0, 0, 0, UINT64_MAX, values, means, &exchange),
          "chunks of");
  refused(sluice_exchange_begin(memory, 0, 1, 0, 0, values, means, &exchange), "chunks of");
  works(sluice_exchange_begin(memory, 0, 0, 0, COUNT, values, means, &exchange));
  CASE(sluice_memory_add), refused(sluice_memory_add(memory, codec, tensors, 1), "in flight");
  CASE(sluice_exchange_next);
  refused(sluice_exchange_next(NULL, &rounds, &count), "exchange is NULL");
  refused(sluice_exchange_next(exchange, NULL, &count), "rounds is NULL");
  refused(sluice_exchange_next(exchange, &rounds, NULL), "round_count is NULL");
  works(sluice_exchange_next(exchange, &rounds, &count));
  rounds[0].down_size = SIZE_MAX;
  refused(sluice_exchange_next(exchange, &rounds, &count), "down_size is 18446744073709551615");
  sluice_memory_free(memory); /* before its exchange */
  CASE(sluice_exchange_free), sluice_exchange_free(exchange), sluice_exchange_free(NULL);
}

static void reductions(void) {
  sluice_reduction what;
  const uint32_t ones[2] = {1, 1};
  const void* ups[2];
  const void* holes[2] = {NULL, NULL};
  const size_t sizes[2] = {8, 8};
  uint32_t down[2];
  size_t size = 0;
  ups[0] = ups[1] = ones;
  memset(&what, 0, sizeof what);
  CASE(sluice_answer_size_max), is_true(sluice_answer_size_max(NULL, 2) == 0);
  what.op = 1, what.bits = 32, what.count = 2;
  is_true(sluice_answer_size_max(&what, 0) == 0);
  is_true(sluice_answer_size_max(&what, UINT32_MAX) == 0);
  CASE(sluice_combine);
  refused(sluice_combine(NULL, 2, ups, sizes, down, 8, &size), "what is NULL");
  refused(sluice_combine(&what, 0, ups, sizes, down, 8, &size), "0 workers");
  refused(sluice_combine(&what, 2, NULL, sizes, down, 8, &size), "ups is NULL");
  refused(sluice_combine(&what, 2, holes, sizes, down, 8, &size), "ups[0] is NULL");
  refused(sluice_combine(&what, 2, ups, NULL, down, 8, &size), "up_sizes is NULL");
  refused(sluice_combine(&what, 2, ups, sizes, NULL, 8, &size), "down is NULL");
  refused(sluice_combine(&what, 2, ups, sizes, down, 7, &size), "down has 7 bytes");
  refused(sluice_combine(&what, 2, ups, sizes, down, 8, NULL), "down_size is NULL");
  works(sluice_combine(&what, 2, ups, sizes, down, 8, &size));
  what.table_count = 4;
  refused(sluice_combine(&what, 2, ups, sizes, down, 8, &size), "what.table is NULL");
  what.table_count = 0, what.op = UINT32_MAX;
  refused(sluice_combine(&what, 2, ups, sizes, down, 8, &size), "op 4294967295");
  what.op = 0, what.count = UINT32_MAX, what.bits = UINT32_MAX;
  refused(sluice_combine(&what, 2, ups, sizes, down, 8, &size), "4294967295 bits");
}

int main(void) {
  int i;
  sluice_codec* codec;
  for (i = 0; i < COUNT; ++i) values[i] = (float)(i % 17) - 8;
  the_library();
  one_call();
  out_of_memory();
  halves();
  codec = codecs();
  worlds(codec);
  memories(codec);
  exchanges(codec);
  reductions();
  sluice_codec_free(codec);
  printf("C: %d calls with NULL, 0 and too much, and the process goes on\n", cases);
  return 0;
}
