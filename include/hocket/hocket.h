/* Hocket: collective communication for processes that train models together. C ABI.
 *
 * Rules for the whole interface
 * - Every function returns hktResult_t; hktGetLastError() has the text of the calling thread's last failure.
 * - A communicator is used by one thread at a time; different communicators are independent.
 *   hktCommAbort and hktCommGetAsyncError may be called from any thread at any time.
 * - All ranks of a communicator issue the same collectives in the same order.
 * - Counts are in elements and 64 bits wide. A count of 0 is valid and allows null buffers.
 * - sendbuf == recvbuf means in place; where one buffer is a block of the other, it is in place if it lies where that
 *   block does. Any other overlap is an invalid argument.
 * - Buffers belong to the caller; Hocket uses them until the call has returned or its request is done.
 * - After fork() a communicator is unusable in the child (hktInvalidUsage) and stays usable in the parent.
 */
#ifndef HOCKET_HOCKET_H
#define HOCKET_HOCKET_H

#include <stddef.h>
#include <stdint.h>

#define HKT_MAJOR 0
#define HKT_MINOR 1
#define HKT_PATCH 0
#define HKT_VERSION(x, y, z) ((x) * 10000 + (y) * 100 + (z))
#define HKT_VERSION_CODE HKT_VERSION(HKT_MAJOR, HKT_MINOR, HKT_PATCH)

#if defined(__GNUC__)
#define HKT_API __attribute__((visibility("default")))
#else
#define HKT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Results. Values are final. */
typedef enum {
  hktSuccess = 0,
  hktDeviceError = 1,     /* a CUDA call failed */
  hktSystemError = 2,     /* a system call failed: the text says which, on what, and errno */
  hktInternalError = 3,   /* a fault in Hocket itself */
  hktInvalidArgument = 4, /* an argument is wrong by itself */
  hktInvalidUsage = 5,    /* the call is wrong here: order, state, environment */
  hktRemoteError = 6,     /* another rank died or failed: the text names it */
  hktInProgress = 7,
  hktTimeout = 8,  /* a deadline passed: the text names the ranks waited for */
  hktMismatch = 9, /* the ranks called different collectives: the text names both calls */
  hktAborted = 10  /* hktCommAbort was called */
} hktResult_t;

/* Element types. Values are final. */
typedef enum {
  hktInt8 = 0,
  hktUint8 = 1,
  hktInt32 = 2,
  hktUint32 = 3,
  hktInt64 = 4,
  hktUint64 = 5,
  hktFloat16 = 6,
  hktFloat32 = 7,
  hktFloat64 = 8,
  hktBfloat16 = 9,
  hktFloat8e4m3 = 10, /* 4 bits of exponent, 3 of mantissa; no infinity; largest value 448 */
  hktFloat8e5m2 = 11, /* 5 bits of exponent, 2 of mantissa; infinity and NaN as in IEEE 754; largest value 57344 */
  hktInt16 = 12,
  hktUint16 = 13,
  hktBool = 14,      /* a byte; 0 is false, anything else true */
  hktComplex64 = 15, /* two 32-bit floats: real part, imaginary part */
  hktComplex128 = 16 /* two 64-bit floats */
} hktDataType_t;

/* Reductions. Values are final. docs/types.md says which type takes which; the others are hktInvalidArgument.
 * - Integers wrap. hktAvg divides the sum by the number of ranks (integers: after the wrapping sum, towards zero).
 * - 8-bit and 16-bit floats accumulate in 32 bits with one rounding (to nearest, ties to even) on each rank that folds.
 *   8-bit floats saturate: what is too large, infinite too, becomes the largest finite value of its sign. An infinity
 *   lives on inside the fold of one rank only, so its sum with another one depends on who folds what.
 * - min and max return NaN if an operand is one. A NaN result is always the same: positive, quiet, payload 0.
 * - Results of hktBool are 0 or 1: sum and max are or, prod and min are and, bitwise operations are the logical ones.
 * - Complex products are (ac - bd) + (ad + bc)i, each operation rounded, nothing fused.
 * - Logical operations take nonzero for true and give 0 or 1 in the type.
 * - What only one rank contributes is copied, bit for bit. */
