//! Sums over all ranks with normalized rows.

use crate::ranks::on_ranks;
use mscclpp_exec::error::RowsError;
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
    for ranks in [1, 2, 3, 5, 6, 7] {
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
fn all_gather_normalizes_the_rows_of_each_rank() {
    const HIDDEN: usize = 136;
    for ranks in [1, 2, 3, 5, 6, 7] {
        on_ranks(ranks, |comm| {
            let gamma: Vec<f32> = (0..HIDDEN).map(|i| i as f32 / 64.0).collect();
            // Up to and beyond the size at which another algorithm serves the call.
            for rows in [0, 1, 5, 200] {
                let (own, total) = (rows * HIDDEN, ranks as usize * rows * HIDDEN);
                let first = comm.rank() as usize * own;
                let input: Vec<f32> = (first..first + own).map(|i| element(0, i)).collect();
                let (mut output, mut residual) = (vec![0.0; total], vec![1.0; own]);
                let (mut quantized, mut scales) = (vec![E4m3(0); own], vec![0.0; rows]);
                let norm = || RowNorm::new(1e-6).bias(1.0).gamma(&gamma);
                let call = norm().residual_in_place(&mut residual).quantized_by_row(&mut quantized, &mut scales);
                comm.all_gather_rms_norm(&input, &mut output, HIDDEN, call).expect("a call");
                let (mut buffer, mut sums) = (vec![0.0; total], vec![0.0; own]);
                buffer[first..first + own].copy_from_slice(&input);
                let ones = vec![1.0; own];
                let call = norm().residual(&ones).residual_out(&mut sums);
                comm.all_gather_rms_norm_in_place(&mut buffer, HIDDEN, call).expect("a call");
                assert_eq!((&buffer, &sums), (&output, &residual), "{rows} rows, {ranks} ranks, in place");
                for row in 0..ranks as usize * rows {
                    let text = format!("row {row} of {rows}, {ranks} ranks");
                    let (normed, sums) = expected(1, row, HIDDEN, 1e-6);
                    assert_eq!(output[row * HIDDEN..(row + 1) * HIDDEN], normed, "{text}");
                    let Some(row) = row.checked_sub(comm.rank() as usize * rows).filter(|row| *row < rows) else {
                        continue;
                    };
                    let of = row * HIDDEN..(row + 1) * HIDDEN;
                    assert_eq!(residual[of.clone()], sums, "{text}");
                    let largest = normed.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
                    assert_eq!(scales[row], largest / 448.0, "{text}");
                    let nearest = |value: &f32| E4m3::from_f64(f64::from(value * (1.0 / scales[row])));
                    assert!(quantized[of].iter().copied().eq(normed.iter().map(nearest)), "{text}");
                }
            }
        });
    }
}

/// The layers of sequence parallelism: rows are reduced to their rank, and normalized there before all ranks receive them.
#[test]
fn reduce_scatter_and_all_gather_have_the_bits_of_an_all_reduce() {
    const HIDDEN: usize = 64;
    on_ranks(4, |comm| {
        let input: Vec<f32> = (0..12 * HIDDEN).map(|i| element(comm.rank(), i)).collect();
        let (mut output, mut residual) = (vec![0.0; 12 * HIDDEN], vec![1.0; 12 * HIDDEN]);
        let norm = RowNorm::new(1e-6).residual_in_place(&mut residual);
        comm.all_reduce_rms_norm(&input, &mut output, HIDDEN, norm).expect("a call");
        let (mut own, mut rows) = (vec![0.0; 3 * HIDDEN], vec![0.0; 12 * HIDDEN]);
        let mut sums = vec![1.0; 3 * HIDDEN];
        comm.reduce_scatter_rms_norm(&input, &mut own, HIDDEN, RowNorm::add_only()).expect("a call");
        let norm = RowNorm::new(1e-6).residual_in_place(&mut sums);
        comm.all_gather_rms_norm(&own, &mut rows, HIDDEN, norm).expect("a call");
        assert_eq!(rows, output);
        assert_eq!(sums, residual[3 * HIDDEN * comm.rank() as usize..][..3 * HIDDEN]);
    });
}

/// Quantized rows of all ranks: those of the own part are written by the norm, and gathered as they are.
#[test]
fn quantized_rows_can_be_gathered() {
    const HIDDEN: usize = 64;
    on_ranks(2, |comm| {
        let input: Vec<f32> = (0..6 * HIDDEN).map(|i| element(comm.rank(), i)).collect();
        let (mut own, mut quantized, mut scales) = (vec![0.0; 3 * HIDDEN], vec![E4m3(0); 3 * HIDDEN], [0.0; 3]);
        let norm = RowNorm::new(1e-6).quantized_by_row(&mut quantized, &mut scales);
        comm.reduce_scatter_rms_norm(&input, &mut own, HIDDEN, norm).expect("a call");
        let (mut rows, mut of_rows) = (vec![E4m3(0); 6 * HIDDEN], [0.0; 6]);
        comm.all_gather(&quantized, &mut rows).expect("a call");
        comm.all_gather(&scales, &mut of_rows).expect("a call");
        let (mut output, mut expected, mut scales) = (vec![0.0; 6 * HIDDEN], vec![E4m3(0); 6 * HIDDEN], [0.0; 6]);
        let norm = RowNorm::new(1e-6).quantized_by_row(&mut expected, &mut scales);
        comm.all_reduce_rms_norm(&input, &mut output, HIDDEN, norm).expect("a call");
        assert_eq!((rows, of_rows), (expected, scales));
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
        let gather = |input: usize, output: usize, hidden: usize| {
            comm.all_gather_rms_norm(&[0.0_f32; 16][..input], &mut [0.0; 32][..output], hidden, RowNorm::new(0.0))
        };
        assert!(matches!(gather(16, 31, 4), Err(Error::Length { what: "the output", found: 31, .. })));
        assert!(matches!(gather(16, 32, 0), Err(Error::Length { what: "the input", found: 16, .. })));
        assert!(matches!(gather(12, 24, 8), Err(Error::Length { what: "the input", found: 12, .. })));
        assert!(matches!(gather(12, 24, 6), Err(Error::Rows(_))));
        gather(16, 32, 4).expect("the communicator is usable");
        let gather = |output: usize, norm: RowNorm<'_, f32>| {
            comm.all_gather_rms_norm_in_place(&mut [0.0; 32][..output], 8, norm)
        };
        assert!(matches!(gather(24, RowNorm::new(0.0)), Err(Error::Length { what: "the buffer", found: 24, .. })));
        // The residual of all rows, of which this rank has a half.
        let found = gather(32, RowNorm::new(0.0).residual(&[0.0; 32]));
        assert!(matches!(found, Err(Error::Rows(RowsError::Operand { expected: 16, found: 32, .. }))), "{found:?}");
        gather(32, RowNorm::new(0.0)).expect("the communicator is usable");
    });
}

