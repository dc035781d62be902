// sluice: the command line.
#include "commands.h"

int main(int argc, char** argv) { return sluice::cli::run_command_line(argc, argv); }
