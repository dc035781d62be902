/* Gradients that lie on a GPU: they are coded there, and only compressed bytes leave it. For
 * programs that have such gradients: sluice.h does not include it.
 *
 *   sluice_device_open         a GPU; options.device of a memory says that its buckets lie there
 *   sluice_port_over_device    one worker's end, with a stream
 *   sluice_queue_serve_all     one thread for all ports, where the network needs one order
 */
#ifndef SLUICE_DEVICE_H_
#define SLUICE_DEVICE_H_

#include <sluice/sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why there are no codecs for GPUs in this process: the driver, libsluice_cuda.so or a GPU is
 * missing. "": they are there. Initialises CUDA. Lives as long as the program. */
const char* sluice_gpu_status(void);

/* Loads all kernels. SLUICE_UNAVAILABLE: as sluice_gpu_status says. SLUICE_INVALID_ARGUMENT: no
 * such number. SLUICE_FAILED: the device refuses. */
sluice_code sluice_device_open(uint32_t number, sluice_device** device);
/* Memories that use it keep it. */
void sluice_device_free(sluice_device* device);

/* Added to SLUICE_SEND and so on: the same buffer on the device. */
enum { SLUICE_ON_DEVICE = 4 };

/* Over collectives of the caller's, for buckets on the memory's device. Codecs f32, bf16, fp16 and
 * tide have kernels, with feedback none or ef. `stream` is a cudaStream_t of that device which is
 * this port's alone and outlives it: all kernels run there.
 * carries_device 0: collectives move bytes of the host, which the device reads and writes there.
 * carries_device 1: they also move bytes between devices, in buffers with SLUICE_ON_DEVICE. Such a
 * collective starts when what is on the stream before it is done. What comes on the stream after
 * test or wait finds the bytes: neither blocks for them.
 * `wave` is the most elements that travel together: memory for them is taken here, of the memory's
 * tensors as they are now. `reserve` of the collectives is called for it, too. In a port over a
 * device buffers may share memory: SLUICE_GATHERED with SLUICE_RECEIVED, on either side, and on the
 * device SLUICE_ANSWER with SLUICE_SEND. One is not looked at once the other is asked for.
 * After an error entries of unfinished buckets stay put until the port is freed: what is on its
 * stream may still read them. It decodes nothing any more. But a kernel that was decoding just then
 * may leave part of a chunk written, its mean and what feedback keeps. Its bucket is reported as
 * failed.
 * sluice_port_free waits for all that is on the stream. Collectives there are broken off before it,
 * such as by aborting the communicator: else it may wait for ever.
 * SLUICE_INVALID_ARGUMENT: also a memory without a device. SLUICE_OUT_OF_MEMORY: or a `reserve`
 * that gave NULL. */
sluice_code sluice_port_over_device(sluice_memory* memory, const sluice_collectives* collectives,
                                    void* stream, uint32_t carries_device, uint64_t wave,
                                    double timeout, sluice_port** port);
/* Takes the memory that waves need by now, where it is more: after sluice_memory_add or
 * sluice_memory_choose, between steps. No thread is in the port but in a queue that it waits for.
 * SLUICE_INVALID_ARGUMENT: a port without a device, or something is in flight.
 * SLUICE_OUT_OF_MEMORY: waves take what is missing, and grow. */
sluice_code sluice_port_reserve(sluice_port* port);
/* Before collectives of a port are broken off in the middle, on any thread: what is on its stream
 * decodes nothing any more, and no other wave begins. For good. As after an error, entries stay put
 * until the port is freed, and part of a chunk may be written. SLUICE_FAILED: the device does. */
sluice_code sluice_port_stop(sluice_port* port);
/* What the device of a port has done. */
typedef struct sluice_device_counts {
  size_t size; /* sizeof(sluice_device_counts) */
  uint64_t waves;
  uint64_t launches;
  uint64_t launches_most;  /* of one wave */
  uint64_t uploaded_bytes; /* of tables */
  uint64_t grown;          /* times that memory was taken in the middle of a wave */
} sluice_device_counts;
#define SLUICE_DEVICE_COUNTS_INIT \
  { sizeof(sluice_device_counts), 0, 0, 0, 0, 0 }
/* Any thread; as of the last event. Zeros of a port that has no device. */
sluice_code sluice_port_device_counts(const sluice_port* port, sluice_device_counts* counts);

/* sluice_queue_serve of all ports at once, by one thread. So their collectives start in one order,
 * the same on every rank: for networks that need it, such as NCCL's. All ports are of
 * sluice_port_over_device with `carries_device`, and nobody serves one by itself. Each collective
 * has as much time as a bucket. Buckets that were finished before an error are told before it. */
sluice_code sluice_queue_serve_all(sluice_queue* queue, sluice_event* event);

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_DEVICE_H_ */