typedef enum {
  hktSum = 0,
  hktProd = 1,
  hktMax = 2,
  hktMin = 3,
  hktAvg = 4,
  hktBitAnd = 5, /* bitwise and logical operations: integers and hktBool */
  hktBitOr = 6,
  hktBitXor = 7,
  hktLogicalAnd = 8,
  hktLogicalOr = 9,
  hktLogicalXor = 10,
  hktRedOpLast = 0x7fffffff /* no operation: handles of operations that a program makes lie between */
} hktRedOp_t;

typedef struct hktComm* hktComm_t;
typedef struct hktRequest* hktRequest_t;
typedef struct hktRegistration* hktRegistration_t;
typedef void* hktStream_t;

/* Host memory, no stream. (A null stream is CUDA's legacy default stream, as in NCCL and PyTorch.) */
#define HKT_STREAM_HOST ((hktStream_t)(intptr_t) - 3)

/* Identifies a communicator to be: made on one rank, given to all the others by any means. */
typedef struct {
  char internal[128];
} hktUniqueId;

/* What the bits of a reduction may depend on; each class has what the ones before it have (docs/determinism.md).
 * R1: all ranks get the same bits. Always.
 * R2: they depend on the ranks' elements alone, not on the size, the place in the buffer, or what is chosen by them.
 * R3: nor on where the ranks are and how they are connected.
 * R4: sums and averages of 16-bit to 64-bit floats and of complex numbers do not depend on the order or the number of
 *     the ranks either, only on the elements and (averages) how many there are.
 * Values are final. */
typedef enum {
  HKT_DETERMINISM_DEFAULT = 0, /* HOCKET_DETERMINISM or R1; of a communicator made from another one: its parent's */
  HKT_DETERMINISM_R1 = 1,
  HKT_DETERMINISM_R2 = 2,
  HKT_DETERMINISM_R3 = 3,
  HKT_DETERMINISM_R4 = 4
} hktDeterminism_t;

/* Settings of a communicator. Initialise with HKT_CONFIG_INITIALIZER, then change fields. */
typedef struct {
  size_t size;
  uint32_t magic;
  uint32_t version;
  int64_t init_timeout_ms; /* for the whole of bring-up; HKT_UNDEFINED: HOCKET_INIT_TIMEOUT or 30 s */
  int64_t timeout_ms;      /* for each call; HKT_UNDEFINED: HOCKET_TIMEOUT or 600 s */
  const char* transport;   /* "auto", "shm", "tcp"; null: HOCKET_TRANSPORT or auto */
  /* Programs older than these fields have a smaller config, in which they count as 0. */
  uint32_t determinism; /* an hktDeterminism_t, the same on all ranks */
  uint32_t reserved;    /* 0 */
} hktConfig_t;
#define HKT_CONFIG_MAGIC 0x686b7463u
#define HKT_UNDEFINED INT64_MIN
#define HKT_CONFIG_INITIALIZER \
  {sizeof(hktConfig_t), HKT_CONFIG_MAGIC, HKT_VERSION_CODE, HKT_UNDEFINED, HKT_UNDEFINED, 0, HKT_DETERMINISM_DEFAULT, 0}

/* Options of one call; a null pointer means: block, host memory, the communicator's deadline.
 * Initialise with HKT_CALL_OPTIONS_INITIALIZER, then change fields. */
typedef struct {
  size_t size;
  uint32_t version;
  uint32_t reserved;     /* 0 */
  hktStream_t stream;    /* HKT_STREAM_HOST */
  hktRequest_t* request; /* null: blocking; else the call returns at once and leaves a request here */
  int64_t timeout_ms;    /* HKT_UNDEFINED: the communicator's */
  const char* label;     /* shown in errors and logs; may be null */
} hktCallOptions_t;
#define HKT_CALL_OPTIONS_INITIALIZER \
  {sizeof(hktCallOptions_t), HKT_VERSION_CODE, 0, HKT_STREAM_HOST, 0, HKT_UNDEFINED, 0}

/* A key-value store of the caller's, through which ranks find each other. All three are called from the initialising
 * thread only; `ctx` is passed through. Values are binary. Each returns 0 for success.
 * put:  stores `size` bytes under `key`; a key is written once.
 * get:  copies at most `*size` bytes of the value to `value` and sets `*size` to its full length; the key exists.
 * wait: returns 0 as soon as `key` exists, another value when `timeout_ms` has passed first. */
