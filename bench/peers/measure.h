/* The one measuring loop of bench/: the Hocket driver, the MPI drivers and the floors all run it, so that their figures
 * mean the same. Plain C (C11 and C++20), Linux, no library.
 *
 * A driver is n processes of one host, "ranks", that share a zero-filled control file (hb_control) and each call
 * hb_serve() once. Rank 0 reads commands from standard input, one a line:
 *     COLLECTIVE BYTES MILLISECONDS MIN_SAMPLES cold|hot [VARIANT]      for example: all_reduce 1024 50 5 cold
 * and answers each with one line of JSON on standard output. End of input ends all ranks. Between commands every rank
 * sleeps in the kernel, so several drivers can be alive at once and take turns without disturbing each other.
 *
 * What a figure means. A sample is one batch of back-to-back calls, each on buffers of its own: 64 calls for 8 bytes, 1
 * from 16 KiB up, fewer where calls are so slow that a batch would take longer than HB_SAMPLE_US. All ranks start a
 * batch together (hb_start, not timed). Its time divided by the calls is a rank's time; the largest over the ranks is
 * the sample; p50 is the median of the samples. Between batches, untimed, every input is rewritten and every output
 * compared with its exact expected value; with "hot" the buffers stay untouched and are compared once at the end.
 *
 * switches_per_call and sleeps_per_call are means over all timed calls and ranks: how often a rank's process was taken
 * off its CPU in a call (it yielded, was preempted or slept), and how often of these it slept until it was woken. */
#ifndef HOCKET_BENCH_MEASURE_H
#define HOCKET_BENCH_MEASURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
  HB_MAX_RANKS = 64,
  HB_MAX_SAMPLES = 20000,
  HB_PATTERN = 4093,      /* period of the inputs in floats: prime, so that a misplaced block shows */
  HB_ROTATION = 37,       /* the pattern of rank r starts r * HB_ROTATION floats later */
  HB_MAX_BATCH = 64,      /* calls in a sample, at most */
  HB_BATCH_BYTES = 16384, /* inputs of one sample, at most, where more than one call fits */
  HB_TRIALS = 4,          /* single calls at first: how many fit a sample */
  HB_SAMPLE_US = 4000,    /* a sample is to take no longer, unless one call does */
  HB_WARM_UP = 8,  /* milliseconds before the first sample: two ticks of the scheduler, to part ranks on one CPU */
  HB_OVERTIME = 20 /* a measurement ends after this many times its milliseconds, whatever min_samples says */
};

#define HB_UNDECIDED UINT32_MAX

/* From HB_ALL_GATHER on a buffer has a block for each rank. */
typedef enum {
  HB_QUIT = 0,
  HB_ALL_REDUCE = 1,
  HB_BROADCAST = 2,
  HB_BARRIER = 3,
  HB_ALL_GATHER = 4,
  HB_REDUCE_SCATTER = 5,
  HB_ALL_TO_ALL = 6
} hb_collective;
static const char* const hb_names[] = {"quit",       "all_reduce",     "broadcast", "barrier",
                                       "all_gather", "reduce_scatter", "all_to_all"};

typedef struct {
  hb_collective collective;
  int hot;             /* 1: buffers stay untouched between calls */
  uint64_t bytes;      /* of a rank's (larger) buffer: whole floats, or whole blocks of floats; 0 for a barrier */
  int variant;         /* which of the driver's ways, where it has several; 0 by default */
  double milliseconds; /* how long to measure, unless min_samples needs longer */
  int min_samples;
} hb_command;

/* How often a process has left its CPU so far. */
typedef struct {
  uint64_t all;
  uint64_t sleeps; /* of these: until it was woken */
} hb_switches;

/* One cache line with one word in it, written by one rank at a time. */
typedef struct {
  uint32_t value;
  char pad[60];
} hb_flag;

typedef struct {
  hb_flag issued; /* commands issued so far: rank 0 writes, the others sleep on it */
  hb_flag first;  /* the start with which sampling begins, once rank 0 has decided; before, HB_UNDECIDED */
  hb_flag batch;  /* calls in a sample, from round HB_TRIALS of the measurement on */
  hb_flag last;   /* the start at which it ends */
  hb_command command;
  char pad[64 - sizeof(hb_command) % 64];
  hb_flag arrived[HB_MAX_RANKS]; /* starts that each rank has reached */
  double samples[HB_MAX_RANKS][HB_MAX_SAMPLES];
  hb_switches switches[HB_MAX_RANKS]; /* of the samples */
} hb_control;

