/* Sluice: averages gradients that travel compressed and are summed while compressed.
 *
 * C99. There are four ways to use it, from the simplest to the most open:
 *
 *   sluice_reduce_local    all workers of a job are arrays of this process; one call
 *   sluice_world, _group   one of our carriers (local, mpi) runs the rounds between the workers
 *   sluice_memory, _port   buckets of tensors over aggregators, or over collectives of the caller's
 *   and _queue             own (a framework's process group), from several threads
 *   sluice_exchange        one chunk's trip as bare rounds, for callers that reduce them themselves
 *                          (rounds.h, which is included here)
 *
 * Functions return SLUICE_OK or another sluice_code, each listed at the function; the text of the
 * calling thread's last error is sluice_last_error(). Outputs are written only on success.
 *
 * Whatever is handed over, and when memory runs out, a function returns: nothing is thrown and the
 * process is not ended. Every function may return SLUICE_OUT_OF_MEMORY; objects are then as they
 * were, or dead where a function says that errors kill them. A NULL that a function does not allow
 * is SLUICE_INVALID_ARGUMENT, with the argument's name; functions that return something else return
 * 0 or NULL then, or do nothing. Numbers and pointers that are not NULL must be true, of course.
 *
 * An object belongs to one thread at a time; a codec to any number. Objects may be freed in any
 * order, NULL too: what others still use is kept until they are freed.
 *
 * Structs that begin with `size` may grow in later versions. The caller sets it, by the struct's
 * _INIT macro or as sizeof, in structs that are filled by a function, too: of those no more bytes
 * are written. Other structs never change.
 */
#ifndef SLUICE_SLUICE_H_
#define SLUICE_SLUICE_H_

#include <sluice/code.h>
#include <sluice/rounds.h>
#include <sluice/saved.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of libsluice.so, too: programs that were linked with another one do not load it. */
#define SLUICE_ABI_VERSION 7

/* The library's version, "0.1.0". Static storage. */
const char* sluice_version(void);

/* The SLUICE_ABI_VERSION the library was built with. */
uint32_t sluice_abi_version(void);

/* The calling thread's last error as one line, "" if none. Valid until the thread's next call. */
const char* sluice_last_error(void);

/* Whether the library's environment variables can be used; it goes on without those that cannot.
 * SLUICE_INVALID_ARGUMENT: SLUICE_FORCE_KERNEL names no level of this processor. */
sluice_code sluice_check_environment(void);

/* The level of the kernels that run here: "scalar", "avx2", "avx512". Static storage. */
const char* sluice_kernel_level(void);

/* The catalogue's codecs and carriers. Names are static storage, NULL if index >= count. */
size_t sluice_codec_count(void);
const char* sluice_codec_name(size_t index);
size_t sluice_carrier_count(void);
const char* sluice_carrier_name(size_t index);

/* Averages `workers` gradients of `count` float32 each with a codec SPEC such as "f32" or
 * "fixed:block=64", as that many workers would. `step` and `seed` name all randomness.
 * `mean` holds `count` floats and may be one of the gradients.
 * SLUICE_INVALID_ARGUMENT: null pointers, 0 or more than 4096 workers, more than 2^40 coordinates,
 * unknown codec or option. SLUICE_UNAVAILABLE: up to 64 workers have a thread each, and the system
 * gives no more. SLUICE_TIMEOUT: some have not come in 60 seconds. SLUICE_FAILED: anything else.
 */
sluice_code sluice_reduce_local(const char* codec, uint32_t workers, uint64_t count,
                                const float* const* gradients, uint64_t seed, uint64_t step,
                                float* mean);

/* ---- Codecs ------------------------------------------------------------------------------- */

typedef struct sluice_codec sluice_codec;

typedef struct sluice_traits {
  size_t size;          /* sizeof(sluice_traits) */
  uint32_t homomorphic; /* values are summed by exact integer rounds, never decoded on the way */
  uint32_t lossless;
  uint32_t unbiased;
  uint32_t quorum;   /* right with any set of contributors */
  uint32_t feedback; /* 0: error feedback would diverge or lose something and is refused */
  uint32_t reserved; /* 0 */
} sluice_traits;
#define SLUICE_TRAITS_INIT {sizeof(sluice_traits), 0, 0, 0, 0, 0, 0}

