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
    cudaCreateSurfaceObject
    cudaCreateTextureObject
    cudaDestroySurfaceObject
    cudaDestroyTextureObject
    cudaDeviceDisablePeerAccess
    cudaDeviceGetByPCIBusId
    cudaDeviceGetGraphMemAttribute
    cudaDeviceGetLimit
    cudaDeviceGetMemPool
    cudaDeviceSetGraphMemAttribute
    cudaDeviceSetLimit
    cudaDeviceSetMemPool
    cudaFreeArray
    cudaFuncGetAttributes
    cudaFuncSetAttribute
    cudaGetChannelDesc
    cudaGetSymbolAddress
    cudaGetTextureObjectResourceDesc
    cudaGetTextureObjectTextureDesc
    cudaGraphAddNode
    cudaGraphConditionalHandleCreate
    cudaGraphDebugDotPrint
    cudaGraphNodeGetDependencies
    cudaGraphUpload
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
    cudaMalloc3DArray
    cudaMallocArray
    cudaMallocFromPoolAsync
    cudaMallocManaged
    cudaMemAdvise
    cudaMemPoolCreate
    cudaMemPoolDestroy
    cudaMemPrefetchAsync
    cudaMemcpy2D
    cudaMemcpy2DFromArray
    cudaMemcpy2DFromArrayAsync
    cudaMemcpy2DToArray
    cudaMemcpy2DToArrayAsync
    cudaMemcpy3D
    cudaMemcpy3DAsync
    cudaMemcpyPeer
    cudaMemcpyToSymbol
    cudaProfilerStart
    cudaProfilerStop
    cudaStreamAddCallback
    cudaStreamBeginCaptureToGraph
    cudaStreamGetFlags
    cudaStreamUpdateCaptureDependencies
}
