/* Measures MPI's collectives with the loop of measure.h. Build it once with each MPI's compiler wrapper and start it
 * with that MPI's mpirun:   mpicc.openmpi -O2 -std=gnu11 mpi_driver.c -o mpi_driver_openmpi mpirun.openmpi -n 2
 * ./mpi_driver_openmpi --control /dev/shm/new-file --cpus 2
 * --control: a file that does not exist yet; --cpus: how many CPUs the ranks may use together. */
#include "measure.h"
/* after measure.h, which asks for the whole of the C library */
#include <mpi.h>

static int all_reduce(void* context, const float* in, float* out, size_t count) {
  (void)context;
  return MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS;
}

static int broadcast(void* context, float* data, size_t count) {
  (void)context;
  return MPI_Bcast(data, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD) != MPI_SUCCESS;
}

static int barrier(void* context) {
  (void)context;
  return MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS;
}

/* The first line of the library's version text, without what JSON would have to escape. */
static void library_name(char* name) {
  int length = 0;
  MPI_Get_library_version(name, &length);
  for (char* c = name; *c != '\0'; c++) {
    if (*c == '\t' || *c == '"' || *c == '\\') *c = ' ';
    if (*c == '\n') {
      *c = '\0';
      break;
    }
  }
}

int main(int argc, char** argv) {
  if (argc != 5 || strcmp(argv[1], "--control") != 0 || strcmp(argv[3], "--cpus") != 0 || atoi(argv[4]) < 1) {
    fprintf(stderr, "usage: mpirun -n RANKS %s --control FILE --cpus NUMBER\n", argv[0]);
    return 2;
  }
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  library_name(library);
  hb_control* control = ranks <= HB_MAX_RANKS ? hb_map_control(argv[2]) : NULL;
  if (control == NULL) {
    fprintf(stderr, "bench: needs a control file and at most %d ranks\n", HB_MAX_RANKS);
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
  hb_rank self = hb_attach(control, rank, ranks, atoi(argv[4]));
  const hb_ops ops = {NULL, all_reduce, broadcast, barrier, NULL, NULL, NULL, NULL, NULL};
  if (hb_serve(&self, &ops, library) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return 0;
}