/* A codec from its SPEC. SLUICE_INVALID_ARGUMENT: unknown name, option or value. */
sluice_code sluice_codec_make(const char* spec, sluice_codec** codec);
void sluice_codec_free(sluice_codec* codec);
/* The canonical SPEC: name, then the options that are not at their default. Lives as the codec. */
const char* sluice_codec_spec(const sluice_codec* codec);
/* SLUICE_INVALID_ARGUMENT: 0 or more than 4096 workers. */
sluice_code sluice_codec_traits(const sluice_codec* codec, uint32_t workers, sluice_traits* traits);

typedef struct sluice_device sluice_device; /* a GPU: device.h */

/* ---- Options and figures shared by groups and memories ------------------------------------ */

typedef struct sluice_options {
  size_t size;          /* sizeof(sluice_options) */
  uint32_t rank;        /* of this worker */
  uint32_t workers;     /* 1 to 4096 */
  uint64_t seed;        /* of all randomness, the same on every rank */
  const char* feedback; /* SPEC: "none", "ef", "dgc:momentum=0.9"; NULL: none */
  uint32_t chunk;       /* coordinates per chunk, fitted to the codec; 0: 65536 */
  uint32_t window;      /* chunks in flight, of a group; 0: as many as the world has */
  double timeout;       /* seconds a group waits for others; 0: 60 */
  uint32_t keep_before; /* 1: sluice_memory_undo_step works, for a copy of feedback's memories */
  uint32_t reserved;    /* 0 */
  const sluice_device* device; /* of a memory: its buckets lie there (device.h). NULL: host */
} sluice_options;
#define SLUICE_OPTIONS_INIT {sizeof(sluice_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* One parameter's gradient. The id survives bucket rebuilds and restarts and is the same on every
 * rank; two tensors of a group or memory have different ids. At most 2^40 coordinates. */
typedef struct sluice_tensor {
  uint64_t id;
  uint64_t rows;
  uint64_t cols;
} sluice_tensor;

/* One tensor of a step or bucket; the mean may be the gradient's own memory. `tensor` is the index
 * of the tensor, `count` its coordinates, or those of the rows that a tensor of
 * sluice_memory_add_rows brings. */
typedef struct sluice_entry {
  uint32_t tensor;
  uint64_t count;
  const float* gradient;
  float* mean;
} sluice_entry;
typedef sluice_entry sluice_job; /* its former name, for programs written before version 0.2 */

typedef struct sluice_stats {
  size_t size; /* sizeof(sluice_stats) */
  uint64_t rounds;
  uint64_t bytes_up;   /* payload of rounds, as a codec sends it */
  uint64_t bytes_down;
  uint64_t chunks;
  double encode_seconds;
  double decode_seconds;
} sluice_stats;
#define SLUICE_STATS_INIT {sizeof(sluice_stats), 0, 0, 0, 0, 0, 0}

/* ---- Groups: our carriers run the rounds -------------------------------------------------- */

/* The workers of a job that live in this process: all of them on "local", one on "mpi". */
typedef struct sluice_world sluice_world;

/* `workers` must be what the launcher started on a carrier between processes; 0: take that.
 * `window` is the most that its groups have, 1 to 1024; 0: 4. SLUICE_INVALID_ARGUMENT: unknown
 * carrier, bad numbers; on "local" also more than 131072 workers times window.
 * SLUICE_UNAVAILABLE: the carrier's library is missing or the launcher did not start this process.
 * SLUICE_TIMEOUT: on "mpi", where all workers make the world together, some did not come. */
sluice_code sluice_world_make(const char* carrier, uint32_t workers, uint32_t window,
                              sluice_world** world);
void sluice_world_free(sluice_world* world);
uint32_t sluice_world_workers(const sluice_world* world);
/* Ranks that live here, ascending; `ranks` lives as the world. */
size_t sluice_world_here(const sluice_world* world, const uint32_t** ranks);

typedef struct sluice_group sluice_group;

