//! Codes of the area `execute`: mistakes of a launch, and mistakes in a plan that a launch detects.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    Stalled = "M0401" "stalled": "every wait is satisfied within its launch",
        "No thread block can make progress: each one that has not finished waits for a signal, a semaphore, a barrier or a packet that no other thread block will provide. The report names each of them, the value that it expected and the value that it read, and the operation that would unblock it. Thread blocks that no remaining operation would unblock are listed first: fix these first.\n\nWrong: both ranks `channel.wait(0)`, then `channel.signal(0)`. Right: both `channel.signal(0)`, then `channel.wait(0)`.";
    WrongNumberOfRanks = "M0402" "wrong-number-of-ranks": "a plan runs on the number of ranks that it was compiled for",
        "Wrong: `Executor::new(4).prepare(allreduce::plan(8), message)`. Right: `Executor::new(8)`, or `allreduce::plan(4)`.";
    MalformedPlan = "M0403" "malformed-plan": "every index of a plan is in range, and every operation has the operands, channels and attributes of its kind",
        "Plans that this library compiled are always valid; plan files may not be. The message names the operation, the index and its limit.\n\nWrong: `{\"name\": \"signal\", \"channel_type\": \"memory\", \"channel_ids\": [1]}` in a thread block with one memory channel. Right: `\"channel_ids\": [0]`.";
    MessageOutOfRange = "M0404" "message-out-of-range": "the message size is in the range of its plan",
        "The message size is the size of a rank's input, and in an all-gather that of its output. Plans for small messages are slow with large ones, and may need more scratch than is available.\n\nWrong: 4 KiB through a plan with `message_size = 1 << 20..=1 << 30`. Right: a plan for small messages; or `message.any_size()`, which disables this check.";
    IndivisibleCount = "M0405" "indivisible-count": "in all-gather, reduce-scatter and all-to-all, the element count is a multiple of the number of ranks; with a plan that takes dividing counts only, of its chunks",
        "The element count of a message is that of the larger of input and output, which is divided equally among the ranks. The chunks within the part of a rank may have different sizes, unless the plan takes dividing counts only (`dividing`): then each has equally many whole alignment units.\n\nWrong: `Message::of::<f32>(1001)` in an all-gather of 8 ranks. Right: `Message::of::<f32>(1008)`.";
    MessageTooLarge = "M0406" "message-too-large": "a message fits into the address space",
        "A buffer, padded to whole chunks, has less than 2^63 bytes.\n\nWrong: `Message::of::<f64>(1 << 62)`. Right: split the data into several messages.";
    FixedReduction = "M0407" "fixed-reduction": "a message does not change the reduction of a plan unless all reductions of the plan are sums, and for `avg` all outputs reductions",
        "In a plan, a sum is a placeholder: a plan whose reductions are all sums uses the operation of the message. Any other operation, such as `min`, is fixed. An average divides whole outputs, so a message requests it only of an all-reduce, reduce-scatter or reduce; outputs of other collectives may be copies.\n\nWrong: `Message::of::<f32>(n).op(ReduceOp::Max)` with a plan of `min`. Right: `Message::of::<f32>(n)`.";
    NoSuchReduction = "M0408" "no-such-reduction": "the accumulator type can represent the elements",
        "Integers accumulate in their own type and wrap; f64 does not accumulate in f32.\n\nWrong: `Message::of::<i32>(n).accumulate(AccumType::F32)`. Right: omit `accumulate`.";
    WrongBuffers = "M0409" "wrong-buffers": "a launch gets one buffer per rank, of the type and size of the message",
        "The sizes follow from the message: `prepared.input_len()` and `prepared.output_len()` return them.\n\nWrong, in an all-gather of 4 ranks with `Message::of::<f32>(1024)`: inputs of 1024 elements. Right: inputs of 256.";
    InPlaceMismatch = "M0410" "in-place-mismatch": "an in-place plan gets one buffer per rank, and any other plan gets two",
        "In place, one buffer is both input and output, and the plan relies on it.\n\nWrong: `prepared.launch(&inputs, &mut outputs)` with a plan that was compiled with `in_place`. Right: `prepared.launch_in_place(&mut buffers)`.";
    ReadOnlyInput = "M0411" "read-only-input": "inputs that a plan overwrites are passed as mutable",
        "Some out-of-place plans use the input as scratch.\n\nWrong: `prepared.launch(&inputs, &mut outputs)` with such a plan. Right: `prepared.launch_buffers(&mut buffers)`, which may overwrite inputs and outputs.";
    OutOfResources = "M0412" "out-of-resources": "buffers, scratch and threads stay within the limits of the machine and of the executor",
        "The size of scratch grows with the message: scratch chunks × bytes per chunk, doubled for packets, and doubled again with double scratch.\n\nWrong: 64 ranks with 4096 chunks of scratch each and 1 GiB per message. Right: smaller messages, or a higher `Options::scratch_limit`.";
    ExecutorFault = "M0413" "executor-fault": "the executor has no internal errors",
        "This is a bug in mscclpp, not in the plan. Please report it with the plan.";
    LostRank = "M0414" "lost-rank": "all ranks take part in every launch",
        "If a process exits, or is suspended for longer than the timeout, the launch is aborted on all ranks. The message names the rank and, for each waiting thread block, the operation, its channel, the value that it expected and the value that it read. The communicator has then failed: create a new one with `shrink`, without the lost ranks.\n\nWrong: one of the ranks returns before its last launch. Right: all ranks make the same calls.";
    CallMismatch = "M0415" "call-mismatch": "all ranks make the same calls in the same order",
        "Each rank compares each of its calls with those of its peers: plan, count, type and operation. The message names both calls.\n\nWrong: rank 0 launches an all-reduce of 1000 f32, and rank 1 one of 1000 f64. Right: both ranks launch the same call.";
    NoAlgorithm = "M0416" "no-algorithm": "every call is served by a registered algorithm",
        "A communicator selects an algorithm for each call among those of its registry: the selector decides first, then what the application registered, the tuning table, and the built-in rules. The message names the request and why each candidate cannot serve it. `mscclpp select` explains a selection without a job.\n\nWrong: `MSCCLPP_TUNING_TABLE` with an algorithm that this program does not have, and a strict registry. Right: add the algorithm, or tune again.";
    InvalidCall = "M0417" "invalid-call": "lengths and roots of a collective call match each other and the number of ranks",
        "Each rank checks the arguments of a call before it waits for others.\n\nWrong: an all-gather over 4 ranks with an input of 10 elements and an output of 30. Right: an output of 40 elements.";
    CallPanicked = "M0418" "call-panicked": "functions that run on a communicator's thread do not panic",
        "A function given to `Communicator::start` panicked, so its remaining calls were not made, and other ranks may wait for them until their timeout.\n\nWrong: an index out of range in the function. Right: return an error.";
    NotResident = "M0420" "not-resident": "all thread blocks of a launch are co-resident on the device",
        "Thread blocks wait for each other within a kernel, so the launch would hang if one of them could start only after another has finished. The registers, threads and shared memory of a device's multiprocessors limit the number of resident thread blocks.\n\nWrong: 16 ranks of 32 thread blocks with 1024 threads each on one device with 132 multiprocessors. Right: fewer ranks on the device, or a plan with fewer thread blocks or threads per block.";
    NoDevice = "M0421" "no-device": "CUDA is used only where a device is available",
        "Without a driver, or without a device of compute capability 8.0 or later, everything runs on the CPU.\n\nWrong: `cuda::Device::new(1)` on a machine with one device. Right: check `cuda::device_count()` first, or use `cpu::Executor`.";
    DriverFailed = "M0422" "driver-failed": "calls to the CUDA driver succeed",
        "The message names the call, its result and the driver's description of it. After a kernel error (an illegal address, for example), the driver rejects all further calls of the process.\n\nWrong: buffers larger than the device's memory. Right: smaller ones.";
    NotCompiled = "M0423" "not-compiled": "a compiler for device code is available, and device code compiles",
        "Kernels that are specialized for a plan, and the kernels of native algorithms, are compiled at run time by NVRTC, a library of the CUDA toolkit and of the wheel `nvidia-cuda-nvrtc`. The kernels of the interpreter do not need it. The message contains the output of the compiler, with file and line.\n\nWrong: a native algorithm on a machine without `libnvrtc.so`. Right: install the library where the loader finds it, or set `MSCCLPP_NVRTC` to its path.";
    NoPeerAccess = "M0424" "no-peer-access": "the devices of a launch can access each other's memory",
        "Thread blocks read and write the memory of other ranks by address, so the driver must support peer access between every two devices: over NVLink, or over PCIe where the machine allows it.\n\nWrong: `cuda::Executor::with_devices` with two devices on different sockets without peer access. Right: devices for which `nvidia-smi topo -p2p r` says OK, or `cuda::Executor::connect` with a rank per thread or process, whose data goes through the host between devices without access.";
    Capturing = "M0425" "capturing": "only launches are allowed while a stream is captured",
        "While a stream is captured, the driver rejects all calls that synchronize with the host or allocate memory, and such a call invalidates the capture. Prepare plans, allocate and bind buffers, and read the reports of aborted launches before the capture. Collective calls of a communicator on a stream do all of this in a capture too, except `synchronize`.\n\nWrong: `stream.capture(|stream| executor.prepare(&plan, message)?.launch_buffers(&mut buffers, stream))`. Right: prepare the plan, then capture the launch.";
    CountOverflow = "M0426" "count-overflow": "counts are at most the maximum of the launch, and their sums fit into the buffers",
        "Every rank receives the counts of all ranks before data moves, and all come to the same verdict: the launch ends without moving data, on all ranks with this error, and the next launch may follow. Nothing is dropped or cut.\n\nWrong: a count of 300 with a maximum of 256, or an output of 1000 elements on a rank for which the counts add up to 1024. Right: prepare the plan with a larger message, or pass a longer output.";
}
