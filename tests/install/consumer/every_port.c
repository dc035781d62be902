/* As every_function.c, of the functions over aggregators, ports and queues. C99. */
#include "cases.h"
#include "copies.h"

static sluice_memory* make_memory(const sluice_codec* codec) {
  sluice_memory* memory = NULL;
  sluice_options options = SLUICE_OPTIONS_INIT;
  const sluice_tensor tensor = {1, 1, COUNT};
  options.workers = 1, options.feedback = "ef", options.keep_before = 1;
  works(sluice_memory_make(&options, &memory));
  works(sluice_memory_add(memory, codec, &tensor, 1));
  return memory;
}

static sluice_port* ports_over(sluice_memory* memory) {
  sluice_port* port = NULL;
  sluice_collectives calls = copies();
  struct {
    sluice_collectives known;
    char more[16];
  } newer;
  CASE(sluice_port_over);
  refused(sluice_port_over(NULL, &calls, 5, &port), "memory is NULL");
  refused(sluice_port_over(memory, NULL, 5, &port), "collectives is NULL");
  refused(sluice_port_over(memory, &calls, 5, NULL), "port is NULL");
  refused(sluice_port_over(memory, &calls, 0, &port), "timeout 0");
  refused(sluice_port_over(memory, &calls, 1e300, &port), "timeout 1e+300");
  calls.reserve = NULL;
  refused(sluice_port_over(memory, &calls, 5, &port), "collectives.reserve is NULL");
  calls = copies(), calls.start = NULL;
  refused(sluice_port_over(memory, &calls, 5, &port), "collectives.start is NULL");
  calls = copies(), calls.test = NULL;
  refused(sluice_port_over(memory, &calls, 5, &port), "collectives.test is NULL");
  calls = copies(), calls.wait = NULL;
  refused(sluice_port_over(memory, &calls, 5, &port), "collectives.wait is NULL");
  calls = copies(), calls.size = 0;
  refused(sluice_port_over(memory, &calls, 5, &port), "collectives.size is 0");
  calls.size = SIZE_MAX;
  refused(sluice_port_over(memory, &calls, 5, &port), "collectives.size is 18446744073709551615");
  memset(&newer, 0, sizeof newer);
  newer.known = copies(), newer.known.size = sizeof newer, newer.more[5] = 1;
  refused(sluice_port_over(memory, &newer.known, 5, &port), "does not know");
  calls = copies();
  works(sluice_port_over(memory, &calls, 5, &port));
  return port;
}

/* Of either kind; the port goes on. */
static void ports_run(sluice_port* port) {
  sluice_order order = SLUICE_ORDER_INIT;
  sluice_report report = SLUICE_REPORT_INIT;
  sluice_traffic traffic = SLUICE_TRAFFIC_INIT;
  const sluice_entry twice[2] = {{0, COUNT, values, means}, {0, COUNT, values, means}};
  sluice_entry job = {0, COUNT, values, means};
  CASE(sluice_port_run), refused(sluice_port_run(NULL, &order, &job, 1), "port is NULL");
  refused(sluice_port_run(port, NULL, &job, 1), "order is NULL");
  refused(sluice_port_run(port, &order, NULL, 1), "entries is NULL");
  refused(sluice_port_run(port, &order, &job, SIZE_MAX), "entries; accepted");
  refused(sluice_port_run(port, &order, twice, 2), "entry 1: tensor 0 is twice in the bucket");
  job.count = 7;
  refused(sluice_port_run(port, &order, &job, 1), "entry 0 does not fit: 7 coordinates");
  job.count = UINT64_MAX;
  refused(sluice_port_run(port, &order, &job, 1), "entries[0].count is");
  job.count = COUNT, job.tensor = UINT32_MAX;
  refused(sluice_port_run(port, &order, &job, 1), "tensor 4294967295; accepted: below 1");
  job.tensor = 0, order.size = 1;
  refused(sluice_port_run(port, &order, &job, 1), "order.size is 1");
  order.size = sizeof order, order.step = order.number = UINT64_MAX;
  order.digest = order.probe = UINT32_MAX;
  works(sluice_port_run(port, &order, &job, 1));
  works(sluice_port_run(port, &order, NULL, 0));
  CASE(sluice_port_report), refused(sluice_port_report(NULL, &report), "port is NULL");
  refused(sluice_port_report(port, NULL), "report is NULL");
  report.size = 0;
  refused(sluice_port_report(port, &report), "report.size is 0");
  report.size = sizeof report;
  works(sluice_port_report(port, &report));
  CASE(sluice_port_probes), is_true(sluice_port_probes(NULL, NULL, 0) == 0);
  is_true(sluice_port_probes(port, NULL, SIZE_MAX) == 0);
  CASE(sluice_port_traffic), refused(sluice_port_traffic(NULL, &traffic), "port is NULL");
  refused(sluice_port_traffic(port, NULL), "traffic is NULL");
  traffic.size = 3;
  refused(sluice_port_traffic(port, &traffic), "traffic.size is 3");
  traffic.size = sizeof traffic;
  works(sluice_port_traffic(port, &traffic));
}