/* One worker's group. options->workers must be the world's, options->rank one that is here. A rank
 * may have several groups, but a step in flight in one of them at a time: others would use the same
 * end of the carrier, and get SLUICE_FAILED.
 * SLUICE_INVALID_ARGUMENT: that, a codec that refuses the tensors or feedback, an id twice. */
sluice_code sluice_group_make(sluice_world* world, const sluice_codec* codec,
                              const sluice_options* options, const sluice_tensor* tensors,
                              size_t tensor_count, sluice_group** group);
void sluice_group_free(sluice_group* group);

/* Averages the entries of a step; blocks. Every rank hands over the same tensors in the same order.
 * SLUICE_INVALID_ARGUMENT: an entry that does not fit its tensor, a tensor twice, a step in flight;
 * the group is as it was. SLUICE_TIMEOUT, SLUICE_MISMATCH, SLUICE_MALFORMED, SLUICE_FAILED: the
 * group is dead then; chunks that were done keep their effect, the others have none.
 * SLUICE_UNAVAILABLE: the group is dead. SLUICE_OUT_OF_MEMORY: it is dead, unless memory was
 * refused before the step began; then the next call does not return SLUICE_UNAVAILABLE. */
sluice_code sluice_group_reduce(sluice_group* group, uint64_t step, const sluice_entry* entries,
                                size_t entry_count);

/* The same without blocking: start, then advance until *finished is 1, as it is when no step is in
 * flight. Codes as above, but start sends nothing and leaves the group as it was, also where it
 * returns SLUICE_OUT_OF_MEMORY; advance returns no SLUICE_INVALID_ARGUMENT but for a NULL. */
sluice_code sluice_group_start(sluice_group* group, uint64_t step, const sluice_entry* entries,
                               size_t entry_count);
sluice_code sluice_group_advance(sluice_group* group, uint32_t* finished);

sluice_code sluice_group_stats(const sluice_group* group, sluice_stats* stats);

/* Codec state, model state and feedback's memories, between steps. sluice_group_save writes at
 * most `capacity` bytes and sets *size to what is needed: call it with capacity 0 and NULL first.
 * SLUICE_INVALID_ARGUMENT: too little capacity (*size is set), a step in flight. Load:
 * SLUICE_MALFORMED (damaged bytes), SLUICE_MISMATCH (another feedback, rank, worker count or list
 * of tensors; the message has both); nothing has changed then. Of what another codec saved, codec
 * state starts anew, and feedback's memories come back. */
sluice_code sluice_group_save(const sluice_group* group, void* bytes, size_t capacity,
                              size_t* size);
sluice_code sluice_group_load(sluice_group* group, const void* bytes, size_t size);

/* ---- Memories: what a worker keeps between steps ------------------------------------------ */

/* What one worker keeps between steps. */
typedef struct sluice_memory sluice_memory;

/* SLUICE_INVALID_ARGUMENT: bad numbers, a window or timeout, which are of groups. */
sluice_code sluice_memory_make(const sluice_options* options, sluice_memory** memory);
void sluice_memory_free(sluice_memory* memory);

/* More tensors, between steps, the same on every rank; they are numbered in this order, from 0, and
 * travel through the codec until sluice_memory_choose gives them another. With feedback, those of a
 * codec other than f32 keep memories from then on. SLUICE_INVALID_ARGUMENT: more than 2^40
 * coordinates, an id that is there already, a codec that refuses feedback or its tensors, a bucket
 * or exchange in flight; nothing has changed then. */
sluice_code sluice_memory_add(sluice_memory* memory, const sluice_codec* codec,
                              const sluice_tensor* tensors, size_t count);
/* Tensors whose entries bring some of their rows, as many as the step has, the same on every rank:
 * such as the rows of a table that any rank has touched. They keep nothing between steps.
 * SLUICE_INVALID_ARGUMENT: as above, but feedback does not matter; a codec that keeps memory of a
 * model (tide). */
sluice_code sluice_memory_add_rows(sluice_memory* memory, const sluice_codec* codec,
                                   const sluice_tensor* tensors, size_t count);
/* Another codec for some tensors, between steps, the same on every rank. What feedback keeps of
 * them stays, and f32 sends all of it. Codec state of tensors that had another codec starts anew,
 * and so does the model's of codecs that they leave and come to. SLUICE_INVALID_ARGUMENT: no such
 * tensor, or as above, also for a codec that refuses those it is left with; nothing has changed. */
