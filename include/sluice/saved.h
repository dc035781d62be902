/* What a memory keeps, as bytes. A part of sluice.h, whose rules hold here, too. */
#ifndef SLUICE_SAVED_H_
#define SLUICE_SAVED_H_

#include <sluice/code.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_memory; /* of sluice.h */

/* Choices, codec state, model states and feedback's memories, in the format of sluice_group_save
 * and written as there. Between steps: what a bucket in flight changes may be old or new. */
sluice_code sluice_memory_save(const struct sluice_memory* memory, void* bytes, size_t capacity,
                               size_t* size);

typedef struct sluice_saved {
  const void* bytes; /* of sluice_memory_save or sluice_group_save */
  size_t size;
} sluice_saved;

/* From what this worker saved: its state, alone or among those of other workers. Of a job with
 * another number of workers it needs the states of all. Then each worker takes its share: the sum
 * of feedback's memories over all workers is kept, and codec state starts anew. Choices stay as
 * they are. Tensors are found by their ids; those before `first` stay as they are.
 * grows = 1: more tensors will be added, maybe in the middle of a step, and loaded by another call.
 * What was saved of them is left out, and a tensor that was not saved starts anew. Otherwise 0.
 * SLUICE_MALFORMED, SLUICE_MISMATCH: as sluice_group_load. SLUICE_INVALID_ARGUMENT: no state, no
 * such tensor, a bucket or exchange in flight. Nothing has changed then. */
sluice_code sluice_memory_load(struct sluice_memory* memory, const sluice_saved* saved,
                               size_t count, uint32_t first, uint32_t grows);

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_SAVED_H_ */
