//! Sums of all ranks with normalized rows on device memory: the bits of the calls on slices.

use libtest_mimic::Failed;
use mscclpp_communicator::{Communicator, KernelPolicy};
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cuda::{Device, DeviceRowNorm, DeviceVec};
use mscclpp_exec::error::RowsError;
use mscclpp_exec::{E4m3, Error, RowNorm};

use super::{each_on, failure, group_options, on_devices};
use crate::processes::machine_options;

const HIDDEN: usize = 72;

/// Element `i` of what a rank has.
fn element(rank: u32, i: usize) -> f32 {
    ((i * 7 + 3 * rank as usize) % 31) as f32 / 8.0 - 1.5
}

fn input(rank: u32, rows: usize) -> Vec<f32> {
    (0..rows * HIDDEN).map(|i| element(rank, i)).collect()
}

/// All calls, compared with those on slices.
pub(super) fn work(comm: &Communicator, device: &Device) -> Result<(), Failed> {
    let (stream, rank, ranks) = (device.stream()?, comm.rank(), comm.num_ranks() as usize);
    let on = comm.on(&stream);
    let gamma: Vec<f32> = (0..HIDDEN).map(|i| i as f32 / 64.0).collect();
    let factors = DeviceVec::from_slice(device, &gamma)?;
    // Up to and beyond the size at which another algorithm serves the call.
    for rows in if ranks <= 3 { [0, 1, 5, 250] } else { [0, 1, 2, 70] } {
        let (values, len) = (input(rank, rows), rows * HIDDEN);
        let (mut output, mut sums) = (vec![0.0; len], vec![1.0; len]);
        let (mut quantized, mut scales) = (vec![E4m3(0); len], vec![0.0; rows]);
        let norm = RowNorm::new(1e-6).bias(1.0).gamma(&gamma).residual_in_place(&mut sums);
        let norm = norm.quantized_by_row(&mut quantized, &mut scales);
        comm.all_reduce_rms_norm(&values, &mut output, HIDDEN, norm)?;

        let (from, mut to) = (DeviceVec::from_slice(device, &values)?, DeviceVec::<f32>::new(device, len)?);
        let mut residual = DeviceVec::from_slice(device, &vec![1.0_f32; len])?;
        let (mut rows_of_e4m3, mut of_rows) = (DeviceVec::<E4m3>::new(device, len)?, DeviceVec::new(device, rows)?);
        let norm = DeviceRowNorm::new(1e-6).bias(1.0).gamma(&factors).residual_in_place(&mut residual);
        let norm = norm.quantized_by_row(&mut rows_of_e4m3, &mut of_rows);
        on.all_reduce_rms_norm(&from, &mut to, HIDDEN, norm)?;
        let mut in_place = DeviceVec::from_slice(device, &values)?;
        let ones = DeviceVec::from_slice(device, &vec![1.0_f32; len])?;
        let mut other = DeviceVec::<f32>::new(device, len)?;
        let norm = DeviceRowNorm::new(1e-6).bias(1.0).gamma(&factors).residual(&ones).residual_out(&mut other);
        on.all_reduce_rms_norm_in_place(&mut in_place, HIDDEN, norm)?;
        on.synchronize()?;
        assert_eq!((to.to_vec()?, residual.to_vec()?), (output.clone(), sums.clone()), "{rows} rows");
        assert_eq!((rows_of_e4m3.to_vec()?, of_rows.to_vec()?), (quantized, scales), "{rows} rows");
        assert_eq!((in_place.to_vec()?, other.to_vec()?), (output, sums), "{rows} rows in place");

        let values = input(rank, rows * ranks);
        let mut output = vec![0.0; len];
        comm.reduce_scatter_rms_norm(&values, &mut output, HIDDEN, RowNorm::new(0.5))?;
        let from = DeviceVec::from_slice(device, &values)?;
        on.reduce_scatter_rms_norm(&from, &mut to, HIDDEN, DeviceRowNorm::new(0.5))?;
        on.synchronize()?;
        assert_eq!(to.to_vec()?, output, "{rows} rows of a part");

        let (values, total) = (input(rank, rows), len * ranks);
        let (mut output, mut sums) = (vec![0.0; total], vec![1.0; len]);
        let (mut quantized, mut scales) = (vec![E4m3(0); len], vec![0.0; rows]);
        let norm = RowNorm::new(1e-6).gamma(&gamma).residual_in_place(&mut sums);
        let norm = norm.quantized_by_row(&mut quantized, &mut scales);
        comm.all_gather_rms_norm(&values, &mut output, HIDDEN, norm)?;
        let (from, mut all) = (DeviceVec::from_slice(device, &values)?, DeviceVec::<f32>::new(device, total)?);
        let mut residual = DeviceVec::from_slice(device, &vec![1.0_f32; len])?;
        let norm = DeviceRowNorm::new(1e-6).gamma(&factors).residual_in_place(&mut residual);
        let norm = norm.quantized_by_row(&mut rows_of_e4m3, &mut of_rows);
        on.all_gather_rms_norm(&from, &mut all, HIDDEN, norm)?;
        let mut buffer = vec![0.0; total];
        buffer[rank as usize * len..][..len].copy_from_slice(&values);
        let mut in_place = DeviceVec::from_slice(device, &buffer)?;
        let norm = DeviceRowNorm::new(1e-6).gamma(&factors).residual(&ones).residual_out(&mut other);
        on.all_gather_rms_norm_in_place(&mut in_place, HIDDEN, norm)?;
        on.synchronize()?;
        assert_eq!((all.to_vec()?, residual.to_vec()?), (output.clone(), sums.clone()), "{rows} rows gathered");
        assert_eq!((rows_of_e4m3.to_vec()?, of_rows.to_vec()?), (quantized, scales), "{rows} rows gathered");
        assert_eq!((in_place.to_vec()?, other.to_vec()?), (output, sums), "{rows} rows gathered in place");
    }
    Ok(comm.barrier()?)
}