sluice_code sluice_memory_choose(sluice_memory* memory, const uint32_t* tensors, size_t count,
                                 const sluice_codec* codec);

/* The canonical SPEC of a tensor's codec, where options that follow the feedback ("auto") have
 * their meaning; NULL: no such tensor. Lives as the memory. */
const char* sluice_memory_spec(const sluice_memory* memory, uint32_t tensor);
/* Whether codec state that was saved under a SPEC fits a tensor's codec: the same, with the same
 * options but for those that only say what is sent. SLUICE_MISMATCH: it does not. */
sluice_code sluice_memory_resumes(const sluice_memory* memory, uint32_t tensor, const char* spec);

/* Names of feedback's memories, from 0, the "residual"; NULL behind the last. Static storage. */
const char* sluice_memory_kept_name(const sluice_memory* memory, uint32_t which);
/* Between steps; to read, or to restore what was read from an equal memory: one of feedback's
 * memories of a tensor (count floats; NULL and 0 where there is none), the codec state of a tensor,
 * and the model state of the codec with a SPEC of sluice_memory_spec (bytes, maybe 0). Floats of a
 * memory on a device are to be read alone. SLUICE_INVALID_ARGUMENT: no such tensor or SPEC. */
sluice_code sluice_memory_kept(sluice_memory* memory, uint32_t tensor, uint32_t which,
                               float** values, uint64_t* count);
sluice_code sluice_memory_state(sluice_memory* memory, uint32_t tensor, void** state, size_t* size);
sluice_code sluice_memory_model(sluice_memory* memory, const char* spec, void** model,
                                size_t* size);

/* A tensor's step in a job of one worker, which sends nothing: the gradient becomes what its codec
 * would be given, with what feedback kept, as if all of that was sent. What is not finite enters no
 * memory. SLUICE_INVALID_ARGUMENT: more workers, no such tensor, not its number of coordinates, a
 * memory on a device unless the tensor brings rows. */
sluice_code sluice_memory_pay(sluice_memory* memory, uint32_t tensor, float* gradient,
                              uint64_t count);

/* After all buckets of a step, on every rank. Undo: the step's means were thrown away (a loss
 * scaler skipped it), so what feedback keeps becomes what it was; SLUICE_INVALID_ARGUMENT without
 * options.keep_before, and of both with a bucket or exchange in flight. SLUICE_FAILED: a device. */
sluice_code sluice_memory_end_step(sluice_memory* memory);
sluice_code sluice_memory_undo_step(sluice_memory* memory);

/* After a tensor's mean is there and before the step ends: the mean as half-width floats, and, with
 * feedback, what the rounding lost into the residual, unless that is Inf or NaN. Every rank keeps
 * the whole of it, since it is missing from the mean and not from one rank's share. Tensors without
 * a residual keep nothing. Several threads may call it, each for a tensor of its own.
 * SLUICE_INVALID_ARGUMENT: another format than sluice_shorten's, no such tensor, a count that is
 * not the tensor's, or a memory on a device, unless it brings rows. */
sluice_code sluice_memory_shorten(sluice_memory* memory, uint32_t tensor, const char* format,
                                  const float* mean, uint64_t count, void* halves);

/* ---- Buckets: tensors that are handed over at once ---------------------------------------- */

typedef struct sluice_order {
  size_t size;     /* sizeof(sluice_order) */
  uint64_t step;
  uint64_t number; /* of the bucket, over the whole job; the same on every rank. Queues count by
                      themselves, from 0 */
  uint32_t digest; /* 1: the digest of the means is filled */
  uint32_t probe;  /* number of the probe, from 1, the same on every rank; 0: none. Some blocks of
                      256 coordinates then also travel exactly, to measure the error: of every
                      tensor one of 32, at least one; they take turns by the number */
  uint32_t on_device; /* 1: entries are on the memory's device (device.h); no digest, no probe */
  uint32_t format;    /* of what lies there: 0 float32, 1 bfloat16, 2 IEEE half */
  void* ready; /* a cudaEvent_t after which gradients are there; lives until they are. NULL: none */
} sluice_order;
#define SLUICE_ORDER_INIT {sizeof(sluice_order), 0, 0, 0, 0, 0, 0, 0} /* no digest, no probe */

