/* Sluice: averages gradients that travel compressed and are summed while compressed.
 *
 * C99. There are four ways to use it, from the simplest to the most open:
 *
 *   sluice_reduce_local    all workers of a job are arrays of this process; one call
 *   sluice_world, _group   one of our carriers (local, mpi) runs the rounds between the workers
 *   sluice_memory, _parcel the caller has collectives of its own (a framework's process group) and
 *                          moves the bytes; sluice says what goes where
 *   sluice_exchange        one chunk's trip as bare rounds, for callers that reduce them themselves
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

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of libsluice.so, too: programs that were linked with another one do not load it. */
#define SLUICE_ABI_VERSION 6

typedef enum sluice_code {
  SLUICE_OK = 0,
  SLUICE_INVALID_ARGUMENT = 1, /* the message names the value and what is accepted */
  SLUICE_FAILED = 2,           /* the reduction itself failed; the message says how */
  SLUICE_MALFORMED = 3,        /* bytes from outside do not parse; the message names the rank */
  SLUICE_MISMATCH = 4,         /* ranks disagree on what they reduce; the message names them */
  SLUICE_TIMEOUT = 5,          /* somebody is missing; the message names who */
  SLUICE_UNAVAILABLE = 6,      /* this build, machine or carrier cannot do it */
  SLUICE_OUT_OF_MEMORY = 7     /* an allocation was refused; any function may return it */
} sluice_code;

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

/* ---- Options and figures shared by groups and memories ------------------------------------ */

typedef struct sluice_options {
  size_t size;          /* sizeof(sluice_options) */
  uint32_t rank;        /* of this worker */
  uint32_t workers;     /* 1 to 4096 */
  uint64_t seed;        /* of all randomness, the same on every rank */
  const char* feedback; /* "none" or "ef"; NULL: none */
  uint32_t chunk;       /* coordinates per chunk, fitted to the codec; 0: 65536 */
  uint32_t window;      /* chunks in flight, of a group; 0: as many as the world has */
  double timeout;       /* seconds a group waits for others; 0: 60 */
  uint32_t keep_before; /* 1: sluice_memory_undo_step works, for a copy of the residuals */
  const char* sparse;   /* of a memory: SPEC of the codec of SLUICE_SPARSE jobs; NULL: lossless */
} sluice_options;
#define SLUICE_OPTIONS_INIT {sizeof(sluice_options), 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* One parameter's gradient. The id survives bucket rebuilds and restarts and is the same on every
 * rank; two tensors of a group or memory have different ids. At most 2^40 coordinates. */
typedef struct sluice_tensor {
  uint64_t id;
  uint64_t rows;
  uint64_t cols;
} sluice_tensor;

#define SLUICE_EXACT 0xffffffffu
#define SLUICE_SPARSE 0xfffffffeu

/* One tensor of a step; the mean may be the gradient's own memory. `tensor` is the index of the
 * tensor, or, for parcels, one of two for `count` floats that belong to no tensor and keep no
 * memory: SLUICE_EXACT, which travel as float32, or SLUICE_SPARSE, which travel through a codec of
 * their own, such as the rows of a table that any rank has touched. */
typedef struct sluice_job {
  uint32_t tensor;
  uint64_t count;
  const float* gradient;
  float* mean;
} sluice_job;

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

/* Averages the jobs of a step; blocks. Every rank hands over the same tensors in the same order.
 * SLUICE_INVALID_ARGUMENT: a job that does not fit its tensor, a tensor twice, a step in flight;
 * the group is as it was. SLUICE_TIMEOUT, SLUICE_MISMATCH, SLUICE_MALFORMED, SLUICE_FAILED: the
 * group is dead then; chunks that were done keep their effect, the others have none.
 * SLUICE_UNAVAILABLE: the group is dead. SLUICE_OUT_OF_MEMORY: it is dead, unless memory was
 * refused before the step began; then the next call does not return SLUICE_UNAVAILABLE. */
sluice_code sluice_group_reduce(sluice_group* group, uint64_t step, const sluice_job* jobs,
                                size_t job_count);

