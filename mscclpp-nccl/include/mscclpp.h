/* What serves NCCL's calls in this process: plans, a selector, an order of reduction. Exported by the libnccl.so.2 of mscclpp-nccl.
 *
 * Any thread may call the functions at any time, before the first communicator too. All ranks must make the same settings.
 * What cannot take effect is an error. Texts that functions return stay valid.
 */
#ifndef MSCCLPP_H
#define MSCCLPP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface: raised when something is added to it. */
#define MSCCLPP_INTERFACE 1

struct ncclComm;

typedef enum {
  mscclppSuccess = 0,
  mscclppInvalidArgument = 1, /* a null pointer, an unknown communicator, order or plan, a name that messages cannot show */
  mscclppInvalidPlan = 2,     /* no plan, or one that the checks refuse: mscclppGetLastError has the finding */
  mscclppDuplicateName = 3,   /* a built-in or registered plan has the name */
  mscclppNoEffect = 4,        /* a plan that no call of NCCL could run */
  mscclppSystemError = 5,     /* the file cannot be read */
  mscclppCallFailed = 6,      /* the communicator is still being created, in use by another thread, or has failed */
  mscclppInternalError = 7    /* a defect of the library */
} mscclppResult_t;

/* Writes the MSCCLPP_INTERFACE of the library, and the library's version. Either pointer may be null. */
mscclppResult_t mscclppGetVersion(int* interface, const char** library);

/* Returns why the last function that failed in this thread has failed, as ncclGetLastError does. */
const char* mscclppGetLastError(void);

/* Checks a plan, as text, MSCCL++ JSON or an image, and adds it to the communicators that are created afterwards. It serves the calls that it
 * is for in preference to built-in plans, unless the tuning table of MSCCLPP_TUNING_TABLE has a time of it. Of several plans for a call, the
 * one with the narrowest range of sizes serves it, then the one that was added first. `name`: that of the plan if it is null. */
mscclppResult_t mscclppRegisterPlan(const void* data, size_t bytes, const char* name);
mscclppResult_t mscclppRegisterPlanFile(const char* path, const char* name);

/* Removes a registered plan, or registered kernels, for communicators that are created afterwards. */
mscclppResult_t mscclppRemovePlan(const char* name);

/* A call that needs an algorithm. `size`: bytes that the library has filled; fields that are added later come last. */
typedef struct {
  size_t size;
  const char* collective; /* allreduce, allgather, reducescatter, alltoall, broadcast, reduce */
  const char* type;       /* f32, bf16, … */
  const char* operation;  /* sum, prod, min, max, avg; null if the collective does not reduce */
  const char* order;      /* as for mscclppSetOrder */
  uint64_t input_bytes;   /* of a rank */
  uint64_t output_bytes;
  int root;
  int ranks;
  int ranks_per_node;
  int in_place;
  int symmetric; /* whether all memory is that of symmetric windows */
  int captured;  /* whether this rank captures the stream */
} mscclppCall_t;

/* Returns one of `names`, the algorithms that serve the call, or null for the usual selection; or writes to `error` why the call fails. Both
 * texts must stay valid until the thread's next call of the selector.
 *
 * The function and `user` must stay valid until the process ends, also after another selector is set. Any thread may call it. It returns to
 * its caller, without exceptions and jumps, and decides by its arguments: functions of NCCL and mscclppGetLastAlgorithm fail in it.
 *
 * All ranks must return the same: others get an error with the names that the ranks have chosen, and an `error` is one of all ranks. Both
 * fail the communicator. A name that is none of `names` is an error of the call. */
typedef const char* (*mscclppSelector_t)(const mscclppCall_t* call, const char* const* names, size_t num_names, void* user,
                                         const char** error);

/* Sets the function that is asked for each collective call of more than one rank, from the next call on; null removes it. No rank may
 * have a call pending in an open group meanwhile. A call whose configuration names an algorithm is not asked for. */
mscclppResult_t mscclppSetSelector(mscclppSelector_t selector, void* user);

/* A call that kernels of the program serve. `size`: as above. */
typedef struct {
  size_t size;
  const mscclppCall_t* call;
  struct ncclComm* comm;
  const void* input; /* of this rank; in the memory of the output if the call is in place */
  void* output;
  void* stream; /* the cudaStream_t on which the work is enqueued */
  int rank;
} mscclppLaunch_t;

/* Enqueues all work of a call on its stream and returns, without waiting: null, or why the call fails, which must stay valid until the
 * thread's next call of the function. It is called by all ranks in the same order, for each call that the kernels serve, also in captures.
 *
 * The function and `user` must stay valid until the process ends. Any thread may call it. It returns to its caller, without exceptions
 * and jumps; functions of NCCL fail in it. What its kernels share between ranks, as windows of ncclCommWindowRegister, is made before.
 * Kernels are not checked: they have no proof, and no timeout. */
typedef const char* (*mscclppKernels_t)(const mscclppLaunch_t* launch, void* user);

/* Adds kernels for the calls of a collective (as in mscclppCall_t) to the communicators that are created afterwards. They serve all its calls
 * of more than one rank in preference to built-in plans, but after registered plans; a selector gets their name for the calls that it
 * sends to them. All ranks must register the same names. */
mscclppResult_t mscclppRegisterKernels(const char* name, const char* collective, mscclppKernels_t launch, void* user);

/* Sets what calls demand of the order of reduction, as MSCCLPP_ORDER does: any, in-switch (the default), same-on-all-ranks (equal bits in every
 * run), rank-order; null for what the environment states. For communicators that are created afterwards; for one, or for all that are created if
 * `comm` is null. Parts of a communicator have its order. */
mscclppResult_t mscclppSetOrder(const char* order);
mscclppResult_t mscclppCommSetOrder(struct ncclComm* comm, const char* order);

/* Writes the algorithm of the last collective call, or null if none was needed. */
mscclppResult_t mscclppGetLastAlgorithm(struct ncclComm* comm, const char** name);

typedef struct {
  const char* name;
  uint64_t calls;
} mscclppCallCount_t;

/* Writes how often algorithms were launched, of a communicator or of all that are created if `comm` is null: up to `room` of them, and to `num` how
 * many there are. */
mscclppResult_t mscclppGetCallCounts(struct ncclComm* comm, mscclppCallCount_t* counts, size_t room, size_t* num);

#ifdef __cplusplus
}
#endif
#endif