/* Of a bucket that is finished. */
typedef struct sluice_report {
  size_t size;         /* sizeof(sluice_report) */
  uint64_t digest;     /* of the means; adds up over buckets modulo 2^64 */
  uint64_t infinite;   /* coordinates of the means that are Inf or NaN */
  uint64_t rounds;     /* from here on as in sluice_stats, of this bucket */
  uint64_t bytes_up;
  uint64_t bytes_down;
  uint64_t chunks;
  double encode_seconds;
  double decode_seconds;
} sluice_report;
#define SLUICE_REPORT_INIT {sizeof(sluice_report), 0, 0, 0, 0, 0, 0, 0, 0}

/* What a probe found out about a tensor; all but `blocks` as estimates for the whole tensor. They
 * add up over buckets, and over probes: after 32 probes every block has had the same weight. */
typedef struct sluice_probe {
  uint32_t tensor;
  uint64_t blocks;     /* of 256 coordinates, that were looked at */
  uint64_t live;       /* blocks whose exact mean is not all zero */
  uint64_t silent;     /* of the live ones: whose mean came back as zeros */
  double error_energy; /* |mean - exact mean|^2 … */
  double exact_energy; /* … and |exact mean|^2 */
} sluice_probe;

/* ---- Aggregators and ports: one worker's end of a carrier --------------------------------- */

/* What sums for the workers of a job, on threads of its own. */
typedef struct sluice_aggregator sluice_aggregator;

/* At UDP addresses such as "10.0.0.1:0" (any port), comma separated, a thread for each.
 * SLUICE_INVALID_ARGUMENT: no addresses. SLUICE_UNAVAILABLE, SLUICE_FAILED: they cannot be had. */
sluice_code sluice_aggregator_start(const char* addresses, sluice_aggregator** aggregator);
/* Where it listens, with the ports that were given, comma separated. Lives as long as it does. */
const char* sluice_aggregator_addresses(const sluice_aggregator* aggregator);
/* Ends it when the workers of all its jobs have left, or after `patience` seconds. */
void sluice_aggregator_free(sluice_aggregator* aggregator, double patience);

/* One worker's end of a carrier; rank and workers are the memory's. */
typedef struct sluice_port sluice_port;

/* Over aggregators. Joins the job and returns when all workers have: they call it at the same time,
 * with the same aggregators (comma separated, in the same order), job and window, which is how many
 * chunks are on their way at a time. SLUICE_TIMEOUT: after `timeout` seconds, which buckets take at
 * most, too; the message names who is missing. SLUICE_MISMATCH: workers that do not want the same.
 * `bell` is a descriptor that outlives the port, such as an eventfd, or -1. Once it is readable,
 * opening and running end with SLUICE_UNAVAILABLE instead of waiting: for a thread that learns that
 * another worker has died. */
sluice_code sluice_port_open(sluice_memory* memory, const char* aggregators, uint64_t job,
                             uint32_t window, double timeout, int bell, sluice_port** port);

/* A collective that all ranks run, over buffers that lie where the caller wants. */
enum { SLUICE_SEND = 0, SLUICE_RECEIVED = 1, SLUICE_ANSWER = 2, SLUICE_GATHERED = 3 };
enum {
  SLUICE_ALL_TO_ALL = 1, /* send_sizes[r] bytes to rank r, receive_sizes[r] from it, back to back */
  SLUICE_ALL_GATHER = 2, /* `count` bytes of every rank, in order of rank */
  SLUICE_MAXIMUM = 3,    /* of `count` int32, in place */
  SLUICE_SUM = 4         /* the same, wrapping */
};
typedef struct sluice_collective {
  size_t size;                   /* sizeof(sluice_collective) */
  uint32_t kind;                 /* SLUICE_ALL_TO_ALL … */
  uint32_t from;                 /* the buffer that is sent, from its first byte on */
  uint32_t to;                   /* the buffer that is filled */
  uint32_t is_small;             /* 1: at most 64 KiB are sent, on every rank alike */
  const uint64_t* send_sizes;    /* of an all-to-all, an entry per rank … */
  const uint64_t* receive_sizes; /* … both; they live until the collective is done */
  uint64_t count;                /* of the others */
  uint64_t step;                 /* what it is about, for messages: the training step … */
  uint64_t number;               /* … and the first bucket in it */
} sluice_collective;