/* The same without blocking: start, then advance until *finished is 1, as it is when no step is in
 * flight. Codes as above, but start sends nothing and leaves the group as it was, also where it
 * returns SLUICE_OUT_OF_MEMORY; advance returns no SLUICE_INVALID_ARGUMENT but for a NULL. */
sluice_code sluice_group_start(sluice_group* group, uint64_t step, const sluice_job* jobs,
                               size_t job_count);
sluice_code sluice_group_advance(sluice_group* group, uint32_t* finished);

sluice_code sluice_group_stats(const sluice_group* group, sluice_stats* stats);

/* Codec state, model state and residuals, between steps. sluice_group_save writes at most
 * `capacity` bytes and sets *size to what is needed: call it with capacity 0 and NULL first.
 * SLUICE_INVALID_ARGUMENT: too little capacity (*size is set), a step in flight. Load:
 * SLUICE_MALFORMED (damaged bytes), SLUICE_MISMATCH (another codec, feedback, rank, worker count or
 * list of tensors; the message has both); nothing has changed then. */
sluice_code sluice_group_save(const sluice_group* group, void* bytes, size_t capacity,
                              size_t* size);
sluice_code sluice_group_load(sluice_group* group, const void* bytes, size_t size);

/* ---- Memories and parcels: the caller moves the bytes ------------------------------------- */

/* What one worker keeps between steps. */
typedef struct sluice_memory sluice_memory;

/* window and timeout of the options are ignored. SLUICE_INVALID_ARGUMENT: bad numbers, a codec that
 * refuses feedback, a codec for sparse jobs that is unknown or keeps memory of a model. */
sluice_code sluice_memory_make(const sluice_codec* codec, const sluice_options* options,
                               sluice_memory** memory);
void sluice_memory_free(sluice_memory* memory);

/* More tensors, between steps, the same on every rank; they are numbered in this order, from 0.
 * SLUICE_INVALID_ARGUMENT: more than 2^40 coordinates, an id that is there already, tensors the
 * codec refuses, a parcel or exchange in flight. */
sluice_code sluice_memory_add(sluice_memory* memory, const sluice_tensor* tensors, size_t count);

/* The codec's canonical SPEC, where options that follow the feedback ("auto") have their meaning.
 * Lives as the memory. */
const char* sluice_memory_spec(const sluice_memory* memory);
/* Whether residuals and states that were saved under a SPEC fit this memory: the same codec, and
 * the same options but for those that only say what is sent. SLUICE_MISMATCH: they do not. */
sluice_code sluice_memory_resumes(const sluice_memory* memory, const char* spec);

/* Between steps. The residual of a tensor (count floats, NULL without feedback), its codec state
 * and the model's (bytes, maybe 0); to read, or to restore what was read from an equal memory.
 * SLUICE_INVALID_ARGUMENT: no such tensor. */
sluice_code sluice_memory_residual(sluice_memory* memory, uint32_t tensor, float** residual,
                                   uint64_t* count);
sluice_code sluice_memory_state(sluice_memory* memory, uint32_t tensor, void** state,
                                size_t* size);
sluice_code sluice_memory_model(sluice_memory* memory, void** model, size_t* size);

/* After all parcels of a step, on every rank. Undo: the step's means were thrown away (a loss
 * scaler skipped it), so residuals become what they were before; SLUICE_INVALID_ARGUMENT without
 * options.keep_before, and of both with a parcel or exchange in flight. */
sluice_code sluice_memory_end_step(sluice_memory* memory);
sluice_code sluice_memory_undo_step(sluice_memory* memory);

/* After a tensor's mean is there and before the step ends: the mean as half-width floats, and, with
 * feedback, what the rounding lost into the residual, unless that is Inf or NaN. Every rank keeps
 * the whole of it, since it is missing from the mean and not from one rank's share. `tensor` may be
 * SLUICE_EXACT, of any count, which keeps nothing. Several threads may call it, each for a tensor
 * of its own. SLUICE_INVALID_ARGUMENT: another format than sluice_shorten's, no such tensor, a
 * count that is not the tensor's. */
sluice_code sluice_memory_shorten(sluice_memory* memory, uint32_t tensor, const char* format,
                                  const float* mean, uint64_t count, void* halves);

/* Chunks of several tensors in lock-step. Parcels of one memory may run on several threads. */
typedef struct sluice_parcel sluice_parcel;

