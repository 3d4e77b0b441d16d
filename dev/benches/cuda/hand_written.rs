//! The host side of `hand_written.cu`.

use mscclpp_exec::Error;
use mscclpp_exec::cuda::jit::{Function, Source};
use mscclpp_exec::cuda::{Device, DeviceBuffer, Stream};

/// As in the source.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Ranks {
    buffers: [u64; 16],
    packets: [u64; 16],
    counters: u64,
    bytes: u64,
}

/// A kernel with its own memory.
pub(crate) struct HandWritten {
    kernel: Function,
    buffers: Vec<DeviceBuffer>,
    _packets: Vec<DeviceBuffer>,
    _counters: DeviceBuffer,
    argument: Ranks,
    blocks: u32,
    threads: u32,
}

impl HandWritten {
    /// Loads a kernel. `name`: `all_pairs`, `one_shot` or `packets`; `bytes`: of every rank's buffer, a multiple of
    /// 16, and for `packets` also of 8 times `ranks`.
    pub(crate) fn new(
        device: &Device,
        name: &str,
        ranks: u32,
        bytes: u64,
        blocks: u32,
        threads: u32,
    ) -> Result<Self, Error> {
        let source = Source::new("hand_written.cu", include_str!("hand_written.cu")).define("RANKS", ranks.to_string());
        let kernel = device.module(&source)?.function(name)?;
        let fit = kernel.max_resident_blocks(threads)?;
        if blocks > fit {
            return Err(Error::NotCoResident { plan: name.into(), device: "the device".into(), blocks, threads, fit });
        }
        let memory = |bytes| (0..ranks).map(|_| DeviceBuffer::new(device, bytes)).collect::<Result<Vec<_>, _>>();
        let buffers = memory(bytes)?;
        let packets = memory(match name {
            "one_shot" => 4 * u64::from(ranks) * bytes,
            "packets" => 8 * bytes,
            _ => 16,
        })?;
        let counters = DeviceBuffer::new(device, 64 * u64::from(1 + blocks))?;
        let addresses = |memory: &[DeviceBuffer]| {
            let mut all = [0; 16];
            for (slot, memory) in all.iter_mut().zip(memory) {
                *slot = memory.as_slice().address;
            }
            all
        };
        let argument = Ranks {
            buffers: addresses(&buffers),
            packets: addresses(&packets),
            counters: counters.as_slice().address,
            bytes,
        };
        Ok(Self { kernel, buffers, _packets: packets, _counters: counters, argument, blocks, threads })
    }

    pub(crate) fn launch(&self, stream: &Stream) -> Result<(), Error> {
        // SAFETY: the kernel takes such a struct, the memory belongs to it and lives as long as it, and its blocks are
        // co-resident.
        unsafe { self.kernel.launch(stream, self.blocks, self.threads, &self.argument) }
    }

    /// Launches once on known inputs, and verifies every sum; `turn` varies them.
    pub(crate) fn check(&mut self, device: &Device, turn: usize) -> Result<(), Box<dyn std::error::Error>> {
        let count = self.argument.bytes as usize / 4;
        let value = |rank: usize, i: usize| (1000 * rank + 7 * turn + i % 4096) as f32;
        let mut values = vec![0_f32; count];
        for (rank, buffer) in self.buffers.iter_mut().enumerate() {
            values.iter_mut().enumerate().for_each(|(i, slot)| *slot = value(rank, i));
            buffer.write(bytemuck::cast_slice(&values))?;
        }
        let stream = device.stream()?;
        self.launch(&stream)?;
        stream.synchronize()?;
        for (rank, buffer) in self.buffers.iter().enumerate() {
            buffer.read(bytemuck::cast_slice_mut(&mut values))?;
            let expected = |i| (0..self.buffers.len()).map(|rank| value(rank, i)).sum::<f32>();
            if let Some(i) = (0..count).find(|&i| values[i] != expected(i)) {
                return Err(format!("rank {rank}, element {i}: {}, expected {}", values[i], expected(i)).into());
            }
        }
        Ok(())
    }
}