/* What the caller offers: one collective at a time. Functions run on the thread that runs or serves
 * the port, and must not throw or jump out. start, test and wait return 0, or another number when
 * they failed: the port is dead then and the function that called returns SLUICE_FAILED. A
 * collective that was started before stays as it is; its buffers are the caller's. */
typedef struct sluice_collectives {
  size_t size;   /* sizeof(sluice_collectives) */
  void* context; /* handed to all of them */
  /* A buffer of at least `bytes`, on the host; what was in it may be lost. It stays there until the
   * next call for the same buffer. NULL: there is no memory (SLUICE_OUT_OF_MEMORY; the port is
   * dead). Not aligned to 4: SLUICE_FAILED. */
  void* (*reserve)(void* context, uint32_t buffer, uint64_t bytes);
  int (*start)(void* context, const sluice_collective* what);
  int (*test)(void* context, uint32_t* done); /* *done 1: the bytes are there */
  /* Until they are; seconds: what is left of the port's time-out. */
  int (*wait)(void* context, double seconds);
} sluice_collectives;
#define SLUICE_COLLECTIVES_INIT {sizeof(sluice_collectives), 0, 0, 0, 0, 0}

/* Over collectives of the caller's. Every rank runs the same buckets in the same order.
 * SLUICE_INVALID_ARGUMENT: a function that is NULL, a time-out that is not above 0 and at most a
 * day. */
sluice_code sluice_port_over(sluice_memory* memory, const sluice_collectives* collectives,
                             double timeout, sluice_port** port);

/* Leaves the job, when no queue uses the port any more. */
void sluice_port_free(sluice_port* port);

/* Averages a bucket by itself; returns when all means are written. Ports of one memory may run on
 * several threads, each on one. SLUICE_INVALID_ARGUMENT: an entry that does not fit its tensor, a
 * tensor twice, a bucket in flight; nothing has changed then. SLUICE_MALFORMED, SLUICE_MISMATCH:
 * what came from another rank is wrong; SLUICE_TIMEOUT, SLUICE_FAILED, and SLUICE_UNAVAILABLE after
 * the bell: the port is of no use then. SLUICE_OUT_OF_MEMORY: likewise, unless nothing was sent;
 * then the next call does not return SLUICE_UNAVAILABLE. */
sluice_code sluice_port_run(sluice_port* port, const sluice_order* order,
                            const sluice_entry* entries, size_t entry_count);
/* Of the bucket that sluice_port_run finished last. sluice_port_probes writes at most `capacity` of
 * what its probe found and returns how many there are; `probes` may be NULL with capacity 0. */
sluice_code sluice_port_report(const sluice_port* port, sluice_report* report);
size_t sluice_port_probes(const sluice_port* port, sluice_probe* probes, size_t capacity);

/* What a port has moved since it was made. Any thread may ask; it may lag behind by a bucket. */
typedef struct sluice_traffic {
  size_t size;         /* sizeof(sluice_traffic) */
  uint64_t sent_bytes; /* of datagrams, without UDP and IP headers, or of collectives */
  uint64_t received_bytes;
  uint64_t retransmits; /* contributions that were sent again */
  uint64_t collectives;
  double encode_seconds;
  double decode_seconds;
  double combine_seconds; /* of what came in collectives */
  double network_seconds; /* in the carrier otherwise, waiting too */
} sluice_traffic;
#define SLUICE_TRAFFIC_INIT {sizeof(sluice_traffic), 0, 0, 0, 0, 0, 0, 0, 0}
sluice_code sluice_port_traffic(const sluice_port* port, sluice_traffic* traffic);

/* ---- Queues: buckets in one order, over several ports ------------------------------------- */

/* Each port is served by a thread of the caller's. Buckets that all ranks have travel together in a
 * wave; ranks tell each other what they have, so that all make the same waves. */
typedef struct sluice_queue sluice_queue;

