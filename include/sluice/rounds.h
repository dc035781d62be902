/* Exchanges: one chunk's trip as bare rounds, for callers that reduce the rounds themselves. A part
 * of sluice.h, whose rules hold here, too. */
#ifndef SLUICE_ROUNDS_H_
#define SLUICE_ROUNDS_H_

#include <sluice/code.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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
struct sluice_memory; /* of sluice.h */

/* One chunk's trip through the memory's codec: `count` coordinates at `offset` of a tensor, borders
 * as sluice_memory_chunk says. Gradient and mean stay put until done.
 * SLUICE_INVALID_ARGUMENT: no such tensor or not one of its chunks, or a memory on a device. */
sluice_code sluice_exchange_begin(struct sluice_memory* memory, uint64_t step, uint32_t tensor,
                                  uint64_t offset, uint64_t count, const float* gradient,
                                  float* mean, sluice_exchange** exchange);
void sluice_exchange_free(sluice_exchange* exchange);
/* Coordinates per chunk of a tensor, 0 if there is none: chunks start at multiples of it and only a
 * tensor's last may be shorter. */
uint64_t sluice_memory_chunk(const struct sluice_memory* memory, uint32_t tensor);
/* The rounds to run next, independent of each other; fill their down and down_size, then call
 * again. *round_count 0: the mean is written. The rounds live until the next call.
 * SLUICE_MALFORMED: an answer that cannot be; the exchange is over then and has written nothing. */
sluice_code sluice_exchange_next(sluice_exchange* exchange, sluice_round** rounds,
                                 size_t* round_count);

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_ROUNDS_H_ */
