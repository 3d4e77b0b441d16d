//! Kernels with bugs that the tools for devices must detect, which shows that a clean run of such a tool is
//! significant. They are ignored by default: each accesses only its own memory, and tests nothing without such a tool.

use libtest_mimic::{Failed, Trial};
use mscclpp_exec::cuda::jit::Source;
use mscclpp_exec::cuda::{CudaUnavailable, Device, DeviceBuffer};

const SOURCE: &str = r#"
    struct Words { unsigned long long address; };

    // For memcheck: one word past the end.
    extern "C" __global__ void out_of_bounds(const Words words) {
        reinterpret_cast<unsigned*>(words.address)[64 + threadIdx.x] = 1;
    }

    // For racecheck: reads data that other threads have written, without a block sync before.
    extern "C" __global__ void unordered(const Words words) {
        __shared__ unsigned cells[64];
        cells[threadIdx.x] = threadIdx.x;
        reinterpret_cast<unsigned*>(words.address)[threadIdx.x] = cells[63 - threadIdx.x];
    }
"#;

#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Words {
    address: u64,
}

pub(crate) fn tests(device: &Result<Device, CudaUnavailable>) -> Vec<Trial> {
    let trial = |name: &'static str| {
        let device = device.clone();
        Trial::test(format!("planted::{name}"), move || launch(&device.map_err(|reason| reason.to_string())?, name))
            .with_ignored_flag(true)
    };
    ["out_of_bounds", "unordered"].map(trial).into()
}

fn launch(device: &Device, name: &str) -> Result<(), Failed> {
    let kernel = device.module(&Source::new("planted.cu", SOURCE))?.function(name)?;
    let (words, stream) = (DeviceBuffer::new(device, 256)?, device.stream()?);
    let argument = Words { address: words.as_slice().address };
    // SAFETY: the kernel takes such a struct, whose memory exists until the stream is complete. The access out of
    // bounds is the purpose of the test; it is within the pages that the driver allocated for this process.
    unsafe { kernel.launch(&stream, 1, if name == "unordered" { 64 } else { 1 }, &argument)? };
    stream.synchronize()?;
    Ok(())
}