typedef struct {
  size_t size;
  void* ctx;
  int (*put)(void* ctx, const char* key, const void* value, size_t size);
  int (*get)(void* ctx, const char* key, void* value, size_t* size);
  int (*wait)(void* ctx, const char* key, int64_t timeout_ms);
} hktStore_t;

/* Library. */
HKT_API hktResult_t hktGetVersion(int* version);
HKT_API const char* hktGetErrorString(hktResult_t result); /* static text, never null */
HKT_API const char* hktGetLastError(void); /* of this thread; valid until its next failure; never null */
HKT_API hktResult_t hktGetTypeSize(hktDataType_t type, size_t* bytes);

/* Bring-up. All ranks call one of these with the same number of ranks; each blocks until all are there or the deadline
 * (config.init_timeout_ms) passes. On failure *comm is null and nothing is left behind. */
HKT_API hktResult_t hktGetUniqueId(hktUniqueId* id);
HKT_API hktResult_t hktCommInitRank(hktComm_t* comm, int nranks, hktUniqueId id, int rank, const hktConfig_t* config);
HKT_API hktResult_t hktCommInitUrl(hktComm_t* comm, const char* url, const hktConfig_t* config);
HKT_API hktResult_t hktCommInitEnv(hktComm_t* comm, const hktConfig_t* config); /* HOCKET_INIT, default env:// */
HKT_API hktResult_t hktCommInitStore(hktComm_t* comm, int nranks, int rank, const hktStore_t* store,
                                     const hktConfig_t* config);

/* Communicators made from a communicator: quick, and without a new meeting point. They share files, memory and ports
 * with their parent and nothing else: calls, errors, aborts and destruction of the one never touch the other, and
 * different threads may use them at the same time. Each is a blocking call of the parent, to be made in the same order
 * by the ranks concerned; that these disagree or stay away until config.init_timeout_ms is an error that the parent
 * does not survive. That the new communicator cannot be made is an error on all its ranks, and the parent goes on.
 * config may be null; what it leaves unset is the parent's. config.transport must be null or the parent's. */
#define HKT_SPLIT_NOCOLOR (-1)
/* All ranks of the parent call it. Those with the same color >= 0 form a communicator, ordered by key and then by their
 * rank in the parent. HKT_SPLIT_NOCOLOR takes part and gets *comm = null. */
HKT_API hktResult_t hktCommSplit(hktComm_t parent, int color, int key, hktComm_t* comm, const hktConfig_t* config);
/* All ranks of the parent call it: the same ranks in the same order. */
HKT_API hktResult_t hktCommDup(hktComm_t parent, hktComm_t* comm, const hktConfig_t* config);
/* Only the listed ranks of the parent call it, all with the same list and the same tag; ranks[i] becomes rank i. */
HKT_API hktResult_t hktCommCreate(hktComm_t parent, const int* ranks, int nranks, int tag, hktComm_t* comm,
                                  const hktConfig_t* config);
/* All ranks call it, as the last call: returns when all have, all work is done and sent, and the ranks may be destroyed
 * in any order. Errors of earlier calls that had not been noticed show here. */
HKT_API hktResult_t hktCommFinalize(hktComm_t comm);

HKT_API hktResult_t hktCommRank(hktComm_t comm, int* rank);
HKT_API hktResult_t hktCommCount(hktComm_t comm, int* count);
/* The first error that hit the communicator outside or inside a call, hktSuccess if none. Any thread. */
HKT_API hktResult_t hktCommGetAsyncError(hktComm_t comm, hktResult_t* async);
/* Makes this and every other rank's present and later calls fail; never blocks. Any thread. */
HKT_API hktResult_t hktCommAbort(hktComm_t comm);
/* Releases the communicator, also after errors and with dead peers. The handle is invalid afterwards. */
HKT_API hktResult_t hktCommDestroy(hktComm_t comm);