static void queues_refuse(sluice_queue* queue) {
  sluice_order order = SLUICE_ORDER_INIT;
  sluice_event event = SLUICE_EVENT_INIT;
  sluice_entry job = {0, COUNT, values, means};
  uint64_t number = 7;
  CASE(sluice_queue_put);
  refused(sluice_queue_put(NULL, &order, &job, 1, &number), "queue is NULL");
  refused(sluice_queue_put(queue, NULL, &job, 1, &number), "order is NULL");
  refused(sluice_queue_put(queue, &order, NULL, 1, &number), "entries is NULL");
  refused(sluice_queue_put(queue, &order, &job, SIZE_MAX, &number), "entries; accepted");
  refused(sluice_queue_put(queue, &order, &job, 1, NULL), "number is NULL");
  job.count = UINT64_MAX;
  refused(sluice_queue_put(queue, &order, &job, 1, &number), "entries[0].count is");
  CASE(sluice_queue_put_turn), refused(sluice_queue_put_turn(NULL, &number), "queue is NULL");
  refused(sluice_queue_put_turn(queue, NULL), "number is NULL");
  CASE(sluice_queue_serve), refused(sluice_queue_serve(NULL, 0, &event), "queue is NULL");
  refused(sluice_queue_serve(queue, 0, NULL), "event is NULL");
  refused(sluice_queue_serve(queue, SIZE_MAX, &event), "port 18446744073709551615");
  event.size = 0;
  refused(sluice_queue_serve(queue, 0, &event), "event.size is 0");
  CASE(sluice_queue_close), refused(sluice_queue_close(NULL, 1), "queue is NULL");
  is_true(number == 7);
}

static void queues_serve(sluice_memory* memory, sluice_port* port, sluice_queue* queue) {
  const sluice_order order = SLUICE_ORDER_INIT;
  const sluice_entry job = {0, COUNT, values, means};
  sluice_event event = SLUICE_EVENT_INIT;
  uint64_t number = 7;
  CASE(sluice_queue_put), works(sluice_queue_put(queue, &order, &job, 1, &number));
  is_true(number == 0);
  CASE(sluice_memory_end_step), refused(sluice_memory_end_step(memory), "in flight");
  CASE(sluice_memory_undo_step), refused(sluice_memory_undo_step(memory), "in flight");
  CASE(sluice_queue_put_turn), works(sluice_queue_put_turn(queue, &number));
  CASE(sluice_queue_serve), works(sluice_queue_serve(queue, 0, &event));
  is_true(event.kind == SLUICE_BUCKET && event.number == 0 && event.size == sizeof event);
  works(sluice_queue_serve(queue, 0, &event));
  is_true(event.kind == SLUICE_TURN && event.number == 1);
  CASE(sluice_memory_end_step), works(sluice_memory_end_step(memory));
  CASE(sluice_port_run), works(sluice_port_run(port, &order, &job, 1)); /* in its turn */
  CASE(sluice_queue_close), works(sluice_queue_close(queue, UINT32_MAX));
  CASE(sluice_queue_serve), works(sluice_queue_serve(queue, 0, &event));
  is_true(event.kind == SLUICE_CLOSED);
  CASE(sluice_queue_put);
  is_code(sluice_queue_put(queue, &order, &job, 1, &number), SLUICE_UNAVAILABLE);
  CASE(sluice_queue_put_turn);
  is_code(sluice_queue_put_turn(queue, &number), SLUICE_UNAVAILABLE);
}