pub(super) fn rows_have_the_bits_of_calls_on_slices(seed: u64) -> Result<(), Failed> {
    for (ranks, devices) in [(1, 1), (2, 2), (3, 2), (5, 1), (6, 2), (7, 1)] {
        on_devices(seed, ranks, devices, work)?;
    }
    Ok(())
}

pub(super) fn compiled_kernels_normalize_rows(seed: u64) -> Result<(), Failed> {
    compiled_kernels_of(seed, 1)?;
    compiled_kernels_of(seed, 2)
}

fn compiled_kernels_of(seed: u64, ranks: u32) -> Result<(), Failed> {
    on_devices(seed, ranks, ranks, |comm, device| {
        comm.set_kernel_policy(KernelPolicy::Wait);
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let (from, mut to) =
            (DeviceVec::from_slice(device, &input(comm.rank(), 4))?, DeviceVec::new(device, 4 * HIDDEN)?);
        on.all_reduce_rms_norm(&from, &mut to, HIDDEN, DeviceRowNorm::new(1e-6))?;
        on.synchronize()?;
        let mut expected = vec![0.0; 4 * HIDDEN];
        comm.all_reduce_rms_norm(&input(comm.rank(), 4), &mut expected, HIDDEN, RowNorm::new(1e-6))?;
        assert_eq!(to.to_vec()?, expected);
        // Neither of these adds anything: norms alone make a kernel depend on the type.
        let total = 4 * HIDDEN * comm.num_ranks() as usize;
        let (mut all, mut expected) = (DeviceVec::new(device, total)?, vec![0.0; total]);
        on.all_gather_rms_norm(&from, &mut all, HIDDEN, DeviceRowNorm::new(1e-6))?;
        on.synchronize()?;
        comm.all_gather_rms_norm(&input(comm.rank(), 4), &mut expected, HIDDEN, RowNorm::new(1e-6))?;
        assert_eq!(all.to_vec()?, expected);
        Ok(())
    })
}

