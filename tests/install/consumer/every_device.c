/* As every_function.c, of the functions over devices, on the one that is none: the host. C99. */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include "cases.h"
#include "copies.h"

static sluice_device* devices(void) {
  sluice_device* device = NULL;
  CASE(sluice_gpu_status), is_true(sluice_gpu_status()[0] == '\0');
  CASE(sluice_device_open), refused(sluice_device_open(0, NULL), "device is NULL");
  refused(sluice_device_open(UINT32_MAX, &device), "device 4294967295; accepted: below 1");
  works(sluice_device_open(0, &device));
  return device;
}

static sluice_memory* memory_on(const sluice_device* device) {
  sluice_options options = SLUICE_OPTIONS_INIT;
  sluice_memory* memory = NULL;
  sluice_codec* codec = NULL;
  const sluice_tensor tensor = {1, 1, COUNT};
  options.workers = 1, options.feedback = "dgc", options.keep_before = 1, options.device = device;
  CASE(sluice_memory_make), works(sluice_memory_make(&options, &memory));
  works(sluice_codec_make("tide:bits=2", &codec));
  CASE(sluice_memory_add);
  refused(sluice_memory_add(memory, codec, &tensor, 1), "has no kernels for a device");
  sluice_memory_free(memory);
  options.feedback = "ef";
  works(sluice_memory_make(&options, &memory));
  works(sluice_memory_add(memory, codec, &tensor, 1));
  sluice_codec_free(codec);
  works(sluice_codec_make("thc", &codec));
  refused(sluice_memory_choose(memory, NULL, 0, NULL), "codec is NULL");
  sluice_codec_free(codec);
  return memory;
}

static void port_runs(sluice_port* port) {
  sluice_order order = SLUICE_ORDER_INIT;
  sluice_entry entry = {0, COUNT, values, means};
  sluice_device_counts counts = SLUICE_DEVICE_COUNTS_INIT;
  CASE(sluice_port_run);
  refused(sluice_port_run(port, &order, &entry, 1), "is not on a device");
  order.on_device = 2;
  refused(sluice_port_run(port, &order, &entry, 1), "order.on_device is 2");
  order.on_device = 1, order.format = 3;
  refused(sluice_port_run(port, &order, &entry, 1), "format 3");
  order.format = 0, order.probe = 1;
  refused(sluice_port_run(port, &order, &entry, 1), "a digest or probe");
  order.probe = 0;
  works(sluice_port_run(port, &order, &entry, 1));
  is_true(means[3] != 0);
  CASE(sluice_port_device_counts);
  refused(sluice_port_device_counts(NULL, &counts), "port is NULL");
  refused(sluice_port_device_counts(port, NULL), "counts is NULL");
  works(sluice_port_device_counts(port, &counts));
  is_true(counts.waves == 1 && counts.launches > 0 && counts.launches_most <= 12);
}

static sluice_port* port_on(sluice_memory* memory, uint32_t carries) {
  sluice_port* port = NULL;
  sluice_collectives calls = copies();
  CASE(sluice_port_over_device);
  refused(sluice_port_over_device(NULL, &calls, NULL, 0, 1, 5, &port), "memory is NULL");
  refused(sluice_port_over_device(memory, NULL, NULL, 0, 1, 5, &port), "collectives is NULL");
  refused(sluice_port_over_device(memory, &calls, NULL, 0, 1, 5, NULL), "port is NULL");
  refused(sluice_port_over_device(memory, &calls, NULL, 2, 1, 5, &port), "carries_device is 2");
  refused(sluice_port_over_device(memory, &calls, NULL, 0, 0, 5, &port), "wave is 0");
  refused(sluice_port_over_device(memory, &calls, NULL, 0, UINT64_MAX, 5, &port), "wave is 184");
  refused(sluice_port_over_device(memory, &calls, NULL, 0, 1, 0, &port), "timeout 0");
  works(sluice_port_over_device(memory, &calls, NULL, carries, 1 << 20, 5, &port));
  CASE(sluice_port_reserve), refused(sluice_port_reserve(NULL), "port is NULL");
  works(sluice_port_reserve(port));
  return port;
}

static void queue_serves(sluice_memory* memory, sluice_port* port) {
  sluice_queue* queue = NULL;
  sluice_order order = SLUICE_ORDER_INIT;
  sluice_event event = SLUICE_EVENT_INIT;
  const sluice_entry entry = {0, COUNT, values, means};
  uint64_t number = 7;
  order.on_device = 1;
  works(sluice_queue_make(&port, 1, 0, &queue));
  works(sluice_queue_put(queue, &order, &entry, 1, &number));
  CASE(sluice_queue_serve_all), refused(sluice_queue_serve_all(NULL, &event), "queue is NULL");
  refused(sluice_queue_serve_all(queue, NULL), "event is NULL");
  works(sluice_queue_serve_all(queue, &event));
  is_true(event.kind == SLUICE_BUCKET && event.number == 0 && event.port == 0);
  works(sluice_memory_undo_step(memory));
  works(sluice_queue_close(queue, 0));
  works(sluice_queue_serve_all(queue, &event));
  is_true(event.kind == SLUICE_CLOSED);
  sluice_queue_free(queue);
}

static void stopped(sluice_port* port) {
  sluice_order order = SLUICE_ORDER_INIT;
  const sluice_entry entry = {0, COUNT, values, means};
  order.on_device = 1;
  CASE(sluice_port_run), is_code(sluice_port_run(port, &order, &entry, 1), SLUICE_UNAVAILABLE);
}

int main(void) {
  int i;
  sluice_device* device;
  sluice_memory* memory;
  sluice_port* port;
  setenv("SLUICE_CUDA_LIBRARY", "emulated", 1);
  for (i = 0; i < COUNT; ++i) values[i] = (float)(i % 17) - 8;
  device = devices();
  memory = memory_on(device);
  CASE(sluice_device_free), sluice_device_free(device), sluice_device_free(NULL);
  port = port_on(memory, 0);
  port_runs(port);
  sluice_port_free(port);
  port = port_on(memory, 1);
  port_runs(port);
  queue_serves(memory, port);
  CASE(sluice_port_stop), refused(sluice_port_stop(NULL), "port is NULL");
  works(sluice_port_stop(port));
  stopped(port);
  sluice_memory_free(memory); /* before its port */
  sluice_port_free(port);
  printf("C: %d calls of devices with NULL, 0 and too much\n", cases);
  return 0;
}