sluice_code sluice_parcel_make(sluice_memory* memory, sluice_parcel** parcel);
void sluice_parcel_free(sluice_parcel* parcel);

typedef struct sluice_order {
  size_t size;       /* sizeof(sluice_order) */
  uint64_t step;
  uint64_t sequence; /* of the parcel, over the whole job; the same on every rank */
  uint32_t part;     /* the jobs' chunks are laid end to end and divided into `parts`; … */
  uint32_t parts;    /* … this parcel takes one of them */
  uint32_t digest;   /* 1: report.digest is filled */
  uint32_t probe;    /* number of the probe, from 1, the same on every rank; 0: none. Some
                        blocks of 256 coordinates then also travel exactly, to measure the error:
                        of every tensor one of 32, at least one; they take turns by the number */
} sluice_order;
/* One part, no digest, no probe. */
#define SLUICE_ORDER_INIT {sizeof(sluice_order), 0, 0, 0, 1, 0, 0}

/* Encodes the first step. The jobs' memory stays put until the parcel is finished or abandoned.
 * SLUICE_INVALID_ARGUMENT: a parcel in flight, a job that does not fit its tensor, a tensor twice;
 * nothing has changed then. SLUICE_OUT_OF_MEMORY: likewise, unless the first chunk was begun; then
 * the parcel is abandoned and the next begin returns SLUICE_UNAVAILABLE. Other codes as below. */
sluice_code sluice_parcel_begin(sluice_parcel* parcel, const sluice_order* order,
                                const sluice_job* jobs, size_t job_count);

typedef enum sluice_collective {
  SLUICE_DONE = 0,     /* all means are written */
  SLUICE_SHARDS = 1,   /* pack, all-to-all, combine, all-gather, spread */
  SLUICE_MAXIMUM = 2,  /* pack_lanes, all-reduce of int32 with maximum, spread_lanes */
  SLUICE_SUM = 3,      /* pack_lanes, all-reduce of int32 with wrapping sum, spread_lanes */
  SLUICE_WHOLE = 4     /* pack, all-to-all, combine: small, every rank combines everything */
} sluice_collective;

/* What the ranks do next. Arrays have an entry per rank and live until the next call. */
typedef struct sluice_step {
  size_t size;                   /* sizeof(sluice_step) */
  uint32_t collective;           /* a sluice_collective, the same on every rank */
  uint32_t receives_vary;        /* 1: ranks tell each other send_sizes first (an all-to-all) */
  uint32_t answers_vary;         /* 1: ranks tell each other the answer's size first */
  const uint64_t* send_sizes;    /* bytes for each rank, this one included */
  const uint64_t* receive_sizes; /* bytes from each rank, unless receives_vary */
  const uint64_t* answer_sizes;  /* bytes of each rank's answer, unless answers_vary */
  uint64_t lane_count;           /* of an all-reduce */
} sluice_step;
#define SLUICE_STEP_INIT {sizeof(sluice_step), 0, 0, 0, 0, 0, 0, 0}

/* Codes of the functions below: SLUICE_INVALID_ARGUMENT: a size to send or a count of lanes that is
 * not what sluice_step says, an answer beyond the stride, or the functions out of order; nothing
 * has changed then. SLUICE_MALFORMED, SLUICE_MISMATCH: what came from another rank is wrong, its
 * size too; the parcel is abandoned then. SLUICE_FAILED and SLUICE_OUT_OF_MEMORY: likewise.
 * SLUICE_UNAVAILABLE: it was abandoned before. */
sluice_code sluice_parcel_next(sluice_parcel* parcel, sluice_step* step);
/* What goes to rank 0, 1, … back to back; size: the sum of send_sizes. */
sluice_code sluice_parcel_pack(sluice_parcel* parcel, void* send, uint64_t size);
/* What came from rank 0, 1, … back to back. The answer lives until the next call; it is NULL after
 * SLUICE_WHOLE, which has no all-gather: the parcel has gone on by itself. */
sluice_code sluice_parcel_combine(sluice_parcel* parcel, const void* received,
                                  const uint64_t* receive_sizes, const void** answer,
                                  uint64_t* answer_size);