/// A layer that is captured: its graph takes what is in memory at each launch.
pub(super) fn captured_calls_replay(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let on = comm.on(&stream);
        let mut from = DeviceVec::<f32>::new(device, 3 * HIDDEN)?;
        let (mut to, mut residual) = (DeviceVec::<f32>::new(device, 3 * HIDDEN)?, DeviceVec::new(device, 3 * HIDDEN)?);
        let graph = stream.capture(|captured| {
            let norm = DeviceRowNorm::new(1e-6).residual_in_place(&mut residual);
            comm.on(captured).all_reduce_rms_norm(&from, &mut to, HIDDEN, norm)
        })?;
        let (mut sums, mut output) = (vec![0.0; 3 * HIDDEN], vec![0.0; 3 * HIDDEN]);
        for turn in 0..4 {
            let values = input(rank + turn, 3);
            stream.copy(&DeviceVec::from_slice(device, &values)?, &mut from)?;
            // SAFETY: the communicator and the memory live longer than the graph's launches.
            unsafe { graph.launch(&stream)? };
            on.synchronize()?;
            comm.all_reduce_rms_norm(&values, &mut output, HIDDEN, RowNorm::new(1e-6).residual_in_place(&mut sums))?;
            assert_eq!((to.to_vec()?, residual.to_vec()?), (output.clone(), sums.clone()), "turn {turn}");
        }
        Ok(())
    })
}

/// Layers whose partial sums are added, with the residual and the norm in the launch, and in plain code after it.
pub(super) fn transformer_block_has_the_same_bits_fused_and_unfused(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let gamma: Vec<f32> = (0..HIDDEN).map(|i| 1.0 + i as f32 / 100.0).collect();
        let factors = DeviceVec::from_slice(device, &gamma)?;
        let layer = |rows: &[f32], number: usize| -> Vec<f32> {
            let weight =
                |i: usize, j: usize| (((i * 5 + j * 3 + number * 11 + comm.rank() as usize) % 17) as f32 - 8.0) / 64.0;
            let row =
                |row: &[f32], j: usize| row.iter().enumerate().fold(0.0, |sum, (i, value)| sum + value * weight(i, j));
            rows.chunks(HIDDEN).flat_map(|values| (0..HIDDEN).map(move |j| row(values, j))).collect()
        };
        for rows in [1, 5] {
            let first = input(0, rows);
            let (mut fused, mut plain, mut sums) = (first.clone(), first.clone(), first.clone());
            let mut residual = DeviceVec::from_slice(device, &first)?;
            let mut output = DeviceVec::<f32>::new(device, first.len())?;
            for number in 0..3 {
                let partial = DeviceVec::from_slice(device, &layer(&fused, number))?;
                let norm = DeviceRowNorm::new(1e-5).gamma(&factors).residual_in_place(&mut residual);
                on.all_reduce_rms_norm(&partial, &mut output, HIDDEN, norm)?;
                let mut partial = DeviceVec::from_slice(device, &layer(&plain, number))?;
                on.all_reduce_in_place(&mut partial, ReduceOp::Sum)?;
                on.synchronize()?;
                fused = output.to_vec()?;
                let partial = partial.to_vec()?;
                for (row, (sums, plain)) in sums.chunks_mut(HIDDEN).zip(plain.chunks_mut(HIDDEN)).enumerate() {
                    sums.iter_mut().zip(&partial[row * HIDDEN..]).for_each(|(sum, value)| *sum += value);
                    let mut partials = [0.0_f32; 256];
                    sums.iter().enumerate().for_each(|(i, value)| partials[i / 4 % 256] += value * value);
                    for half in [128, 64, 32, 16, 8, 4, 2, 1] {
                        (0..half).for_each(|k| partials[k] += partials[k + half]);
                    }
                    let inverse = 1.0 / (partials[0] / HIDDEN as f32 + 1e-5).sqrt();
                    let values = sums.iter().zip(&gamma).map(|(sum, gamma)| (sum * inverse) * gamma);
                    plain.iter_mut().zip(values).for_each(|(plain, value)| *plain = value);
                }
            }
            assert_eq!((&fused, residual.to_vec()?), (&plain, sums), "{rows} rows");
        }
        Ok(())
    })
}

