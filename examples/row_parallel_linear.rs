//! A layer of a neural network over several ranks: each has some rows of the weights and the matching columns of the
//! input, and an all-reduce adds their partial results. Plain slices, four ranks.
//!
//! ```console
//! cargo run --release --example row_parallel_linear
//! mscclpp launch -n 4 -- target/release/examples/row_parallel_linear
//! ```

use mscclpp::prelude::*;

/// Rows of the input, input features, output features.
const BATCH: usize = 6;
const IN: usize = 64;
const OUT: usize = 48;

/// Returns small integers, so that sums are exact in every order.
fn input(row: usize, feature: usize) -> f32 {
    ((row * 31 + feature * 7) % 11) as f32 - 5.0
}

fn weight(feature: usize, out: usize) -> f32 {
    ((feature * 13 + out * 3) % 9) as f32 - 4.0
}

/// Returns `BATCH × OUT` outputs of some of the input features.
fn linear(features: std::ops::Range<usize>) -> Vec<f32> {
    let mut y = vec![0.0; BATCH * OUT];
    for (row, y) in y.chunks_exact_mut(OUT).enumerate() {
        for feature in features.clone() {
            let x = input(row, feature);
            y.iter_mut().enumerate().for_each(|(out, y)| *y += x * weight(feature, out));
        }
    }
    y
}

fn main() -> mscclpp::Result<()> {
    examples::on_ranks(4, |group| {
        let (rank, ranks) = (group.rank() as usize, group.num_ranks() as usize);
        // The features of this rank; their number need not be a multiple of the number of ranks.
        let mut y = linear(IN * rank / ranks..IN * (rank + 1) / ranks);
        group.all_reduce_in_place(&mut y, ReduceOp::Sum)?;

        assert_eq!(y, linear(0..IN), "rank {rank} has what a single one computes");
        if rank == 0 {
            println!("{ranks} ranks, {BATCH} x {IN} inputs, {IN} x {OUT} weights: {} outputs equal", y.len());
        }
        Ok(())
    })
}
