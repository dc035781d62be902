// sluice: the command line.
#include "apps/sluice/commands/commands.h"

int main(int argc, char** argv) { return sluice::cli::run_command_line(argc, argv); }
