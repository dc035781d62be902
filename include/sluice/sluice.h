/* Sluice: averages gradients that travel compressed and are summed while compressed.
 *
 * C99. This version offers what needs no network: all workers of a job in one process. Functions
 * return SLUICE_OK or an error code; the text of a thread's last error is sluice_last_error().
 * Any function may be called from any thread.
 */
#ifndef SLUICE_SLUICE_H_
#define SLUICE_SLUICE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_ABI_VERSION 1

typedef enum sluice_code {
  SLUICE_OK = 0,
  SLUICE_INVALID_ARGUMENT = 1, /* the message names the value and what is accepted */
  SLUICE_FAILED = 2            /* the reduction itself failed; the message says how */
} sluice_code;

/* The library's version, "0.1.0". Static storage. */
const char* sluice_version(void);

/* The SLUICE_ABI_VERSION the library was built with; differs only with a new major version. */
uint32_t sluice_abi_version(void);

/* The codecs of the catalogue. The name is static storage, NULL if index >= count. */
size_t sluice_codec_count(void);
const char* sluice_codec_name(size_t index);

/* The calling thread's last error as one line, "" if none. Valid until the thread's next call. */
const char* sluice_last_error(void);

/* Averages `workers` gradients of `count` float32 each with a codec SPEC such as "f32" or
 * "fixed:block=64", as that many workers would. `step` and `seed` name all randomness.
 * `mean` holds `count` floats and may be one of the gradients.
 * Returns SLUICE_OK; SLUICE_INVALID_ARGUMENT (null pointers, 0 or more than 4096 workers, more
 * than 2^40 coordinates, unknown codec or option; mean untouched); SLUICE_FAILED.
 */
sluice_code sluice_reduce_local(const char* codec, uint32_t workers, uint64_t count,
                                const float* const* gradients, uint64_t seed, uint64_t step,
                                float* mean);

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_SLUICE_H_ */
