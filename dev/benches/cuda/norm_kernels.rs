//! The host side of `norm_kernels.cu`: rows of bf16 of ranks that share a device.

use mscclpp_exec::__half::bf16;
use mscclpp_exec::Error;
use mscclpp_exec::cuda::jit::{Function, Source};
use mscclpp_exec::cuda::{Device, DeviceSlice, DeviceVec, Stream};

/// As in the source.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Norms {
    inputs: [u64; 16],
    outputs: [u64; 16],
    residuals: [u64; 16],
    packets: [u64; 16],
    gamma: u64,
    counters: u64,
    rows: u64,
    bytes: u64,
}

/// Memory of ranks whose rows are added and normalized.
pub(crate) struct Rows {
    pub(crate) inputs: Vec<DeviceVec<bf16>>,
    pub(crate) outputs: Vec<DeviceVec<bf16>>,
    pub(crate) residuals: Vec<DeviceVec<bf16>>,
    pub(crate) gamma: DeviceVec<bf16>,
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
}

impl Rows {
    /// Creates rows with known inputs, and residuals of zeros.
    pub(crate) fn new(device: &Device, ranks: u32, rows: usize, hidden: usize) -> Result<Self, Error> {
        let len = rows * hidden;
        let zeros = || (0..ranks).map(|_| DeviceVec::new(device, len)).collect::<Result<Vec<_>, _>>();
        let input = |rank| DeviceVec::from_slice(device, &Self::input(rank, len));
        Ok(Self {
            inputs: (0..ranks).map(input).collect::<Result<_, _>>()?,
            outputs: zeros()?,
            residuals: zeros()?,
            gamma: DeviceVec::from_slice(device, &Self::gamma(hidden))?,
            rows,
            hidden,
        })
    }

    /// Returns the input of a rank.
    pub(crate) fn input(rank: u32, len: usize) -> Vec<bf16> {
        (0..len).map(|i| bf16::from_f32((i * 7 + 3 * rank as usize) as f32 % 31.0 / 8.0 - 1.5)).collect()
    }

    /// Returns the factors of a row.
    pub(crate) fn gamma(hidden: usize) -> Vec<bf16> {
        (0..hidden).map(|i| bf16::from_f32(1.0 + (i % 17) as f32 / 64.0)).collect()
    }

    /// Sets residuals to zeros.
    pub(crate) fn reset(&mut self) -> Result<(), Error> {
        let zeros = vec![bf16::ZERO; self.rows * self.hidden];
        self.residuals.iter_mut().try_for_each(|residual| residual.write(&zeros))
    }

    /// Returns the memory of input and output of each rank.
    pub(crate) fn slices(&self) -> impl Iterator<Item = [DeviceSlice; 2]> {
        self.inputs.iter().zip(&self.outputs).map(|(input, output)| [input.as_slice(), output.as_slice()])
    }
}

/// A kernel on rows.
pub(crate) struct RowKernel {
    kernel: Function,
    argument: Norms,
    blocks: u32,
    threads: u32,
    // What the kernel accesses besides the rows.
    _packets: Vec<DeviceVec<u64>>,
    _counters: DeviceVec<u64>,
}

impl RowKernel {
    /// Loads a kernel: `norm_rows`, of sums in the outputs, or `reduce_and_norm`. `blocks`: of each rank.
    pub(crate) fn new(device: &Device, name: &str, rows: &Rows, blocks: u32, threads: u32) -> Result<Self, Error> {
        let ranks = rows.inputs.len() as u32;
        let source = Source::new("norm_kernels.cu", include_str!("norm_kernels.cu")).define("RANKS", ranks.to_string());
        let kernel = device.module(&source)?.function(name)?;
        let (blocks, fit) = (blocks * ranks, kernel.max_resident_blocks(threads)?);
        if blocks > fit && name != "norm_rows" {
            return Err(Error::NotCoResident { plan: name.into(), device: "the device".into(), blocks, threads, fit });
        }
        let bytes = 2 * rows.hidden as u64;
        let words = 4 * u64::from(ranks) * rows.rows as u64 * bytes / 8;
        let packets =
            (0..ranks).map(|_| DeviceVec::new(device, words as usize)).collect::<Result<Vec<DeviceVec<u64>>, _>>()?;
        let counters = DeviceVec::new(device, 2)?;
        let addresses = |slices: &mut dyn Iterator<Item = DeviceSlice>| {
            let mut all = [0; 16];
            all.iter_mut().zip(slices).for_each(|(slot, slice)| *slot = slice.address);
            all
        };
        let argument = Norms {
            inputs: addresses(&mut rows.inputs.iter().map(DeviceVec::as_slice)),
            outputs: addresses(&mut rows.outputs.iter().map(DeviceVec::as_slice)),
            residuals: addresses(&mut rows.residuals.iter().map(DeviceVec::as_slice)),
            packets: addresses(&mut packets.iter().map(DeviceVec::as_slice)),
            gamma: rows.gamma.as_slice().address,
            counters: counters.as_slice().address,
            rows: rows.rows as u64,
            bytes,
        };
        Ok(Self { kernel, argument, blocks, threads, _packets: packets, _counters: counters })
    }

    pub(crate) fn launch(&self, stream: &Stream) -> Result<(), Error> {
        // SAFETY: the kernel takes such a struct, the memory is that of the rows, which the caller keeps, and of this kernel, and its
        // blocks are co-resident where they wait for one another.
        unsafe { self.kernel.launch(stream, self.blocks, self.threads, &self.argument) }
    }
}