/* One rank of the driver; made by hb_attach. */
typedef struct {
  hb_control* control;
  int rank;
  int ranks;
  int crowded; /* more ranks than CPUs: waiting gives the CPU away at once */
  uint32_t starts;
  uint32_t commands;
} hb_rank;

/* The library under test, called on every rank; 0 is success. Element type float32, operation sum, root 0.
 * prepare (may be null) runs once before each measurement; describe (may be null) names what was run, for the answer.
 * blocks (may be null: then such commands are refused) is a collective from HB_ALL_GATHER on, with `count` floats a
 * block. */
typedef struct {
  void* context;
  int (*all_reduce)(void* context, const float* in, float* out, size_t count);
  int (*broadcast)(void* context, float* data, size_t count);
  int (*barrier)(void* context);
  int (*prepare)(void* context, const hb_command* command);
  const char* (*describe)(void* context);
  int (*blocks)(void* context, hb_collective collective, const float* in, float* out, size_t count);
  /* Memory for the buffers of a measurement, 64-byte aligned, both null: any. Null: there is none. */
  void* (*allocate)(void* context, size_t bytes);
  void (*release)(void* context, void* memory);
} hb_ops;

/* The same on every rank. Microseconds per call. */
typedef struct {
  double p10, p50, p99;
  double switches, sleeps; /* per call of a rank */
  int samples;
  int batch;
} hb_result;

static inline double hb_now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static inline hb_switches hb_switches_so_far(void) {
  struct rusage u;
  hb_switches s = {0, 0};
  if (getrusage(RUSAGE_SELF, &u) == 0) {
    s.sleeps = (uint64_t)u.ru_nvcsw;
    s.all = (uint64_t)u.ru_nvcsw + (uint64_t)u.ru_nivcsw;
  }
  return s;
}

static inline size_t hb_least(size_t a, size_t b) { return a < b ? a : b; }

