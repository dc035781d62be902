/* What every_function.c, every_port.c and every_device.c share: calls that must work and calls that
 * must not. */
#pragma once

#include <sluice/device.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASE(function) (current = #function)
enum { COUNT = 1000 };

static const char* current = "";
static int cases = 0;
static float values[COUNT], means[COUNT];

static void fail(const char* what, const char* detail) {
  fprintf(stderr, "%s: %s: %s\n", current, what, detail);
  exit(1);
}

static void works(sluice_code code) {
  ++cases;
  if (code != SLUICE_OK) fail("refused", sluice_last_error());
  if (sluice_last_error()[0] != '\0') fail("left words", sluice_last_error());
}

/* Refused as the caller's mistake, and the words hold these. */
static void refused(sluice_code code, const char* says) {
  ++cases;
  if (code != SLUICE_INVALID_ARGUMENT) fail("not SLUICE_INVALID_ARGUMENT", sluice_last_error());
  if (strstr(sluice_last_error(), says) == NULL) fail(says, sluice_last_error());
}

/* Refused one way or another. */
static void is_code(sluice_code code, sluice_code wanted) {
  ++cases;
  if (code != wanted) fail("another code", sluice_last_error());
}

static void is_true(int truth) {
  ++cases;
  if (!truth) fail("not so", "");
}
