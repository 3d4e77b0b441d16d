//! Functions that programs require to exist and that simulated devices do not support.

use super::calls;
use crate::code::{self, Code};

/// Defines functions that return an error, whatever their arguments.
macro_rules! unsupported {
    ($($name:ident)*) => { calls! { $(
        fn $name() {
            eprintln!(concat!(stringify!($name), " is not supported on simulated devices"));
            Err(code::NOT_SUPPORTED)
        }
    )* } };
}

unsupported! {
    cuCtxFromGreenCtx
    cuDevResourceGenerateDesc
    cuDevSmResourceSplitByCount
    cuDeviceGetDevResource
    cuFuncGetAttribute
    cuFuncSetCacheConfig
    cuGreenCtxCreate
    cuGreenCtxDestroy
    cuGreenCtxStreamCreate
    cuLaunchCooperativeKernel
    cuLinkAddData_v2
    cuLinkComplete
    cuLinkCreate_v2
    cuMemAllocManaged
    cuMemPoolDestroy
    cuMemPoolExportPointer
    cuMemPoolExportToShareableHandle
    cuMemPoolImportFromShareableHandle
    cuMemPoolImportPointer
    cuMemPoolSetAccess
    cuMemRangeGetAttribute
    cuMemcpyHtoD_v2
    cuModuleLoad
    cuModuleLoadDataEx
    cuStreamAddCallback
    cuStreamWriteValue32_v2
    cuTensorMapEncodeTiled
}