/* Ports of one memory and one kind, in the same order on every rank; they are the queue's until it
 * is freed. `wave`: coordinates that travel together at most, up to 2^40; 0: 2^21.
 * SLUICE_INVALID_ARGUMENT: no port or more than 64, of different kinds or memories, one twice, one
 * that another queue has. */
sluice_code sluice_queue_make(sluice_port* const* ports, size_t port_count, uint64_t wave,
                              sluice_queue** queue);
/* When no thread serves it any more. */
void sluice_queue_free(sluice_queue* queue);

/* Hands a bucket over and does not wait: from any thread, in the same order on every rank. Jobs are
 * copied; their floats stay put until the bucket's event. *number: 0, 1, 2, … over buckets and
 * turns. SLUICE_INVALID_ARGUMENT: as sluice_port_run, or a tensor that an unfinished bucket has; no
 * number is taken then. SLUICE_UNAVAILABLE: the queue is closed or dead. */
sluice_code sluice_queue_put(sluice_queue* queue, const sluice_order* order,
                             const sluice_entry* entries, size_t entry_count, uint64_t* number);
/* A turn: when it comes, sluice_queue_serve of one port returns, the same on every rank. The caller
 * runs collectives of its own there, or sluice_port_run, and then serves again: that ends the turn.
 * Codes as above. */
sluice_code sluice_queue_put_turn(sluice_queue* queue, uint64_t* number);

enum { SLUICE_CLOSED = 0, SLUICE_BUCKET = 1, SLUICE_TURN = 2 };
typedef struct sluice_event {
  size_t size;        /* sizeof(sluice_event) */
  uint32_t kind;      /* SLUICE_CLOSED … */
  uint64_t number;    /* of the bucket that is finished, or of the turn that has come */
  uint64_t digest;    /* of a bucket, as in sluice_report … */
  uint64_t infinite;
  const sluice_probe* probes; /* … and what its probe found; until this port is served again */
  size_t probe_count;
  size_t port; /* whose stream has written the means of a bucket on a device */
} sluice_event;
#define SLUICE_EVENT_INIT {sizeof(sluice_event), 0, 0, 0, 0, 0, 0, 0}

/* Runs waves on a port, by its place in the queue, until there is an event; blocks. Codes as of
 * sluice_port_run, SLUICE_OUT_OF_MEMORY too: the queue is dead then, and who serves another port
 * gets SLUICE_UNAVAILABLE when the wave that it is in has ended. A wave has as much time as a
 * bucket. */
sluice_code sluice_queue_serve(sluice_queue* queue, size_t port, sluice_event* event);
/* No more is put. sluice_queue_serve gives SLUICE_CLOSED when there is nothing left to begin, or,
 * with `at_once` 1, as soon as it is between two waves. Any thread. */
sluice_code sluice_queue_close(sluice_queue* queue, uint32_t at_once);

/* ---- Half-width floats -------------------------------------------------------------------- */

/* float32 from and to bfloat16 ("bf16") or IEEE half ("fp16"), round to nearest even, one thread.
 * SLUICE_INVALID_ARGUMENT: another format. */
sluice_code sluice_widen(const char* format, const void* from, uint64_t count, float* to);
sluice_code sluice_shorten(const char* format, const float* from, uint64_t count, void* to);

/* ---- What codecs accept ------------------------------------------------------------------- */

/* An option of a codec. All text is static storage. */
typedef struct sluice_codec_option {
  const char* key;
  const char* help;
  const char* text;     /* key, default and what is accepted: "bits=4 (1 to 8)" */
  uint32_t kind;        /* 0 integer 1 real 2 choice */
  uint32_t multiple_of; /* of an integer */
  double preset;        /* the default; of a choice: its index */
  double minimum;       /* of an integer or real */
  double maximum;
  const char* const* choices; /* of a choice */
  size_t choice_count;
} sluice_codec_option;

/* What the codec of that index does, as one line. Static storage; NULL if index >= count. */
const char* sluice_codec_summary(size_t index);
/* Its options, and how many there are; they live as long as the library. NULL and 0: none. */
const sluice_codec_option* sluice_codec_options(size_t index, size_t* count);

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_SLUICE_H_ */
