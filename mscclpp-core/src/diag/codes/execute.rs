//! Codes of the area `execute`: mistakes of a launch, and mistakes in a plan that a launch detects.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    Stalled = "M0401" "stalled": "every wait of a plan is answered in the same launch",
        "The executor ran every thread block as far as it goes: each one that is left waits for a signal, a semaphore, a barrier or a packet that none of the others will give any more. The report names each, with what it saw, and the operation that would have released it. The first in the list are those that nothing would release: mend these first.\n\nWrong: both ranks `channel.wait(0)`, then `channel.signal(0)`. Right: both `channel.signal(0)`, then `channel.wait(0)`.";
    WrongNumberOfRanks = "M0402" "wrong-number-of-ranks": "a plan runs on as many ranks as it was made for",
        "Wrong: `World::new(4)?.prepare(allreduce::plan(8), message)`. Right: `World::new(8)`, or `allreduce::plan(4)`.";
    MalformedPlan = "M0403" "malformed-plan": "every index of a plan lies in its table, and every operation has what its kind needs",
        "Plans that were compiled here are never like that; files can be. The message names the operation, the number and its limit.\n\nWrong: `{\"name\": \"signal\", \"channel_type\": \"memory\", \"channel_ids\": [1]}` in a thread block with one memory channel. Right: `\"channel_ids\": [0]`.";
    MessageOutOfRange = "M0404" "message-out-of-range": "a message lies in the range of sizes that its plan is meant for",
        "The size is that of a rank's input, in an all-gather of its output. Plans for small messages are slow with large ones, and may need more scratch than there is.\n\nWrong: 4 KiB through a plan with `message_size = 1 << 20..=1 << 30`. Right: a plan for small messages; or `message.any_size()`, to run it all the same.";
    UnequalParts = "M0405" "indivisible-count": "all-gather, reduce-scatter and all-to-all give every rank an equal part",
        "The count of a message is that of the larger of input and output, so it must be a multiple of the ranks. The chunks inside of a part may be uneven.\n\nWrong: `Message::of::<f32>(1001)` in an all-gather of 8 ranks. Right: `Message::of::<f32>(1008)`.";
    MessageTooLarge = "M0406" "message-too-large": "the bytes of a message have addresses",
        "A buffer, padded to whole chunks, has less than 2^63 bytes.\n\nWrong: `Message::of::<f64>(1 << 62)`. Right: several messages.";
    FixedReduction = "M0407" "fixed-reduction": "a plan whose reductions are not all sums keeps its own",
        "Sum stands for any operation: a plan of sums reduces by whatever a message asks for. A plan that says `min`, say, means it.\n\nWrong: `Message::of::<f32>(n).op(ReduceOp::Max)` with a plan of `min`. Right: `Message::of::<f32>(n)`.";
    NoSuchReduction = "M0408" "no-such-reduction": "elements are combined in a type that can hold them",
        "Integers accumulate in their own type and wrap; f64 does not accumulate in f32.\n\nWrong: `Message::of::<i32>(n).accumulate(Accumulate::F32)`. Right: leave `accumulate` out.";
    WrongBuffers = "M0409" "wrong-buffers": "a launch gets one buffer per rank, of the message's type and size",
        "Sizes follow from the message: `run.input_len()` and `run.output_len()` give them.\n\nWrong, in an all-gather of 4 ranks with `Message::of::<f32>(1024)`: inputs of 1024 elements. Right: inputs of 256.";
    WrongPlace = "M0410" "in-place-mismatch": "an in-place plan gets one buffer per rank, any other plan gets two",
        "In place, input and output are one memory, and the plan relies on it.\n\nWrong: `run.launch(&inputs, &mut outputs)` with a plan made with `in_place`. Right: `run.launch_in_place(&mut buffers)`.";
    ReadOnlyInput = "M0411" "read-only-input": "inputs that a plan overwrites are lent for writing",
        "Some out-of-place plans use the input as scratch.\n\nWrong: `run.launch(&inputs, &mut outputs)` with such a plan. Right: `run.launch_buffers(&mut buffers)`, which may overwrite both.";
    OutOfResources = "M0412" "out-of-resources": "buffers, scratch and threads stay within what the machine and the world allow",
        "Scratch grows with the message: chunks of scratch times bytes per chunk, twice that for packets, twice again with double scratch.\n\nWrong: 64 ranks with 4096 chunks of scratch each and 1 GiB per message. Right: smaller messages, or a higher `Options::scratch_limit`.";
    ExecutorFault = "M0413" "executor-fault": "the executor itself never fails",
        "This is an error of mscclpp, not of a plan. Please report it, with the plan.";
    LostRank = "M0414" "lost-rank": "a launch between processes ends only when all of them take part",
        "A process that is gone, or stopped for longer than the deadline, ends the launch on all ranks. The message names the rank, and for each thread block that waits the operation, its channel, what it expected and what it saw. After that the group cannot go on: make a new one of the ranks that are left.\n\nWrong: one of the ranks returns before its last launch. Right: all ranks make the same calls.";
    DifferentCalls = "M0415" "call-mismatch": "all ranks make the same calls in the same order",
        "Each rank compares each of its calls with those of its peers: plan, count, type, operation. The message names both.\n\nWrong: rank 0 launches an all-reduce of 1000 f32, rank 1 one of 1000 f64. Right: the same on both.";
    NoAlgorithm = "M0416" "no-algorithm": "every call is served by a registered algorithm",
        "A communicator selects an algorithm for each call among those of its registry: the selector decides first, then the tuning table, then the built-in rules. The message names the request and why each candidate cannot serve it. `mscclpp select` explains a selection without a job.\n\nWrong: `MSCCLPP_TUNING_TABLE` with an algorithm that this program does not have, and a strict registry. Right: add the algorithm, or tune again.";
    InvalidCall = "M0417" "invalid-call": "lengths and roots of a collective call match each other and the number of ranks",
        "Each rank checks the arguments of a call before it waits for others.\n\nWrong: an all-gather over 4 ranks with an input of 10 elements and an output of 30. Right: an output of 40 elements.";
    CallPanicked = "M0418" "call-panicked": "functions that run on a communicator's thread do not panic",
        "A function given to `Communicator::start` panicked, so its remaining calls were not made, and other ranks may wait for them until their timeout.\n\nWrong: an index out of range in the function. Right: return an error.";
    NotResident = "M0420" "not-resident": "all thread blocks of a launch run on the device at once",
        "Thread blocks wait for one another inside of a kernel, so one that only starts when another has finished would never be waited for in vain: it would hang. A device runs as many blocks at once as registers, threads and shared memory of its multiprocessors allow.\n\nWrong: 16 ranks of 32 thread blocks with 1024 threads each on one device with 132 multiprocessors. Right: fewer ranks on the device, or a plan with fewer thread blocks or threads per block.";
    NoDevice = "M0421" "no-device": "CUDA is only asked for where there is a device",
        "Without a driver, or without a device of compute capability 8.0 or later, everything runs on the CPU.\n\nWrong: `cuda::Device::new(1)` on a machine with one device. Right: look at `cuda::device_count()` first, or use `cpu::World`.";
    DriverFailed = "M0422" "driver-failed": "calls to the CUDA driver succeed",
        "The message names the call, its result and what the driver says about it. After errors of a kernel (illegal addresses, for example) the driver refuses all further calls of the process.\n\nWrong: buffers larger than the device's memory. Right: smaller ones.";
    NotCompiled = "M0423" "not-compiled": "device code that is compiled at run time compiles, and there is a compiler",
        "Kernels that are specialised for a plan, and those of native algorithms, are compiled by NVRTC, a library of the CUDA toolkit and of the wheel `nvidia-cuda-nvrtc`. The interpreter's kernels need none. The message holds what the compiler says, with file and line.\n\nWrong: a native algorithm on a machine without `libnvrtc.so`. Right: the library where the loader finds it, or its path in `MSCCLPP_NVRTC`.";
    NoPeerAccess = "M0424" "no-peer-access": "the devices of a launch reach one another's memory",
        "Thread blocks read and write the memory of other ranks by its address, so the driver must let every device reach every other one: over NVLink, or over PCIe where the machine allows it.\n\nWrong: `cuda::World::across` with two devices behind different sockets without peer access. Right: devices for which `nvidia-smi topo -p2p r` says OK.";
    Capturing = "M0425" "capturing": "what a graph records is launches only",
        "While a stream is captured the driver refuses all that needs the host or new memory, and the capture is lost. To prepare a plan, to make buffers, to bind them and to take the reports of a launch that gave up belong before it. Of more than 32 ranks the buffers' addresses lie in a table on the device, which the first launch on these buffers writes: make that one before the capture as well.\n\nWrong: `stream.capture(|stream| world.prepare(&plan, message)?.launch_buffers(&mut buffers, stream))`. Right: prepare, then capture the launch.";
}