static void queues(const sluice_codec* codec) {
  sluice_memory* memory = make_memory(codec);
  sluice_port* ports[2];
  sluice_queue* queue = NULL;
  sluice_event event = SLUICE_EVENT_INIT;
  const sluice_order order = SLUICE_ORDER_INIT;
  const sluice_entry job = {0, COUNT, values, means};
  uint64_t number = 7;
  ports[0] = ports[1] = ports_over(memory);
  ports_run(ports[0]);
  CASE(sluice_queue_make), refused(sluice_queue_make(NULL, 1, 0, &queue), "ports is NULL");
  refused(sluice_queue_make(ports, 1, 0, NULL), "queue is NULL");
  refused(sluice_queue_make(ports, 0, 0, &queue), "port_count is 0");
  refused(sluice_queue_make(ports, SIZE_MAX, 0, &queue), "port_count is 18446744073709551615");
  refused(sluice_queue_make(ports, 1, UINT64_MAX, &queue), "wave is 18446744073709551615");
  refused(sluice_queue_make(ports, 2, 0, &queue), "ports[1] is there twice");
  ports[1] = NULL;
  refused(sluice_queue_make(ports, 2, 0, &queue), "ports[1] is NULL");
  works(sluice_queue_make(ports, 1, 1, &queue));
  refused(sluice_queue_make(ports, 1, 0, &queue), "in another queue");
  queues_refuse(queue);
  queues_serve(memory, ports[0], queue);
  CASE(sluice_queue_free), sluice_queue_free(queue), sluice_queue_free(NULL);
  /* The memory and the port first, and a bucket that never comes. */
  works(sluice_queue_make(ports, 1, 0, &queue));
  works(sluice_queue_put(queue, &order, &job, 1, &number));
  CASE(sluice_memory_free), sluice_memory_free(memory);
  CASE(sluice_port_free), sluice_port_free(ports[0]);
  CASE(sluice_queue_serve), fails = 1;
  is_code(sluice_queue_serve(queue, 0, &event), SLUICE_FAILED);
  is_code(sluice_queue_serve(queue, 0, &event), SLUICE_UNAVAILABLE);
  fails = 0;
  CASE(sluice_queue_free), sluice_queue_free(queue);
}

static void ports(const sluice_codec* codec) {
  sluice_aggregator* aggregator = NULL;
  sluice_memory* memory = NULL;
  sluice_port* port = NULL;
  sluice_options options = SLUICE_OPTIONS_INIT;
  const sluice_tensor tensor = {1, 1, COUNT};
  const char* at;
  CASE(sluice_aggregator_start),
      refused(sluice_aggregator_start(NULL, &aggregator), "addresses is");
  refused(sluice_aggregator_start("127.0.0.1:0", NULL), "aggregator is NULL");
  is_true(sluice_aggregator_start("", &aggregator) != SLUICE_OK);
  is_true(sluice_aggregator_start(",,,", &aggregator) != SLUICE_OK);
  is_true(sluice_aggregator_start("127.0.0.1:99999", &aggregator) != SLUICE_OK);
  works(sluice_aggregator_start("127.0.0.1:0", &aggregator));
  CASE(sluice_aggregator_addresses), is_true(sluice_aggregator_addresses(NULL) == NULL);
  at = sluice_aggregator_addresses(aggregator);
  options.workers = 1;
  works(sluice_memory_make(&options, &memory));
  works(sluice_memory_add(memory, codec, &tensor, 1));
  CASE(sluice_port_open), refused(sluice_port_open(NULL, at, 1, 4, 5, -1, &port), "memory is NULL");
  refused(sluice_port_open(memory, NULL, 1, 4, 5, -1, &port), "aggregators is NULL");
  refused(sluice_port_open(memory, at, 1, 4, 5, -1, NULL), "port is NULL");
  refused(sluice_port_open(memory, at, 1, 0, 5, -1, &port), "window");
  refused(sluice_port_open(memory, at, 1, UINT32_MAX, 5, -1, &port), "window");
  refused(sluice_port_open(memory, at, 1, 4, 0, -1, &port), "timeout 0");
  refused(sluice_port_open(memory, at, 1, 4, -1e300, -1, &port), "timeout");
  is_true(sluice_port_open(memory, "", 1, 4, 5, -1, &port) != SLUICE_OK);
  works(sluice_port_open(memory, at, UINT64_MAX, 4, 30, -1, &port));
  sluice_memory_free(memory); /* before its port */
  ports_run(port);
  CASE(sluice_port_free), sluice_port_free(port), sluice_port_free(NULL);
  CASE(sluice_aggregator_free), sluice_aggregator_free(aggregator, 1e300);
  sluice_aggregator_free(NULL, -1);
}

int main(void) {
  int i;
  sluice_codec* codec = NULL;
  for (i = 0; i < COUNT; ++i) values[i] = (float)(i % 17) - 8;
  works(sluice_codec_make("tide:bits=2", &codec));
  queues(codec);
  ports(codec);
  sluice_codec_free(codec);
  printf("C: %d calls of ports and queues with NULL, 0 and too much\n", cases);
  return 0;
}