/* Memory that other processes of the host can map. Large messages of it are not copied on the way: peers read inputs
 * where they lie and write results where they belong. What it saves, and for which collectives: docs/protocols.md.
 *
 * Zeroed, page-aligned memory of at least `bytes` > 0, all of it there: touching it never fails. Any thread. After
 * fork() both processes have the same memory. */
HKT_API hktResult_t hktMemAlloc(void** ptr, size_t bytes);
/* Not while it is registered. `ptr` null: nothing. Any thread. */
HKT_API hktResult_t hktMemFree(void* ptr);
/* Collective. Lets later calls of this communicator use `bytes` of memory at `ptr`, wherever their buffers lie in it,
 * without copies: memory of hktMemAlloc, or a file that the program has mapped MAP_SHARED and writable. Private memory
 * is an invalid argument. Ranks need not give the same size, nor all something: 0 bytes takes part without. Calls may
 * use what is registered on some ranks only, with the same results. A rank that cannot map a peer's memory (another
 * host, another PID namespace) says so in its log and has it copied. At most 64 registrations at a time, which do not
 * overlap. Between the failure of a call and the end of the communicator peers may still write to registered outputs of
 * that call. */
HKT_API hktResult_t hktCommRegister(hktComm_t comm, void* ptr, size_t bytes, hktRegistration_t* registration);
/* Collective, after all collectives issued before. When the communicator has failed each rank does it by itself, and
 * destroying the communicator does it, too. */
HKT_API hktResult_t hktCommDeregister(hktComm_t comm, hktRegistration_t registration);

/* Operations of a program's own, for all collectives of one communicator that reduce. All ranks make the same ones in
 * the same order; nothing is sent. A handle that was destroyed, or comes from another communicator, is an invalid
 * argument.
 *
 * sum over all ranks r of scalar_r * sendbuf of r, scaled and rounded before the sum. `scalar` is one element of
 * `type`, read now, and need not be equal on all ranks; the operation takes this type only. */
HKT_API hktResult_t hktRedOpCreatePreMulSum(hktRedOp_t* op, const void* scalar, hktDataType_t type, hktComm_t comm);
/* result[i] = left[i] op right[i] for i < count. `result` may be `left` or `right`, and is no other part of them.
 * Called on the thread that makes the collective or waits for anything, or on the progress thread, as often as it
 * takes, with pieces of the vector aligned to their elements if the buffers are; for different communicators maybe at
 * the same time. Must not throw, nor call Hocket: but for hktCommRank, hktCommCount, hktCommAbort and what takes no
 * communicator or request, that is an invalid usage. A child that it forks must end, or exec, before it returns. */
typedef void (*hktReduceFn)(const void* left, const void* right, void* result, size_t count, hktDataType_t type,
                            void* context);
/* Takes every type. The operation has to be associative. commutative 0: operands are folded in the order of ranks, in
 * whatever brackets. `context` is passed through and lives until the operation is destroyed. */
HKT_API hktResult_t hktRedOpCreate(hktRedOp_t* op, hktReduceFn fn, int commutative, void* context, hktComm_t comm);
/* Not while a call of the communicator runs, nor with calls that use it outstanding or in an open group. */
HKT_API hktResult_t hktRedOpDestroy(hktRedOp_t op, hktComm_t comm);

/* Collectives. */
/* recvbuf[i] = op over all ranks of sendbuf[i], i < count; the same bits on every rank. */
HKT_API hktResult_t hktAllReduce(const void* sendbuf, void* recvbuf, size_t count, hktDataType_t type, hktRedOp_t op,
                                 hktComm_t comm, const hktCallOptions_t* options);
/* hktAllReduce of nbufs buffers in one call: recvbufs[b][i] = op over all ranks of sendbufs[b][i], i < counts[b]. Small
 * buffers are reduced many at a time, so that a long list of them takes little longer than one buffer of all their
 * bytes. counts are equal on all ranks and are compared. In place by buffer: sendbufs[b] == recvbufs[b]; otherwise no
 * buffer shares a byte with a recvbuf. Where counts[b] is 0 pointers may be null; where nbufs is, the arrays. */
HKT_API hktResult_t hktAllReduceList(const void* const* sendbufs, void* const* recvbufs, const size_t* counts,
                                     size_t nbufs, hktDataType_t type, hktRedOp_t op, hktComm_t comm,
                                     const hktCallOptions_t* options);
