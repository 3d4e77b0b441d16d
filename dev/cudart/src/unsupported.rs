//! Functions that programs require to exist and that simulated devices do not support.

use crate::error;

/// Defines functions that return an error, whatever their arguments, and describe it on standard error.
macro_rules! unsupported {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> error::Code {
            eprintln!(concat!(stringify!($name), " is not supported on simulated devices"));
            error::finish(Err(error::NOT_SUPPORTED))
        }
    )*};
}

unsupported! {
    cudaDeviceGetGraphMemAttribute
    cudaDeviceSetGraphMemAttribute
    cudaFuncGetAttributes
    cudaFuncSetAttribute
    cudaGetSymbolAddress
    cudaGraphAddNode
    cudaGraphConditionalHandleCreate
    cudaGraphDebugDotPrint
    cudaGraphNodeGetDependencies
    cudaIpcGetEventHandle
    cudaIpcOpenEventHandle
    cudaKernelSetAttributeForDevice
    cudaLaunchHostFunc
    cudaLibraryGetGlobal
    cudaLibraryGetKernel
    cudaLibraryGetKernelCount
    cudaLibraryGetManaged
    cudaLibraryGetUnifiedFunction
    cudaLibraryLoadData
    cudaLibraryLoadFromFile
    cudaLibraryUnload
    cudaMallocManaged
    cudaMemcpyToSymbol
    cudaProfilerStart
    cudaProfilerStop
    cudaStreamAddCallback
    cudaStreamBeginCaptureToGraph
    cudaStreamUpdateCaptureDependencies
}
