// sluiced: an aggregator as a daemon.
#include "daemon.h"

int main(int argc, char** argv) { return sluice::daemon::run(argc, argv); }
