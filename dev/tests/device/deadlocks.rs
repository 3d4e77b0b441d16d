//! Kernels that wait for operations that cannot happen: the simulator ends them and reports it, and the device remains
//! usable.

use libtest_mimic::{Failed, Trial};
use mscclpp_dev::{Options, simulator};
use mscclpp_exec::Error;
use mscclpp_exec::cuda::jit::{Cache, Source};
use mscclpp_exec::cuda::{Device, DeviceBuffer};

use super::CACHE;

const SOURCE: &str = r#"
    #include "sync.h"
    struct Words { uint64_t at; };
    DEV uint64_t* word(const Words& words, uint32_t block) { return reinterpret_cast<uint64_t*>(words.at) + block; }
    /// Each of two blocks waits for the other one before it signals itself.
    KERNEL(32) crossed(KERNEL_PARAM Words words) {
      while (load_relaxed_gpu(word(words, 1 - dev_block())) == 0) dev_relax();
      store_relaxed_gpu(word(words, dev_block()), uint64_t{1});
    }
    /// The first thread waits for the others, which are at a block sync.
    KERNEL(32) divided(KERNEL_PARAM Words words) {
      if (dev_thread() == 0) while (load_relaxed_gpu(word(words, 0)) == 0) dev_relax();
      dev_sync();
      store_relaxed_gpu(word(words, 0), uint64_t{1});
    }
    /// Correct: one block signals, the other one waits for it.
    KERNEL(32) in_order(KERNEL_PARAM Words words) {
      if (dev_block() == 1) while (load_relaxed_gpu(word(words, 0)) == 0) dev_relax();
      store_relaxed_gpu(word(words, dev_block()), uint64_t{1});
    }
    SIM_KERNEL(crossed, Words)
    SIM_KERNEL(divided, Words)
    SIM_KERNEL(in_order, Words)
"#;

#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Words {
    at: u64,
}

pub(crate) fn tests(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    vec![Trial::test("deadlocks::are_found", move || seeds.clone().try_for_each(are_found))]
}

fn are_found(seed: u64) -> Result<(), Failed> {
    let device = Device::with_cache(simulator(Options { seed, threads: 4, ..Options::default() })?, Cache::at(CACHE));
    let module = device.module(&Source::new("deadlocks.cu", SOURCE))?;
    let stream = device.stream()?;
    for name in ["crossed", "in_order", "divided", "in_order"] {
        let words = DeviceBuffer::new(&device, 16)?;
        // SAFETY: the kernel takes such a struct, and the words exist until the stream is complete.
        let launch =
            || unsafe { module.function(name)?.launch(&stream, 2, 32, &Words { at: words.as_slice().address }) };
        let ended = launch().and_then(|()| stream.synchronize());
        let is_right = match &ended {
            Ok(()) => name == "in_order",
            Err(Error::Driver(error)) => {
                name != "in_order"
                    && error.name == "CUDA_ERROR_LAUNCH_TIMEOUT"
                    && error.text.ends_with("threads wait for what cannot happen")
            }
            Err(_) => false,
        };
        if !is_right {
            return Err(format!("seed {seed}, {name}: {ended:?}").into());
        }
    }
    Ok(())
}
