//! Kernels with bugs that the tools for devices must find, so that what they find nothing in is clean. Ignored unless asked for: each
//! does harm to nothing but its own memory, and is no test without such a tool.

use libtest_mimic::{Failed, Trial};
use mscclpp_exec::cuda::jit::Source;
use mscclpp_exec::cuda::{CudaUnavailable, Device, DeviceBuffer};

const SOURCE: &str = r#"
    struct Words { unsigned long long address; };

    // For memcheck: one word behind the end.
    extern "C" __global__ void out_of_bounds(const Words words) {
        reinterpret_cast<unsigned*>(words.address)[64 + threadIdx.x] = 1;
    }

    // For racecheck: what other threads have written, without a block sync before.
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
    // SAFETY: the kernel takes such a struct, whose memory is there until the stream is done. The word out of bounds is the point;
    // it lies within the pages that the driver took for this process.
    unsafe { kernel.launch(&stream, 1, if name == "unordered" { 64 } else { 1 }, &argument)? };
    stream.synchronize()?;
    Ok(())
}
