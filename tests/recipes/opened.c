/* The functions of libsluice that the examples use, for programs that are not linked with it: it is
 * opened at run time, its names stay its own, and it is closed when the codec is freed, which is
 * the examples' last call. SLUICE_LIBRARY names the file. */
#include <dlfcn.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>

static void* file;

static void* symbol(const char* name) {
  if (file == NULL) file = dlopen(getenv("SLUICE_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  void* const found = file == NULL ? NULL : dlsym(file, name);
  if (found != NULL) return found;
  fprintf(stderr, "opened: %s\n", dlerror());
  exit(1);
}

#define FORWARD(result, name, parameters, arguments) \
  result name parameters { return ((result(*) parameters)symbol(#name))arguments; }

FORWARD(const char*, sluice_last_error, (void), ())
FORWARD(sluice_code, sluice_world_make,
        (const char* carrier, uint32_t workers, uint32_t window, sluice_world** world),
        (carrier, workers, window, world))
FORWARD(void, sluice_world_free, (sluice_world * world), (world))
FORWARD(sluice_code, sluice_codec_make, (const char* spec, sluice_codec** codec), (spec, codec))
FORWARD(sluice_code, sluice_group_make,
        (sluice_world * world, const sluice_codec* codec, const sluice_options* options,
         const sluice_tensor* tensors, size_t count, sluice_group** group),
        (world, codec, options, tensors, count, group))
FORWARD(sluice_code, sluice_group_reduce,
        (sluice_group * group, uint64_t step, const sluice_entry* jobs, size_t count),
        (group, step, jobs, count))
FORWARD(void, sluice_group_free, (sluice_group * group), (group))

void sluice_codec_free(sluice_codec* codec) {
  ((void (*)(sluice_codec*))symbol("sluice_codec_free"))(codec);
  dlclose(file);
}
