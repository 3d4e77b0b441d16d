//! Time of an all-reduce with residual and RMSNorm in one launch, and of an all-reduce followed by a plain loop over the rows:
//! `cargo bench -p mscclpp-communicator --bench row_norms`. Blocks of calls take turns; two ranks are threads of this process.

use std::time::{Duration, Instant};

use mscclpp_communicator::Communicator;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::__half::bf16;
use mscclpp_exec::{Element, RowNorm};

/// Elements of a row.
const HIDDEN: usize = 4096;

/// Blocks of each contender, calls of a block, and calls before them that are not counted.
const BLOCKS: usize = 101;
const CALLS: usize = 10;
const SKIPPED: usize = 2;

fn main() {
    let [first, second] = <[_; 2]>::try_from(Communicator::local(2).expect("a communicator")).expect("two ranks");
    std::thread::scope(|scope| {
        scope.spawn(|| measure_all(&first));
        measure_all(&second);
    });
}

/// Elements of rows.
trait Float: Element {
    fn of(value: f32) -> Self;
    fn get(self) -> f32;
}

impl Float for bf16 {
    fn of(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn get(self) -> f32 {
        self.to_f32()
    }
}

impl Float for f32 {
    fn of(value: f32) -> Self {
        value
    }
    fn get(self) -> f32 {
        self
    }
}

/// Adds the residual and normalizes, as a program would after an all-reduce.
fn norm<T: Float>(rows: &mut [T], residual: &mut [T], gamma: &[T]) {
    for (row, residual) in rows.chunks_exact_mut(HIDDEN).zip(residual.chunks_exact_mut(HIDDEN)) {
        let mut squares = 0.0;
        for (value, residual) in row.iter().zip(residual.iter_mut()) {
            let sum = T::of(value.get() + residual.get());
            *residual = sum;
            squares += sum.get() * sum.get();
        }
        let inverse = 1.0 / (squares / HIDDEN as f32 + 1e-6).sqrt();
        for ((value, sum), gamma) in row.iter_mut().zip(residual.iter()).zip(gamma) {
            *value = T::of(sum.get() * inverse * gamma.get());
        }
    }
}

fn measure_all(comm: &Communicator) {
    measure::<bf16>(comm);
    measure::<f32>(comm);
}

fn measure<T: Float>(comm: &Communicator) {
    let gamma = vec![T::of(1.0); HIDDEN];
    for rows in [1, 4, 16, 64, 256] {
        let input: Vec<T> = (0..rows * HIDDEN).map(|i| T::of((i % 17) as f32 - 8.0)).collect();
        let (mut output, mut residual) = (input.clone(), input.clone());
        let mut times = [[Duration::ZERO; BLOCKS]; 3];
        for block in 0..BLOCKS {
            for (contender, times) in times.iter_mut().enumerate() {
                residual.copy_from_slice(&input);
                let mut started = Instant::now();
                for call in 0..SKIPPED + CALLS {
                    if call == SKIPPED {
                        started = Instant::now();
                    }
                    if contender == 0 {
                        let norm = RowNorm::new(1e-6).gamma(&gamma).residual_in_place(&mut residual);
                        comm.all_reduce_rms_norm(&input, &mut output, HIDDEN, norm).expect("no rank is lost");
                    } else {
                        comm.all_reduce(&input, &mut output, ReduceOp::Sum).expect("no rank is lost");
                    }
                    if contender == 1 {
                        norm(&mut output, &mut residual, &gamma);
                    }
                }
                times[block] = started.elapsed() / CALLS as u32;
            }
        }
        if comm.rank() == 0 {
            // Of blocks that follow each other, because the machine is not equally busy all the time.
            let mut ratios: Vec<f64> =
                times[0].iter().zip(times[1]).map(|(fused, separate)| separate.div_duration_f64(*fused)).collect();
            ratios.sort_by(f64::total_cmp);
            let [fused, separate, alone] = times.map(|times| times.into_iter().min().unwrap_or_default());
            let (median, fastest) = (ratios[BLOCKS / 2], separate.div_duration_f64(fused));
            println!(
                "{rows} rows of {HIDDEN} {}: {median:.2} times (median of pairs), {fastest:.2} times (fastest blocks: \
                 fused {fused:.2?}, separate {separate:.2?}, all-reduce alone {alone:.2?})",
                T::TYPE
            );
        }
    }
}