/* Rank r's answer is the first answer_sizes[r] bytes, at most `stride`, at r·stride. Decodes, or
 * encodes the next. */
sluice_code sluice_parcel_spread(sluice_parcel* parcel, const void* gathered, uint64_t stride,
                                 const uint64_t* answer_sizes);
sluice_code sluice_parcel_pack_lanes(sluice_parcel* parcel, int32_t* lanes, uint64_t count);
sluice_code sluice_parcel_spread_lanes(sluice_parcel* parcel, const int32_t* lanes,
                                       uint64_t count);
/* Gives up what is in flight: nothing of the jobs is touched any more, and the parcel is of no use.
 * With nothing in flight nothing happens. */
sluice_code sluice_parcel_abandon(sluice_parcel* parcel);

/* Of the parcel that is in hand or just finished. */
typedef struct sluice_report {
  size_t size;         /* sizeof(sluice_report) */
  uint64_t digest;     /* of the means; adds up over parcels modulo 2^64 */
  uint64_t infinite;   /* coordinates of the means that are Inf or NaN */
  uint64_t rounds;     /* from here on as in sluice_stats, of this parcel */
  uint64_t bytes_up;
  uint64_t bytes_down;
  uint64_t chunks;
  double encode_seconds;
  double decode_seconds;
} sluice_report;
#define SLUICE_REPORT_INIT {sizeof(sluice_report), 0, 0, 0, 0, 0, 0, 0, 0}
sluice_code sluice_parcel_report(const sluice_parcel* parcel, sluice_report* report);

/* What a probe found out about a tensor; all but `blocks` as estimates for the whole tensor. They
 * add up over parcels, and over probes: after 32 probes every block has had the same weight. */
typedef struct sluice_probe {
  uint32_t tensor;
  uint64_t blocks;     /* of 256 coordinates, that were looked at */
  uint64_t live;       /* blocks whose exact mean is not all zero */
  uint64_t silent;     /* of the live ones: whose mean came back as zeros */
  double error_energy; /* |mean - exact mean|^2 … */
  double exact_energy; /* … and |exact mean|^2 */
} sluice_probe;
/* Of the tensors that the finished parcel's probe looked at. Writes at most `capacity` of them and
 * returns how many there are; `probes` may be NULL with capacity 0. */
size_t sluice_parcel_probes(const sluice_parcel* parcel, sluice_probe* probes, size_t capacity);

/* ---- Aggregators and ports: parcels over carrier `stream` ---------------------------------- */

/* What sums for the workers of a job, on threads of its own. */
typedef struct sluice_aggregator sluice_aggregator;

/* At UDP addresses such as "10.0.0.1:0" (any port), comma separated, a thread for each.
 * SLUICE_INVALID_ARGUMENT: no addresses. SLUICE_UNAVAILABLE, SLUICE_FAILED: they cannot be had. */
sluice_code sluice_aggregator_start(const char* addresses, sluice_aggregator** aggregator);
/* Where it listens, with the ports that were given, comma separated. Lives as long as it does. */
const char* sluice_aggregator_addresses(const sluice_aggregator* aggregator);
/* Ends it when the workers of all its jobs have left, or after `patience` seconds. */
void sluice_aggregator_free(sluice_aggregator* aggregator, double patience);

/* One worker's end of a job at aggregators; rank and workers are the memory's. */
typedef struct sluice_port sluice_port;

/* Joins the job and returns when all workers have: they call it at the same time, with the same
 * aggregators (comma separated, in the same order), job and window, which is how many chunks are
 * on their way at a time. SLUICE_TIMEOUT: after `timeout` seconds, which parcels take at most, too;
 * the message names who is missing. SLUICE_MISMATCH: workers that do not want the same.
 * `bell` is a descriptor that outlives the port, such as an eventfd, or -1. Once it is readable,
 * opening and running end with SLUICE_UNAVAILABLE instead of waiting: for a thread that learns that
 * another worker has died. */
sluice_code sluice_port_open(sluice_memory* memory, const char* aggregators, uint64_t job,
                             uint32_t window, double timeout, int bell, sluice_port** port);
/* Leaves the job. */
void sluice_port_free(sluice_port* port);