#[test]
fn wrong_numbers_and_operands_are_rejected() {
    on_ranks(2, |comm| {
        let (input, mut output) = ([1.0_f32; 16], [0.0; 16]);
        let (long, mut short) = ([0.0; 17], [0.0; 4]);
        let mut quantized = [E4m3(0); 16];
        let mut rejected = |norm: RowNorm<'_, f32>, text: &str| {
            let found = comm.all_reduce_rms_norm(&input, &mut output, 8, norm);
            let Err(error @ Error::Rows(_)) = found else { panic!("{text}: {found:?}") };
            assert_eq!(error.to_string(), text.replace('#', &comm.rank().to_string()));
        };
        let not_negative = "expected a finite number that is not negative";
        rejected(RowNorm::new(-1e-6), &format!("eps of rank # is -0.000001, {not_negative}"));
        rejected(RowNorm::new(f32::NAN), &format!("eps of rank # is NaN, {not_negative}"));
        rejected(RowNorm::new(f32::INFINITY), &format!("eps of rank # is inf, {not_negative}"));
        rejected(RowNorm::new(0.0).bias(f32::NAN), "the bias of rank # is NaN, expected a finite number");
        rejected(RowNorm::new(0.0).gamma(&long), "gamma of rank # has 17 elements, expected 8");
        rejected(RowNorm::new(0.0).residual(&long), "the residual of rank # has 17 elements, expected 16");
        let sums = RowNorm::new(0.0).residual_out(&mut short);
        rejected(sums, "the output of the residual of rank # has 4 elements, expected 16");
        let scaled = RowNorm::new(0.0).quantized(&mut quantized, 0.0);
        rejected(scaled, "the scale of rank # is 0, expected a positive finite number");
        let scaled = RowNorm::new(0.0).quantized_by_row(&mut quantized, &mut short);
        rejected(scaled, "the output of scales of rank # has 4 elements, expected 2");
        comm.all_reduce_rms_norm(&input, &mut output, 8, RowNorm::new(0.0)).expect("the communicator is usable");
    });
}

#[test]
fn types_without_norms_are_rejected() {
    on_ranks(2, |comm| {
        fn rejected<T: mscclpp_exec::Element>(comm: &mscclpp_communicator::Communicator) {
            let (input, mut output) = ([T::zeroed(); 16], [T::zeroed(); 16]);
            let found = comm.all_reduce_rms_norm(&input, &mut output, 8, RowNorm::new(0.0));
            assert!(matches!(found, Err(Error::Rows(RowsError::Type { dtype })) if dtype == T::TYPE), "{found:?}");
            let found = comm.all_gather_rms_norm(&input[..8], &mut output, 8, RowNorm::new(0.0));
            assert!(matches!(found, Err(Error::Rows(RowsError::Type { dtype })) if dtype == T::TYPE), "{found:?}");
        }
        rejected::<f64>(comm);
        rejected::<i32>(comm);
        rejected::<E4m3>(comm);
    });
}

/// Ranks whose norms differ, on the first call, and after both kinds of calls have been made.
#[test]
fn different_norms_of_ranks_are_an_error_on_all_of_them() {
    for is_first in [true, false] {
        for different in 0..4 {
            on_ranks(2, |comm| {
                let (input, mut output, ones) = ([1.0_f32; 16], [0.0; 16], [1.0; 16]);
                let mut call = |is_other: bool| {
                    let norm = match (is_other, different) {
                        (false, _) => RowNorm::new(0.0).residual(&ones).gamma(&ones[..8]),
                        (true, 0) => RowNorm::new(0.0).gamma(&ones[..8]),
                        (true, 1) => RowNorm::new(0.0).residual(&ones),
                        (true, 2) => RowNorm::new(1e-6).residual(&ones).gamma(&ones[..8]),
                        (true, _) => RowNorm::add_only().residual(&ones),
                    };
                    comm.all_reduce_rms_norm(&input, &mut output, 8, norm)
                };
                if !is_first {
                    call(false).expect("equal norms");
                    call(true).expect("equal norms");
                }
                let error = call(comm.rank() == 1).expect_err("different norms").to_string();
                assert!(error.contains("with residual") && error.contains("all_reduce_rms_norm"), "{error}");
            });
        }
    }
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