/* recvbuf = root's sendbuf; sendbuf is read on the root only and may be null elsewhere. */
HKT_API hktResult_t hktBroadcast(const void* sendbuf, void* recvbuf, size_t count, hktDataType_t type, int root,
                                 hktComm_t comm, const hktCallOptions_t* options);
/* Returns after every rank has called it. */
HKT_API hktResult_t hktBarrier(hktComm_t comm, const hktCallOptions_t* options);
/* The root's recvbuf[i] = op over all ranks of sendbuf[i], i < count; recvbuf is written on the root only and may be
 * null elsewhere. */
HKT_API hktResult_t hktReduce(const void* sendbuf, void* recvbuf, size_t count, hktDataType_t type, hktRedOp_t op,
                              int root, hktComm_t comm, const hktCallOptions_t* options);
/* recvbuf has n blocks of sendcount, n ranks: block r = sendbuf of rank r. In place: sendbuf == recvbuf + rank *
 * sendcount. */
HKT_API hktResult_t hktAllGather(const void* sendbuf, void* recvbuf, size_t sendcount, hktDataType_t type,
                                 hktComm_t comm, const hktCallOptions_t* options);
/* sendbuf has n blocks of recvcount: recvbuf = op over all ranks of their block of this rank. In place: recvbuf ==
 * sendbuf + rank * recvcount. */
HKT_API hktResult_t hktReduceScatter(const void* sendbuf, void* recvbuf, size_t recvcount, hktDataType_t type,
                                     hktRedOp_t op, hktComm_t comm, const hktCallOptions_t* options);
/* Both have n blocks of count: block r of recvbuf = this rank's block of rank r's sendbuf. In place: equal. */
HKT_API hktResult_t hktAllToAll(const void* sendbuf, void* recvbuf, size_t count, hktDataType_t type, hktComm_t comm,
                                const hktCallOptions_t* options);
/* The root's recvbuf has n blocks of sendcount: block r = sendbuf of rank r; it is written on the root only and may be
 * null elsewhere. In place on the root: sendbuf == recvbuf + root * sendcount. */
HKT_API hktResult_t hktGather(const void* sendbuf, void* recvbuf, size_t sendcount, hktDataType_t type, int root,
                              hktComm_t comm, const hktCallOptions_t* options);
/* The root's sendbuf has n blocks of recvcount: recvbuf = this rank's block; sendbuf is read on the root only and may
 * be null elsewhere. In place on the root: recvbuf == sendbuf + root * recvcount. */
HKT_API hktResult_t hktScatter(const void* sendbuf, void* recvbuf, size_t recvcount, hktDataType_t type, int root,
                               hktComm_t comm, const hktCallOptions_t* options);
/* Blocks of different sizes: counts[r] elements for rank r, at displs[r] elements from the start of the buffer that has
 * all n blocks; displs null: one after the other. Both arrays are equal on all ranks and are compared; a block of
 * recvbuf shares no element with another one. Elements between the blocks are not touched.
 * recvbuf: block r = sendbuf, counts[r] elements, of rank r. In place: sendbuf == recvbuf + displs[rank]. */
HKT_API hktResult_t hktAllGatherV(const void* sendbuf, void* recvbuf, const size_t* counts, const size_t* displs,
                                  hktDataType_t type, hktComm_t comm, const hktCallOptions_t* options);
/* recvbuf, counts[rank] elements = op over all ranks of their sendbuf's block of this rank. In place: recvbuf ==
 * sendbuf + displs[rank], and then no blocks of sendbuf share an element. */
HKT_API hktResult_t hktReduceScatterV(const void* sendbuf, void* recvbuf, const size_t* counts, const size_t* displs,
                                      hktDataType_t type, hktRedOp_t op, hktComm_t comm,
                                      const hktCallOptions_t* options);

/* Non-blocking calls: every call that takes hktCallOptions_t, with options.request. Counts, labels and tables are
 * copied; buffers are Hocket's until the request is done. Any number may be outstanding. Collectives of a communicator
 * are carried out one after the other in the order of issue, point-to-point messages beside them. They go on while this
 * thread is in a call: whoever waits for or tests one request, or makes a blocking call, moves all that it has
 * outstanding on all communicators. HOCKET_PROGRESS=thread: also while it computes, on a thread of the process's.
 * Requests may be finished in any order. */
