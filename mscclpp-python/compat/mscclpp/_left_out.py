"""Names of the reference's package that this one leaves out, with what to use instead."""

__all__ = ["LEFT_OUT", "why"]

_CONNECTIONS = "CommGroup connects the ranks, and plans make channels, memory and proxies as they need them"
_KERNELS = "compile_native compiles kernels with the channels of mscclpp_native.h, and C++ sources that use these classes"

LEFT_OUT = {
    **dict.fromkeys(
        [
            "Bootstrap",
            "Connection",
            "Context",
            "Endpoint",
            "EndpointConfig",
            "Fifo",
            "Host2DeviceSemaphore",
            "Host2HostSemaphore",
            "MemoryDevice2DeviceSemaphore",
            "ProxyService",
            "RegisteredMemory",
            "SemaphoreStub",
            "Semaphore",
            "TcpBootstrap",
            "Transport",
            "TransportFlags",
            "UniqueId",
            "connect_nvls_collective",
        ],
        _CONNECTIONS,
    ),
    **dict.fromkeys(["BaseMemoryChannel", "BasePortChannel", "MemoryChannel", "PortChannel", "SwitchChannel"], _KERNELS),
    **dict.fromkeys(["Device", "DeviceType"], "calls are made on the rank's device, which torch.cuda.set_device chooses"),
    "ErrorCode": "failures raise mscclpp_rs.Error, whose kind says which it is",
    "get_include": "headers of kernels are found by compile_native",
    "get_lib": "there is no library of C++",
    "is_bulk_supported": "no kernel uses bulk copies",
    "numa": "`mscclpp launch --bind` runs each rank near its device",
}


def why(module: str, name: str) -> str:
    """Returns the message about a name that a module does not have."""
    reason = LEFT_OUT.get(name)
    text = f"module {module!r} has no attribute {name!r}"
    return text if reason is None else f"{text}: {reason}"