/* Averages a parcel; returns when all means are written. Ports of one memory may run on several
 * threads, each on one. Codes as of sluice_parcel_begin and sluice_parcel_next, SLUICE_TIMEOUT, and
 * SLUICE_UNAVAILABLE after the bell. After SLUICE_INVALID_ARGUMENT the port is as it was, after
 * other errors it is of no use, but for SLUICE_OUT_OF_MEMORY before anything was sent: then the
 * next call does not return SLUICE_UNAVAILABLE. */
sluice_code sluice_port_run(sluice_port* port, const sluice_order* order, const sluice_job* jobs,
                            size_t job_count);
/* Of the parcel that just finished. */
sluice_code sluice_port_report(const sluice_port* port, sluice_report* report);
size_t sluice_port_probes(const sluice_port* port, sluice_probe* probes, size_t capacity);

typedef struct sluice_traffic {
  size_t size;         /* sizeof(sluice_traffic) */
  uint64_t sent_bytes; /* of datagrams, without UDP and IP headers */
  uint64_t received_bytes;
  uint64_t retransmits; /* contributions that were sent again */
} sluice_traffic;
#define SLUICE_TRAFFIC_INIT {sizeof(sluice_traffic), 0, 0, 0}
sluice_code sluice_port_traffic(const sluice_port* port, sluice_traffic* traffic);

/* ---- Exchanges: bare rounds --------------------------------------------------------------- */

/* A reduction as docs/ARCHITECTURE.md has it; equal on all ranks. */
typedef struct sluice_reduction {
  uint32_t op;    /* 0 lane_sum 1 wrap_sum 2 max 3 gather 4 block_sum, 5 f32 6 bf16 7 f16 sum */
  uint32_t bits;  /* of a lane */
  uint32_t down;  /* of a lane_sum: 0 full, 1 narrow, 2 round */
  uint32_t extra; /* bits of a rounded sum beyond those of a code */
  uint32_t count; /* lanes; of a gather: bytes one worker may send */
  uint32_t grain; /* lanes that share a header; 0: all */
  const uint16_t* table; /* of a lane_sum: what codes stand for; NULL: themselves */
  size_t table_count;
} sluice_reduction;

typedef struct sluice_round {
  sluice_reduction what;
  const void* up;
  size_t up_size;
  void* down; /* the answer's bytes go here … */
  size_t down_capacity;
  size_t down_size; /* … and how many there are, here; all workers must be counted in it */
} sluice_round;

/* Bytes the answer of a reduction may have at most. 0: not valid for so many workers. */
size_t sluice_answer_size_max(const sluice_reduction* what, uint32_t workers);

/* The reference implementation: reduces what all workers sent, in order of rank, into `down`.
 * SLUICE_INVALID_ARGUMENT: not a valid reduction, sizes that do not fit, down too small. */
sluice_code sluice_combine(const sluice_reduction* what, uint32_t workers, const void* const* ups,
                           const size_t* up_sizes, void* down, size_t down_capacity,
                           size_t* down_size);

typedef struct sluice_exchange sluice_exchange;

/* One chunk's trip through the memory's codec: `count` coordinates at `offset` of a tensor, borders
 * as sluice_memory_chunk says. Gradient and mean stay put until done.
 * SLUICE_INVALID_ARGUMENT: no such tensor or not one of its chunks. */
sluice_code sluice_exchange_begin(sluice_memory* memory, uint64_t step, uint32_t tensor,
                                  uint64_t offset, uint64_t count, const float* gradient,
                                  float* mean, sluice_exchange** exchange);
void sluice_exchange_free(sluice_exchange* exchange);
/* Coordinates per chunk of a tensor, 0 if there is none: chunks start at multiples of it and only a
 * tensor's last may be shorter. */
uint64_t sluice_memory_chunk(const sluice_memory* memory, uint32_t tensor);
/* The rounds to run next, independent of each other; fill their down and down_size, then call
 * again. *round_count 0: the mean is written. The rounds live until the next call.
 * SLUICE_MALFORMED: an answer that cannot be; the exchange is over then and has written nothing. */
sluice_code sluice_exchange_next(sluice_exchange* exchange, sluice_round** rounds,
                                 size_t* round_count);

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