/* Both free a request that is done, return its result and set *request to null. A request that has been finished
 * already, or is null, is hktInvalidArgument. */
HKT_API hktResult_t hktRequestTest(hktRequest_t* request, int* done); /* not done: *done = 0, hktSuccess */
HKT_API hktResult_t hktRequestWait(hktRequest_t* request);
/* Moves what is outstanding on the communicator as far as that goes without waiting; *moved = 1 if anything did. For
 * programs that look at their requests from time to time: as long as something moves, the next look should be soon. */
HKT_API hktResult_t hktCommProgress(hktComm_t comm, int* moved);

/* Point-to-point. The n-th send to a rank with a tag >= 0 meets its n-th receive from this rank with that tag; a rank
 * may send to itself. Up to 64 KiB a send never waits for its receive. The receive may be longer than the message; a
 * message that is longer or of another type is dropped and an error of the receive (hktInvalidUsage). */
HKT_API hktResult_t hktSend(const void* buf, size_t count, hktDataType_t type, int peer, int tag, hktComm_t comm,
                            const hktCallOptions_t* options);
HKT_API hktResult_t hktRecv(void* buf, size_t count, hktDataType_t type, int peer, int tag, hktComm_t comm,
                            const hktCallOptions_t* options);

/* What a receive got. */
typedef struct {
  size_t count; /* elements */
  int source;
  int reserved; /* 0 */
} hktMessage_t;
/* A source of hktRecvMessage: whichever rank sends first with the tag. Its receives and those that name the rank are
 * met in the order they were started. It connects this rank with all others. */
#define HKT_ANY_SOURCE (-1)
/* hktRecv that tells what it got in *message, which is Hocket's until the call has returned or its request is done, and
 * is written on success only. `peer` may be HKT_ANY_SOURCE. */
HKT_API hktResult_t hktRecvMessage(void* buf, size_t count, hktDataType_t type, int peer, int tag,
                                   hktMessage_t* message, hktComm_t comm, const hktCallOptions_t* options);

/* Groups, one per thread, which may be nested: calls between start and end, on any communicators, are only noted and
 * are issued together at the outermost end, which waits for all of them, or yields one request for all
 * (options.request). Point-to-point calls of a group may be in any order. A call that fails inside a group is an error
 * of its end, which then issues nothing. A communicator with calls in an open group cannot be split, finalized or
 * destroyed. */
HKT_API hktResult_t hktGroupStart(void);
HKT_API hktResult_t hktGroupEnd(const hktCallOptions_t* options);

/* Collectives whose blocks only their two ranks know. Counts and displs are in elements, by rank; displs null: packed.
 * A block of recvbuf shares no element with another one. That a rank sends another one more or less than that expects
 * is hktMismatch on all ranks. */
/* Block r of sendbuf goes to rank r. Not in place. */
HKT_API hktResult_t hktAllToAllV(const void* sendbuf, const size_t* sendcounts, const size_t* sdispls, void* recvbuf,
                                 const size_t* recvcounts, const size_t* rdispls, hktDataType_t type, hktComm_t comm,
                                 const hktCallOptions_t* options);
/* Block r of the root's recvbuf = sendbuf of rank r. recvbuf, recvcounts and displs are the root's alone. In place on
 * the root: sendbuf is its own block. */
HKT_API hktResult_t hktGatherV(const void* sendbuf, size_t sendcount, void* recvbuf, const size_t* recvcounts,
                               const size_t* displs, hktDataType_t type, int root, hktComm_t comm,
                               const hktCallOptions_t* options);
/* recvbuf = block of this rank in the root's sendbuf. sendbuf, sendcounts and displs are the root's alone. In place on
 * the root: recvbuf is its own block. */
HKT_API hktResult_t hktScatterV(const void* sendbuf, const size_t* sendcounts, const size_t* displs, void* recvbuf,
                                size_t recvcount, hktDataType_t type, int root, hktComm_t comm,
                                const hktCallOptions_t* options);

#ifdef __cplusplus
}
#endif
#endif
