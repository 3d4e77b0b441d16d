"""The frame of the sketch of a native algorithm in the guide for PyTorch (001:11): what stands for its dots and comments."""

from __future__ import annotations

_KERNEL = """
    const int peer = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) channels[peer].putWithSignal(rank * nbytesPerGPU, 0, nbytesPerGPU);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        channels[peer].flush();
        channels[peer].wait();
    }
"""

_BEFORE_THE_CLASS = """
struct Context {
    int rank, ranks;
    std::vector<mscclpp::RegisteredMemory> memory;
    std::shared_ptr<mscclpp::DeviceHandle<mscclpp::PortChannel>> channels;
};

struct Connected {
    std::vector<mscclpp::Connection> connections;
    std::shared_ptr<mscclpp::ProxyService> proxy;
};
static Connected connected;

"""

_CAPSULE = """
static void deleteCapsule(PyObject* capsule) {
    delete static_cast<std::shared_ptr<mscclpp::Algorithm>*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
}

static PyObject* getCapsule(std::shared_ptr<mscclpp::Algorithm> algo) {
    return PyCapsule_New(new std::shared_ptr<mscclpp::Algorithm>(algo), mscclpp::ALGORITHM_NATIVE_CAPSULE_NAME, deleteCapsule);
}

"""

# For each `/* ... */`, in order: bodies and parameters.
_DOTS = [
    # initialize
    """
        const int ranks = comm->bootstrap()->getNranks();
        for (int peer = 0; peer < ranks; ++peer) {
            if (peer == comm->bootstrap()->getRank()) continue;
            connected.connections.push_back(comm->connect(mscclpp::Transport::CudaIpc, peer).get());
        }
        connected.proxy = std::make_shared<mscclpp::ProxyService>();
        connected.proxy->startProxy(true);
    """,
    # kernelFunc
    "const void* input, void* output, size_t inputSize, mscclpp::DataType dtype, cudaStream_t stream",
    """
        auto context = std::static_pointer_cast<Context>(ctx);
        allgather<<<1, 32 * (context->ranks - 1), 0, stream>>>(context->channels.get(), context->rank, inputSize);
        return cudaGetLastError() == cudaSuccess ? mscclpp::CommResult::CommSuccess : mscclpp::CommResult::CommInternalError;
    """,
    # initContext
    "std::shared_ptr<mscclpp::Communicator> comm, const void* input, void* output, size_t inputSize, mscclpp::DataType dtype",
    """
        auto context = std::make_shared<Context>();
        context->rank = comm->bootstrap()->getRank();
        context->ranks = comm->bootstrap()->getNranks();
        auto in = comm->registerMemory((void*)input, inputSize, mscclpp::Transport::CudaIpc);
        auto out = comm->registerMemory(output, inputSize * context->ranks, mscclpp::Transport::CudaIpc);
        std::vector<std::shared_future<mscclpp::RegisteredMemory>> remote;
        for (auto& connection : connected.connections) {
            const int peer = comm->remoteRankOf(connection);
            comm->sendMemory(out, peer, 0);
            remote.push_back(comm->recvMemory(peer, 0));
        }
        std::vector<mscclpp::DeviceHandle<mscclpp::PortChannel>> channels;
        const mscclpp::MemoryId from = connected.proxy->addMemory(in);
        for (size_t at = 0; at < remote.size(); ++at) {
            const mscclpp::MemoryId to = connected.proxy->addMemory(remote[at].get());
            const auto semaphore = connected.proxy->buildAndAddSemaphore(*comm, connected.connections[at]);
            channels.push_back(mscclpp::deviceHandle(connected.proxy->portChannel(semaphore, to, from)));
        }
        context->memory = {in, out};
        context->channels = mscclpp::detail::gpuCallocShared<mscclpp::DeviceHandle<mscclpp::PortChannel>>(channels.size());
        mscclpp::gpuMemcpy(context->channels.get(), channels.data(), channels.size(), cudaMemcpyHostToDevice);
        return context;
    """,
    # generateContextKey
    "const void* input, void* output, size_t inputSize, size_t outputSize, mscclpp::DataType dtype, bool symmetricMemory",
    "return {(void*)input, output, inputSize, outputSize, 0};",
]


def framed(text: str) -> str:
    """Returns the source that the sketch begins."""
    comments = {
        "    // Kernel implementation...\n": _KERNEL,
        "// Algorithm builder class\n": _BEFORE_THE_CLASS,
        "// Expose to Python\n": _CAPSULE,
    }
    for comment, by in comments.items():
        assert text.count(comment) == 1, comment
        text = text.replace(comment, by)
    parts = text.split("/* ... */")
    assert len(parts) == len(_DOTS) + 1, len(parts)
    return "".join(part + dots for part, dots in zip(parts, [*_DOTS, ""], strict=True))
