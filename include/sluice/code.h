/* What functions of sluice.h return. */
#ifndef SLUICE_CODE_H_
#define SLUICE_CODE_H_

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

#endif /* SLUICE_CODE_H_ */
