//! Sums over all ranks with normalized rows.

use crate::ranks::on_ranks;
use mscclpp_exec::{E4m3, Error, RowNorm};

/// Element i of a rank's input.
fn element(rank: u32, i: usize) -> f32 {
    ((i * 7 + 3 * rank as usize) % 31) as f32 - 15.0
}

/// Returns the normalized row of a number, and its sum with the residual of ones, computed alone.
fn expected(ranks: u32, row: usize, hidden: usize, eps: f32) -> (Vec<f32>, Vec<f32>) {
    let sum =
        |i: usize| (1..ranks).fold(element(0, row * hidden + i), |sum, rank| sum + element(rank, row * hidden + i));
    let sums: Vec<f32> = (0..hidden).map(|i| sum(i) + 1.0).collect();
    let mut partials = [0.0_f32; 256];
    sums.iter().enumerate().for_each(|(i, value)| partials[i / 4 % 256] += value * value);
    for half in [128, 64, 32, 16, 8, 4, 2, 1] {
        (0..half).for_each(|k| partials[k] += partials[k + half]);
    }
    let inverse = 1.0 / (partials[0] / hidden as f32 + eps).sqrt();
    let factor = |i: usize| 1.0 + i as f32 / 64.0;
    ((0..hidden).map(|i| (sums[i] * inverse) * factor(i)).collect(), sums)
}

#[test]
fn rows_have_the_same_bits_at_every_number_of_rows() {
    const HIDDEN: usize = 136;
    for ranks in [1, 2, 3] {
        on_ranks(ranks, |comm| {
            let gamma: Vec<f32> = (0..HIDDEN).map(|i| i as f32 / 64.0).collect();
            // Up to and beyond the size at which another algorithm serves the call.
            for rows in [0, 1, 5, 60, 200] {
                let input: Vec<f32> = (0..rows * HIDDEN).map(|i| element(comm.rank(), i)).collect();
                let norm = || RowNorm::new(1e-6).bias(1.0).gamma(&gamma);
                let (mut output, mut residual) = (vec![0.0; input.len()], vec![1.0; input.len()]);
                comm.all_reduce_rms_norm(&input, &mut output, HIDDEN, norm().residual_in_place(&mut residual))
                    .expect("a call");
                let ones = vec![1.0; input.len()];
                let (mut buffer, mut sums) = (input.clone(), ones.clone());
                let in_place = norm().residual(&ones).residual_out(&mut sums);
                comm.all_reduce_rms_norm_in_place(&mut buffer, HIDDEN, in_place).expect("a call");
                for row in 0..rows {
                    let of = |list: &[f32]| list[row * HIDDEN..(row + 1) * HIDDEN].to_vec();
                    let expected = expected(ranks, row, HIDDEN, 1e-6);
                    assert_eq!((of(&output), of(&residual)), expected, "row {row} of {rows}, {ranks} ranks");
                    assert_eq!((of(&buffer), of(&sums)), expected, "row {row} of {rows}, {ranks} ranks, in place");
                }
            }
        });
    }
}

#[test]
fn reduce_scatter_normalizes_the_own_part() {
    const HIDDEN: usize = 8;
    on_ranks(3, |comm| {
        let gamma: Vec<f32> = (0..HIDDEN).map(|i| i as f32 / 64.0).collect();
        let input: Vec<f32> = (0..3 * 4 * HIDDEN).map(|i| element(comm.rank(), i)).collect();
        let (mut output, mut residual) = (vec![0.0; 4 * HIDDEN], vec![1.0; 4 * HIDDEN]);
        let (mut quantized, mut scales) = (vec![E4m3(0); 4 * HIDDEN], vec![0.0; 4]);
        let norm = RowNorm::new(1e-6).bias(1.0).gamma(&gamma).residual_in_place(&mut residual);
        let norm = norm.quantized_by_row(&mut quantized, &mut scales);
        comm.reduce_scatter_rms_norm(&input, &mut output, HIDDEN, norm).expect("a call");
        for (row, scale) in scales.iter().enumerate() {
            let own = row * HIDDEN..(row + 1) * HIDDEN;
            let (normed, sums) = expected(3, 4 * comm.rank() as usize + row, HIDDEN, 1e-6);
            assert_eq!((&output[own.clone()], &residual[own.clone()]), (&normed[..], &sums[..]));
            let largest = normed.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            assert_eq!(*scale, largest / 448.0);
            let nearest = |value: &f32| E4m3::from_f64(f64::from(value * (1.0 / scale)));
            assert!(quantized[own].iter().copied().eq(normed.iter().map(nearest)));
        }
    });
}