/* Maps the control file at `path`, which every rank may be the first to make. Null and a line on stderr on failure. */
static inline hb_control* hb_map_control(const char* path) {
  void* at = MAP_FAILED;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0 && ftruncate(fd, (off_t)sizeof(hb_control)) == 0) {
    at = mmap(NULL, sizeof(hb_control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (at == MAP_FAILED) {
    fprintf(stderr, "bench: control file %s: %s\n", path, strerror(errno));
  }
  if (fd >= 0) close(fd);
  return at == MAP_FAILED ? NULL : (hb_control*)at;
}

/* `cpus`: how many CPUs all the ranks together may use. */
static inline hb_rank hb_attach(hb_control* control, int rank, int ranks, int cpus) {
  hb_rank r;
  memset(&r, 0, sizeof(r));
  r.control = control;
  r.rank = rank;
  r.ranks = ranks;
  r.crowded = ranks > cpus;
  return r;
}

/* Returns when every rank has called it as often as this one. */
static inline void hb_start(hb_rank* r) {
  const uint32_t now = ++r->starts;
  const unsigned patience = r->crowded ? 64u : 100000u;
  __atomic_store_n(&r->control->arrived[r->rank].value, now, __ATOMIC_RELEASE);
  for (int peer = 0; peer < r->ranks; peer++) {
    unsigned polls = 0;
    while ((int32_t)(__atomic_load_n(&r->control->arrived[peer].value, __ATOMIC_ACQUIRE) - now) < 0) {
      if (++polls > patience) sched_yield();
    }
  }
}

/* Input and expected-output patterns: whole numbers, so that float32 sums are exact in any order. Each table holds two
 * periods, so that a whole period can be read from any place in the first. */
typedef struct {
  float input[2 * HB_PATTERN];
  float sum[2 * HB_PATTERN];
} hb_tables;

static inline void hb_make_tables(hb_tables* t, int ranks) {
  uint32_t x = 12345;
  for (int i = 0; i < HB_PATTERN; i++) {
    x = x * 1664525u + 1013904223u;
    t->input[i] = t->input[i + HB_PATTERN] = (float)(x >> 24);
  }
  for (int i = 0; i < HB_PATTERN; i++) {
    float sum = 0;
    for (int r = 0; r < ranks; r++) sum += t->input[(i + r * HB_ROTATION) % HB_PATTERN];
    t->sum[i] = t->sum[i + HB_PATTERN] = sum;
  }
}

static inline void hb_write(float* data, const float* table, uint64_t first, size_t count) {
  const float* from = table + first % HB_PATTERN;
  while (count > 0) {
    const size_t n = hb_least(count, HB_PATTERN);
    memcpy(data, from, n * sizeof(float));
    data += n;
    count -= n;
  }
}

/* 0, or 1 and a line on stderr that names the first wrong element. */
static inline int hb_compare(const hb_rank* r, const float* data, const float* table, uint64_t first, size_t count) {
  const float* from = table + first % HB_PATTERN;
  for (size_t done = 0; done < count; done += HB_PATTERN) {
    const size_t n = hb_least(count - done, HB_PATTERN);
    if (memcmp(data + done, from, n * sizeof(float)) == 0) continue;
    for (size_t i = 0; i < n; i++) {
      if (data[done + i] != from[i]) {
        fprintf(stderr, "bench: wrong result on rank %d: element %zu of %zu is %g, expected %g\n", r->rank, done + i,
                count, (double)data[done + i], (double)from[i]);
        return 1;
      }
    }
  }
  return 0;
}

static inline int hb_by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static inline int hb_summarise(const hb_rank* r, int samples, int batch, hb_result* result) {
  double* worst = (double*)malloc(sizeof(double) * (size_t)samples);
  if (worst == NULL) return 1;
  for (int s = 0; s < samples; s++) {
    worst[s] = 0;
    for (int p = 0; p < r->ranks; p++) {
      if (r->control->samples[p][s] > worst[s]) worst[s] = r->control->samples[p][s];
    }
  }
  qsort(worst, (size_t)samples, sizeof(double), hb_by_value);
  result->p10 = worst[samples / 10];
  result->p50 = worst[samples / 2];
  result->p99 = worst[(int)((double)samples * 0.99)];
  result->samples = samples;
  result->batch = batch;
  result->switches = result->sleeps = 0;
  for (int p = 0; p < r->ranks; p++) {
    const double calls = (double)samples * batch * r->ranks;
    result->switches += (double)r->control->switches[p].all / calls;
    result->sleeps += (double)r->control->switches[p].sleeps / calls;
  }
  free(worst);
  return 0;
}

/* The buffers of one measurement: inputs and outputs of `batch` calls, the most in a sample, `stride` floats apart. */
typedef struct {
  float *in, *out;
  size_t count, stride;
  int batch;
  hb_tables tables;
} hb_buffers;

static inline float* hb_allocate(const hb_ops* ops, size_t floats) {
  void* at = NULL;
  const size_t bytes = floats * sizeof(float) + 64;
  if (ops->allocate != NULL) {
    at = ops->allocate(ops->context, bytes);
  } else if (posix_memalign(&at, 64, bytes) != 0) {
    at = NULL;
  }
  if (at == NULL) return NULL;
  memset(at, 0xff, bytes); /* touch every page; 0xff.. is a NaN, so that an output never written is found */
  return (float*)at;
}

static inline hb_buffers* hb_make_buffers(const hb_ops* ops, const hb_command* c, int ranks) {
  hb_buffers* b = (hb_buffers*)calloc(1, sizeof(hb_buffers));
  if (b == NULL) return NULL;
  b->count = (size_t)(c->bytes / sizeof(float));
  b->stride = (b->count + 15) / 16 * 16;
  b->batch = c->bytes == 0 ? HB_MAX_BATCH : (int)hb_least((size_t)(HB_BATCH_BYTES / c->bytes), HB_MAX_BATCH);
  if (b->batch == 0) b->batch = 1;
  b->in = hb_allocate(ops, b->stride * (size_t)b->batch);
  b->out = hb_allocate(ops, b->stride * (size_t)b->batch);
  hb_make_tables(&b->tables, ranks);
  return b;
}

static inline void hb_release(const hb_ops* ops, float* memory) {
  if (memory != NULL && ops->release != NULL) ops->release(ops->context, memory);
  if (ops->release == NULL) free(memory);
}

static inline void hb_free_buffers(const hb_ops* ops, hb_buffers* b) {
  if (b == NULL) return;
  hb_release(ops, b->in);
  hb_release(ops, b->out);
  free(b);
}

/* The place of call `i` of a round in the patterns; every call of a measurement has another. */
static inline uint64_t hb_place(uint64_t round, int i) { return round * (uint64_t)HB_MAX_BATCH + (uint64_t)i; }

static inline void hb_write_inputs(const hb_rank* r, const hb_command* c, hb_buffers* b, uint64_t round) {
  if (c->collective == HB_BARRIER || (c->collective == HB_BROADCAST && r->rank != 0)) return;
  float* const to = c->collective == HB_BROADCAST ? b->out : b->in;
  const size_t count = c->collective == HB_ALL_GATHER ? b->count / (size_t)r->ranks : b->count;
  for (int i = 0; i < b->batch; i++) {
    const uint64_t first = hb_place(round, i) + (uint64_t)(r->rank * HB_ROTATION);
    hb_write(to + (size_t)i * b->stride, b->tables.input, first, count);
  }
}

/* What all-gather and all-to-all have put into the output: a block of each rank's input. */
static inline int hb_compare_blocks(const hb_rank* r, const float* out, const hb_buffers* b, uint64_t first) {
  const size_t block = b->count / (size_t)r->ranks;
  for (int p = 0; p < r->ranks; p++) {
    const uint64_t theirs = first + (uint64_t)(p * HB_ROTATION);
    if (hb_compare(r, out + (size_t)p * block, b->tables.input, theirs, block) != 0) return 1;
  }
  return 0;
}

/* Of the `calls` calls made in the round. */
static inline int hb_read_outputs(const hb_rank* r, const hb_command* c, const hb_buffers* b, uint64_t round,
                                  int calls) {
  const size_t block = b->count / (size_t)r->ranks;
  const uint64_t mine = (uint64_t)r->rank * (uint64_t)block; /* where this rank's block begins */
  int bad = 0;
  for (int i = 0; i < calls && bad == 0 && c->collective != HB_BARRIER; i++) {
    const float* const out = b->out + (size_t)i * b->stride;
    const uint64_t first = hb_place(round, i);
    switch (c->collective) {
      case HB_ALL_REDUCE:
        bad = hb_compare(r, out, b->tables.sum, first, b->count);
        break;
      case HB_REDUCE_SCATTER:
        bad = hb_compare(r, out, b->tables.sum, first + mine, block);
        break;
      case HB_ALL_GATHER:
        bad = hb_compare_blocks(r, out, b, first);
        break;
      case HB_ALL_TO_ALL:
        bad = hb_compare_blocks(r, out, b, first + mine);
        break;
      default:
        bad = hb_compare(r, out, b->tables.input, first, b->count);
    }
  }
  return bad;
}

static inline int hb_call(const hb_rank* r, const hb_ops* ops, const hb_command* c, hb_buffers* b, int i) {
  const size_t at = (size_t)i * b->stride;
  switch (c->collective) {
    case HB_ALL_REDUCE:
      return ops->all_reduce(ops->context, b->in + at, b->out + at, b->count);
    case HB_BROADCAST:
      return ops->broadcast(ops->context, b->out + at, b->count);
    case HB_BARRIER:
      return ops->barrier(ops->context);
    default:
      return ops->blocks(ops->context, c->collective, b->in + at, b->out + at, b->count / (size_t)r->ranks);
  }
}

/* A barrier has no output to compare: no rank may leave it before all have reached it. */
static inline int hb_check_barrier(hb_rank* r, const hb_ops* ops) {
  for (int round = 0; round < 3; round++) {
    r->control->samples[r->rank][0] = -1;
    hb_start(r);
    double reached = hb_now_us();
    __atomic_store(&r->control->samples[r->rank][0], &reached, __ATOMIC_RELEASE);
    if (ops->barrier(ops->context) != 0) return 1;
    const double left = hb_now_us();
    for (int p = 0; p < r->ranks; p++) {
      __atomic_load(&r->control->samples[p][0], &reached, __ATOMIC_ACQUIRE);
      if (reached < 0 || reached > left) {
        fprintf(stderr, "bench: rank %d left the barrier before rank %d had reached it\n", r->rank, p);
        return 1;
      }
    }
    hb_start(r);
  }
  return 0;
}

/* How many calls make a sample, from the trials whose times all ranks have left by now: all but the last. */
static inline int hb_fitting(const hb_rank* r, int most) {
  double fastest = 1e12;
  for (int trial = 0; trial < HB_TRIALS - 1; trial++) {
    double slowest = 0;
    for (int p = 0; p < r->ranks; p++) {
      if (r->control->samples[p][trial] > slowest) slowest = r->control->samples[p][trial];
    }
    if (slowest < fastest) fastest = slowest;
  }
  const double fit = (double)HB_SAMPLE_US / (fastest > 0.01 ? fastest : 0.01);
  return fit < 1 ? 1 : fit < most ? (int)fit : most;
}

/* Rank 0, before each start: how many calls a sample has, whether sampling begins or ends with this start. Numbers of
 * starts, not a phase, because a rank may read them late, when rank 0 has gone on to decide about the next start. */
static inline void hb_decide(hb_rank* r, const hb_command* c, int most, uint64_t round, int samples, double* begun) {
  hb_control* control = r->control;
  const double spent = (hb_now_us() - *begun) * 1e-3;
  const uint32_t next = r->starts + 1;
  const uint64_t trials = most > 1 ? HB_TRIALS : 1;
  if (round == 0) {
    __atomic_store_n(&control->first.value, HB_UNDECIDED, __ATOMIC_RELAXED);
    __atomic_store_n(&control->last.value, HB_UNDECIDED, __ATOMIC_RELAXED);
  } else if (round == HB_TRIALS && most > 1) {
    __atomic_store_n(&control->batch.value, (uint32_t)hb_fitting(r, most), __ATOMIC_RELAXED);
  } else if (control->first.value == HB_UNDECIDED) {
    if (round < trials || spent < (double)HB_WARM_UP) return;
    __atomic_store_n(&control->first.value, next, __ATOMIC_RELAXED);
    *begun = hb_now_us();
  } else if ((spent >= c->milliseconds && samples >= c->min_samples) || samples == HB_MAX_SAMPLES ||
             (spent >= c->milliseconds * (double)HB_OVERTIME && samples > 0)) {
    __atomic_store_n(&control->last.value, next, __ATOMIC_RELAXED);
  }
}

/* Collective over the ranks. 0, or 1 after a line on stderr: the caller ends the process, and with it the driver. */
static inline int hb_measure(hb_rank* r, const hb_ops* ops, const hb_command* c, hb_result* result) {
  hb_buffers* b = hb_make_buffers(ops, c, r->ranks);
  if (b == NULL || b->in == NULL || b->out == NULL) {
    fprintf(stderr, "bench: no memory for buffers of %" PRIu64 " bytes\n", c->bytes);
    hb_free_buffers(ops, b);
    return 1;
  }
  int bad = c->collective == HB_BARRIER && hb_check_barrier(r, ops) != 0;
  int samples = 0, calls = 1;
  hb_switches* const switches = &r->control->switches[r->rank];
  switches->all = switches->sleeps = 0;
  double begun = hb_now_us();
  for (uint64_t round = 0; !bad; round++) {
    if (!c->hot || round == 0) hb_write_inputs(r, c, b, round);
    if (r->rank == 0) hb_decide(r, c, b->batch, round, samples, &begun);
    hb_start(r);
    if (__atomic_load_n(&r->control->last.value, __ATOMIC_RELAXED) <= r->starts) break;
    const int warm = __atomic_load_n(&r->control->first.value, __ATOMIC_RELAXED) > r->starts;
    if (round == HB_TRIALS && b->batch > 1) calls = (int)__atomic_load_n(&r->control->batch.value, __ATOMIC_RELAXED);
    const hb_switches before = hb_switches_so_far();
    const double t0 = hb_now_us();
    for (int i = 0; i < calls; i++) bad |= hb_call(r, ops, c, b, i);
    const double t1 = hb_now_us();
    const hb_switches after = hb_switches_so_far();
    if (warm && round < HB_TRIALS) r->control->samples[r->rank][round] = t1 - t0;
    if (!warm) {
      r->control->samples[r->rank][samples++] = (t1 - t0) / calls;
      switches->all += after.all - before.all;
      switches->sleeps += after.sleeps - before.sleeps;
    }
    if (bad) fprintf(stderr, "bench: a call of %" PRIu64 " bytes failed on rank %d\n", c->bytes, r->rank);
    if (!bad && !c->hot) bad = hb_read_outputs(r, c, b, round, calls);
  }
  if (!bad && c->hot) bad = hb_read_outputs(r, c, b, 0, calls);
  if (!bad) bad = hb_summarise(r, samples, calls, result);
  if (!bad) hb_start(r); /* no rank writes new samples before all have read these */
  hb_free_buffers(ops, b);
  return bad;
}

static inline int hb_parse(const hb_rank* r, const hb_ops* ops, const char* line, hb_command* c) {
  char name[16], mode[8], variant[8] = "0", rest[2];
  memset(c, 0, sizeof(*c));
  const int fields = sscanf(line, "%15s %" SCNu64 " %lf %d %7s %7s %1s", name, &c->bytes, &c->milliseconds,
                            &c->min_samples, mode, variant, rest);
  if (fields != 5 && fields != 6) return 1;
  if (strspn(variant, "0123456789") != strlen(variant)) return 1;
  c->variant = atoi(variant);
  for (int i = HB_ALL_REDUCE; i <= (ops->blocks != NULL ? HB_ALL_TO_ALL : HB_BARRIER); i++) {
    if (strcmp(name, hb_names[i]) == 0) c->collective = (hb_collective)i;
  }
  c->hot = strcmp(mode, "hot") == 0;
  if (c->collective == HB_QUIT || (!c->hot && strcmp(mode, "cold") != 0)) return 1;
  const size_t unit = sizeof(float) * (size_t)(c->collective >= HB_ALL_GATHER ? r->ranks : 1);
  if (c->collective == HB_BARRIER ? c->bytes != 0 : c->bytes == 0 || c->bytes % unit != 0) return 1;
  return c->milliseconds <= 0 || c->min_samples < 1;
}

/* Rank 0: the next valid command from standard input; a bad line is answered and skipped. */
static inline hb_command hb_read_command(const hb_rank* r, const hb_ops* ops) {
  char line[256];
  hb_command c;
  memset(&c, 0, sizeof(c));
  while (fgets(line, sizeof(line), stdin) != NULL) {
    if (hb_parse(r, ops, line, &c) == 0) return c;
    printf(
        "{\"error\":\"expected: all_reduce|broadcast|barrier%s BYTES MILLISECONDS MIN_SAMPLES cold|hot [VARIANT]\"}\n",
        ops->blocks != NULL ? "|all_gather|reduce_scatter|all_to_all" : "");
    fflush(stdout);
  }
  c.collective = HB_QUIT;
  return c;
}

static inline void hb_next_command(hb_rank* r, const hb_ops* ops, hb_command* c) {
  uint32_t* issued = &r->control->issued.value;
  if (r->rank == 0) {
    r->control->command = hb_read_command(r, ops);
    __atomic_store_n(issued, ++r->commands, __ATOMIC_RELEASE);
    syscall(SYS_futex, issued, FUTEX_WAKE, HB_MAX_RANKS, NULL, NULL, 0);
  } else {
    while (__atomic_load_n(issued, __ATOMIC_ACQUIRE) == r->commands) {
      syscall(SYS_futex, issued, FUTEX_WAIT, r->commands, NULL, NULL, 0);
    }
    r->commands++;
  }
  *c = r->control->command;
}

/* Serves commands until the end of input; returns the process's exit status. `library` goes into the first line that
 * rank 0 prints, which says that all is up. */
static inline int hb_serve(hb_rank* r, const hb_ops* ops, const char* library) {
  hb_command c;
  hb_start(r);
  if (r->rank == 0) {
    printf("{\"ready\":true,\"ranks\":%d,\"library\":\"%s\"}\n", r->ranks, library);
    fflush(stdout);
  }
  for (;;) {
    hb_result result;
    hb_next_command(r, ops, &c);
    if (c.collective == HB_QUIT) return 0;
    if (ops->prepare != NULL && ops->prepare(ops->context, &c) != 0) return 1;
    if (hb_measure(r, ops, &c, &result) != 0) return 1;
    if (r->rank != 0) continue;
    printf("{\"collective\":\"%s\",\"bytes\":%" PRIu64
           ",\"ranks\":%d,\"hot\":%s,\"samples\":%d,\"batch\":%d,"
           "\"p10_us\":%.4f,\"p50_us\":%.4f,\"p99_us\":%.4f,\"switches_per_call\":%.5f,"
           "\"sleeps_per_call\":%.5f,\"detail\":\"%s\"}\n",
           hb_names[c.collective], c.bytes, r->ranks, c.hot ? "true" : "false", result.samples, result.batch,
           result.p10, result.p50, result.p99, result.switches, result.sleeps,
           ops->describe != NULL ? ops->describe(ops->context) : "");
    fflush(stdout);
  }
}

#endif
