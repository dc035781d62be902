/* A thread opens libsluice (SLUICE_LIBRARY names the file), makes a world on "mpi" and ends; then
 * the library is closed. What it left to be done at the end of the process must still be there. */
#include <dlfcn.h>
#include <pthread.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>

typedef sluice_code (*MakeWorld)(const char*, uint32_t, uint32_t, sluice_world**);
typedef void (*FreeWorld)(sluice_world*);

static void* use(void* file) {
  sluice_world* world;
  const MakeWorld make = (MakeWorld)dlsym(file, "sluice_world_make");
  const FreeWorld give_back = (FreeWorld)dlsym(file, "sluice_world_free");
  if (make("mpi", 0, 0, &world) != SLUICE_OK) return NULL;
  give_back(world);
  return file;
}

int main(void) {
  pthread_t thread;
  void* used = NULL;
  void* const file = dlopen(getenv("SLUICE_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  if (file == NULL || pthread_create(&thread, NULL, use, file) != 0) return 1;
  if (pthread_join(thread, &used) != 0 || used == NULL || dlclose(file) != 0) return 1;
  printf("closed\n");
  return 0;
}
