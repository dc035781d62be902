/* What every_port.c and every_device.c share. */
#pragma once

#include <sluice/sluice.h>
#include <string.h>

/* Collectives of a worker that is alone: copies. */
static int32_t buffers[8][1 << 16];
static int fails = 0;

static void* reserve(void* context, uint32_t buffer, uint64_t bytes) {
  (void)context;
  return bytes <= sizeof buffers[buffer] ? buffers[buffer] : NULL;
}

static int start(void* context, const sluice_collective* what) {
  const size_t bytes =
      (size_t)(what->kind == SLUICE_ALL_TO_ALL ? what->send_sizes[0] : what->count);
  (void)context;
  if (what->from != what->to) memcpy(buffers[what->to], buffers[what->from], bytes);
  return fails;
}

static int test(void* context, uint32_t* done) {
  (void)context;
  *done = 1;
  return 0;
}

static int wait_for_it(void* context, double seconds) {
  (void)context;
  return seconds > 0 ? 0 : 1;
}

static sluice_collectives copies(void) {
  sluice_collectives calls = SLUICE_COLLECTIVES_INIT;
  calls.reserve = reserve;
  calls.start = start;
  calls.test = test;
  calls.wait = wait_for_it;
  return calls;
}