#[test]
fn wrong_lengths_are_rejected() {
    on_ranks(2, |comm| {
        let (input, mut output) = ([0.0_f32; 16], [0.0; 16]);
        let mut call =
            |len: usize, hidden: usize| comm.all_reduce_rms_norm(&input, &mut output[..len], hidden, RowNorm::new(0.0));
        assert!(matches!(call(12, 4), Err(Error::Length { what: "the output", found: 12, .. })));
        assert!(matches!(call(16, 0), Err(Error::Length { what: "the input", found: 16, .. })));
        assert!(matches!(call(16, 3), Err(Error::Length { what: "the input", found: 16, .. })));
        assert!(matches!(call(16, 2), Err(Error::Rows(_))));
        call(16, 4).expect("the communicator is usable");
    });
}

/// A row-parallel layer with residual and norm, and a second one: fused and as separate calls.
#[test]
fn transformer_block_has_the_same_bits_fused_and_unfused() {
    const HIDDEN: usize = 64;
    on_ranks(2, |comm| {
        let gamma: Vec<f32> = (0..HIDDEN).map(|i| 1.0 + i as f32 / 100.0).collect();
        let layer = |rows: &[f32], number: usize| -> Vec<f32> {
            let weight =
                |i: usize, j: usize| (((i * 5 + j * 3 + number * 11 + comm.rank() as usize) % 17) as f32 - 8.0) / 64.0;
            let row =
                |row: &[f32], j: usize| row.iter().enumerate().fold(0.0, |sum, (i, value)| sum + value * weight(i, j));
            rows.chunks(HIDDEN).flat_map(|values| (0..HIDDEN).map(move |j| row(values, j))).collect()
        };
        for rows in [1, 3, 40] {
            let first: Vec<f32> = (0..rows * HIDDEN).map(|i| element(0, i)).collect();
            let (mut fused, mut residual) = (first.clone(), first.clone());
            let (mut plain, mut sums) = (first.clone(), first.clone());
            for number in 0..3 {
                let partial = layer(&fused, number);
                let norm = RowNorm::new(1e-5).gamma(&gamma).residual_in_place(&mut residual);
                comm.all_reduce_rms_norm(&partial, &mut fused, HIDDEN, norm).expect("a call");
                let mut partial = layer(&plain, number);
                comm.all_reduce_in_place(&mut partial, mscclpp_core::types::ReduceOp::Sum).expect("a call");
                for (row, (sums, plain)) in sums.chunks_mut(HIDDEN).zip(plain.chunks_mut(HIDDEN)).enumerate() {
                    sums.iter_mut().zip(&partial[row * HIDDEN..]).for_each(|(sum, value)| *sum += value);
                    let mut partials = [0.0_f32; 256];
                    sums.iter().enumerate().for_each(|(i, value)| partials[i / 4 % 256] += value * value);
                    for half in [128, 64, 32, 16, 8, 4, 2, 1] {
                        (0..half).for_each(|k| partials[k] += partials[k + half]);
                    }
                    let inverse = 1.0 / (partials[0] / HIDDEN as f32 + 1e-5).sqrt();
                    let values = sums.iter().zip(&gamma).map(|(sum, gamma)| (sum * inverse) * (0.0 + gamma));
                    plain.iter_mut().zip(values).for_each(|(plain, value)| *plain = value);
                }
            }
            assert_eq!((fused, residual), (plain, sums), "{rows} rows");
        }
    });
}

#[test]
fn rows_are_added_in_the_accumulator_of_the_handle() {
    use mscclpp_exec::__half::bf16;
    use mscclpp_exec::AccumType;
    // Of few rows and of many, which another algorithm serves.
    on_ranks(3, |comm| {
        for rows in [1, 800] {
            let input = vec![bf16::from_f32([256.0, 1.0, 1.0][comm.rank() as usize]); 64 * rows];
            for (accumulator, expected) in [(AccumType::Native, 256.0), (AccumType::F32, 258.0)] {
                let mut sums = vec![bf16::ZERO; input.len()];
                let handle = comm.with_row_accumulator(accumulator);
                handle.all_reduce_rms_norm(&input, &mut sums, 64, RowNorm::add_only()).expect("a call");
                assert!(sums.iter().all(|sum| sum.to_f32() == expected), "{rows} rows, {accumulator:?}: {}", sums[0]);
            }
        }
    });
}
