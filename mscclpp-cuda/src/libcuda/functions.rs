//! Functions that a driver must have. A library with the driver's name may belong to another program, or lack some of
//! them. A call of a missing function would panic, so all of them are looked up before any is called.

use std::sync::LazyLock;

use cudarc::driver::sys;

/// Functions that are called before the driver's version is known.
const FIRST: &[&str] = &["cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuGetErrorName", "cuGetErrorString"];

/// Functions that are called afterwards.
const ALL: &[&str] = &[
    "cuCtxEnablePeerAccess",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxGetStreamPriorityRange",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceCanAccessPeer",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventRecordWithFlags",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuIpcCloseMemHandle",
    "cuIpcGetMemHandle",
    "cuIpcOpenMemHandle_v2",
    "cuLaunchKernel",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMemExportToShareableHandle",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetAddressRange_v2",
    "cuMemGetAllocationGranularity",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer_v2",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMemcpyAsync",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuPointerGetAttribute",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamIsCapturing",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamWaitValue64_v2",
    "cuStreamWriteValue64_v2",
    "cuThreadExchangeStreamCaptureMode",
];

/// A function of drivers from this version on.
pub(super) const LOADING: (&str, u32) = ("cuFuncLoad", 12_040);

/// Functions of multicast objects, which may be missing: drivers before CUDA 12.1 have none.
const MULTICAST: &[&str] = &[
    "cuMulticastAddDevice",
    "cuMulticastBindMem",
    "cuMulticastCreate",
    "cuMulticastGetGranularity",
    "cuMulticastUnbind",
];

/// Functions of identifiers of captures and streams, which may be missing.
const CAPTURE_ID: &str = "cuStreamGetCaptureInfo_v3";
const STREAM_ID: &str = "cuStreamGetId";

/// Returns the first missing function of those that are called before the driver's version is known. The library is
/// loaded.
pub(super) fn missing_at_first() -> Option<&'static str> {
    missing(FIRST)
}

/// Returns the first missing function of those that a driver of a version has. The library is loaded.
pub(super) fn missing_later(version: u32) -> Option<&'static str> {
    missing(ALL).or_else(|| if version < LOADING.1 { None } else { missing(&[LOADING.0]) })
}

/// Returns whether the driver has functions for multicast objects at all. The library is loaded.
pub(super) fn has_multicast() -> bool {
    missing(MULTICAST).is_none()
}

/// Returns whether the driver has identifiers of captures. The library is loaded.
pub(super) fn has_capture_ids() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| missing(&[CAPTURE_ID]).is_none());
    *HAS
}

/// Returns whether the driver has identifiers of streams. The library is loaded.
pub(super) fn has_stream_ids() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| missing(&[STREAM_ID]).is_none());
    *HAS
}

fn missing(names: &[&'static str]) -> Option<&'static str> {
    // SAFETY: the function is only looked up, and called nowhere.
    let is_there = |name: &str| unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok();
    names.iter().copied().find(|name| !is_there(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The mock driver has all functions that are called, or its tests would fail; and others, which CUDA's runtime calls.
    #[test]
    fn the_mock_has_these_functions() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../dev/mock/src/calls");
        let files = std::fs::read_dir(folder).expect("the mock's calls").map(|file| file.expect("a file").path());
        let text: String = files.map(|file| std::fs::read_to_string(file).expect("the mock's source")).collect();
        let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn cu")?.split('(').next());
        let mock: BTreeSet<String> = names.map(|name| format!("cu{name}")).collect();
        let listed: BTreeSet<String> = [FIRST, ALL, MULTICAST, &[LOADING.0, CAPTURE_ID, STREAM_ID]]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let missing: Vec<_> = listed.difference(&mock).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
