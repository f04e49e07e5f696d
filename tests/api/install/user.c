/* One rank sums with itself through the C interface. Prints "c: ok". */
#include <hocket/hocket.h>
#include <stdio.h>

static int failed(const char* call, hktResult_t result) {
  if (result == hktSuccess) return 0;
  fprintf(stderr, "%s: %s: %s\n", call, hktGetErrorString(result), hktGetLastError());
  return 1;
}

int main(void) {
  int version = 0;
  hktUniqueId id;
  hktComm_t comm = 0;
  float in[3] = {1.0f, 2.0f, 3.0f}, out[3] = {0.0f, 0.0f, 0.0f};

  if (failed("hktGetVersion", hktGetVersion(&version))) return 1;
  if (version != HKT_VERSION_CODE) {
    fprintf(stderr, "header %d and library %d are of different versions\n", HKT_VERSION_CODE, version);
    return 1;
  }
  if (failed("hktGetUniqueId", hktGetUniqueId(&id))) return 1;
  if (failed("hktCommInitRank", hktCommInitRank(&comm, 1, id, 0, 0))) return 1;
  if (failed("hktAllReduce", hktAllReduce(in, out, 3, hktFloat32, hktSum, comm, 0))) return 1;
  if (failed("hktBarrier", hktBarrier(comm, 0))) return 1;
  if (failed("hktCommDestroy", hktCommDestroy(comm))) return 1;
  if (out[0] != 1.0f || out[1] != 2.0f || out[2] != 3.0f) {
    fprintf(stderr, "wrong sum: %g %g %g\n", out[0], out[1], out[2]);
    return 1;
  }
  puts("c: ok");
  return 0;
}