/// One rank passes a residual, or another eps, that the other one does not pass.
pub(super) fn different_norms_of_ranks_are_reported(seed: u64) -> Result<(), Failed> {
    for other in 0..2 {
        let results = each_on(machine_options(seed, 0, false), 2, 2, group_options(5), |comm, device| {
            let (stream, rank) = (device.stream()?, comm.rank());
            let on = comm.on(&stream);
            let from = DeviceVec::from_slice(device, &input(rank, 2))?;
            let mut to = DeviceVec::<f32>::new(device, 2 * HIDDEN)?;
            let residual = DeviceVec::<f32>::new(device, 2 * HIDDEN)?;
            for eps in [f32::NAN, -1.0] {
                let found = on.all_reduce_rms_norm(&from, &mut to, HIDDEN, DeviceRowNorm::new(eps));
                assert!(matches!(&found, Err(Error::Rows(RowsError::Number { number: "eps", .. }))), "{found:?}");
            }
            let norm = match (rank, other) {
                (1, 0) => DeviceRowNorm::new(0.0),
                (1, _) => DeviceRowNorm::new(0.5).residual(&residual),
                _ => DeviceRowNorm::new(0.0).residual(&residual),
            };
            let different = on.all_reduce_rms_norm(&from, &mut to, HIDDEN, norm);
            let error = failure(different.and_then(|()| on.synchronize()))?;
            assert!(error.to_string().contains("with residual, without gamma, eps 0"), "{error}");
            Ok(())
        });
        results.into_iter().collect::<Result<(), Failed>>()?;
    }
    Ok(())
}

/// Wrong lengths are reported before other ranks wait for the call, and calls that differ are reported by a rank.
pub(super) fn mistakes_are_reported(seed: u64) -> Result<(), Failed> {
    let results = each_on(machine_options(seed, 0, false), 2, 2, group_options(5), |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let on = comm.on(&stream);
        let (from, mut to) =
            (DeviceVec::from_slice(device, &input(rank, 2))?, DeviceVec::<f32>::new(device, 2 * HIDDEN)?);
        let (short, mut other) = (DeviceVec::<f32>::new(device, HIDDEN - 1)?, DeviceVec::<f32>::new(device, HIDDEN)?);
        let found = on.all_reduce_rms_norm(&from, &mut to, HIDDEN, DeviceRowNorm::new(0.0).gamma(&short));
        assert!(matches!(&found, Err(Error::Rows(RowsError::Operand { operand: "gamma", .. }))), "{found:?}");
        let found = on.all_reduce_rms_norm(&from, &mut other, HIDDEN, DeviceRowNorm::new(0.0));
        assert!(matches!(&found, Err(Error::Length { what: "the output", .. })), "{found:?}");
        let found = on.all_reduce_rms_norm(&from, &mut to, HIDDEN - 1, DeviceRowNorm::new(0.0));
        assert!(matches!(&found, Err(Error::Length { what: "the input", .. })), "{found:?}");
        on.all_reduce_rms_norm(&from, &mut to, HIDDEN, DeviceRowNorm::new(0.0))?;
        on.synchronize()?;
        let hidden = if rank == 0 { HIDDEN } else { HIDDEN / 2 };
        let different = on.all_reduce_rms_norm(&from, &mut to, hidden, DeviceRowNorm::new(0.0));
        let error = failure(different.and_then(|()| on.synchronize()))?;
        assert!(error.to_string().contains("normalized rows of"), "{error}");
        Ok(())
    });
    results.into_iter().collect()
}
