//! Properties of devices, in the layout of CUDA 13.

use std::ffi::{c_char, c_int, c_uint};
use std::mem::offset_of;

use crate::driver;
use crate::error::Code;

/// `cudaDeviceProp`. Fields that the mock driver does not know are 0.
#[repr(C)]
pub(crate) struct Properties {
    name: [c_char; 256],
    uuid: [u8; 16],
    luid: [u8; 8],
    luid_device_node_mask: c_uint,
    total_global_mem: usize,
    shared_mem_per_block: usize,
    regs_per_block: c_int,
    warp_size: c_int,
    mem_pitch: usize,
    max_threads_per_block: c_int,
    max_threads_dim: [c_int; 3],
    max_grid_size: [c_int; 3],
    total_const_mem: usize,
    major: c_int,
    minor: c_int,
    texture_alignment: usize,
    texture_pitch_alignment: usize,
    multi_processor_count: c_int,
    integrated: c_int,
    can_map_host_memory: c_int,
    /// Limits of textures and surfaces.
    textures_and_surfaces: [c_int; 39],
    surface_alignment: usize,
    concurrent_kernels: c_int,
    ecc_enabled: c_int,
    pci_bus_id: c_int,
    pci_device_id: c_int,
    pci_domain_id: c_int,
    tcc_driver: c_int,
    async_engine_count: c_int,
    unified_addressing: c_int,
    memory_bus_width: c_int,
    l2_cache_size: c_int,
    persisting_l2_cache_max_size: c_int,
    max_threads_per_multi_processor: c_int,
    stream_priorities_supported: c_int,
    global_l1_cache_supported: c_int,
    local_l1_cache_supported: c_int,
    shared_mem_per_multiprocessor: usize,
    regs_per_multiprocessor: c_int,
    /// From `managedMemory` to `canUseHostPointerForRegisteredMem`.
    managed_to_registered: [c_int; 8],
    cooperative_launch: c_int,
    shared_mem_per_block_optin: usize,
    /// From `pageableMemoryAccessUsesHostPageTables` on.
    others: [c_int; 4],
    reserved_shared_mem_per_block: usize,
    host_register_supported: c_int,
    rest: [c_int; 75],
}

// A program's compiler has the same sizes.
const _: () = assert!(size_of::<Properties>() == 1008);
const _: () = assert!(offset_of!(Properties, multi_processor_count) == 384);
const _: () = assert!(offset_of!(Properties, surface_alignment) == 552);
const _: () = assert!(offset_of!(Properties, cooperative_launch) == 668);
const _: () = assert!(offset_of!(Properties, host_register_supported) == 704);

/// Returns the properties of a device.
///
/// # Errors
/// Those of the driver, such as an invalid device.
pub(crate) fn properties(device: c_int) -> Result<Properties, Code> {
    driver::cuInit(0)?;
    // SAFETY: integers.
    let mut found: Properties = unsafe { std::mem::zeroed() };
    let number = |attribute| driver::cuDeviceGetAttribute(attribute, device);
    let bytes = |attribute| number(attribute).map(|bytes| bytes as usize);
    // SAFETY: a buffer of this length.
    unsafe { driver::cuDeviceGetName(found.name.as_mut_ptr(), found.name.len() as c_int, device) }?;
    found.uuid = driver::cuDeviceGetUuid_v2(device)?;
    found.total_global_mem = driver::cuDeviceTotalMem_v2(device)?;
    found.shared_mem_per_block = bytes(8)?;
    found.regs_per_block = number(12)?;
    found.warp_size = number(10)?;
    found.mem_pitch = bytes(11)?;
    found.max_threads_per_block = number(1)?;
    found.max_threads_dim = [number(2)?, number(3)?, number(4)?];
    found.max_grid_size = [number(5)?, number(6)?, number(7)?];
    found.total_const_mem = bytes(9)?;
    (found.major, found.minor) = (number(75)?, number(76)?);
    found.texture_alignment = bytes(14)?;
    found.multi_processor_count = number(16)?;
    found.integrated = number(18)?;
    found.can_map_host_memory = number(19)?;
    found.concurrent_kernels = number(31)?;
    found.ecc_enabled = number(32)?;
    (found.pci_bus_id, found.pci_device_id, found.pci_domain_id) = (number(33)?, number(34)?, number(50)?);
    found.async_engine_count = number(40)?;
    found.unified_addressing = number(41)?;
    found.memory_bus_width = number(37)?;
    found.l2_cache_size = number(38)?;
    found.max_threads_per_multi_processor = number(39)?;
    found.stream_priorities_supported = number(78)?;
    found.shared_mem_per_multiprocessor = bytes(81)?;
    found.regs_per_multiprocessor = number(82)?;
    found.cooperative_launch = number(95)?;
    found.shared_mem_per_block_optin = bytes(97)?;
    found.host_register_supported = number(99)?;
    Ok(found)
}
