//! Blocks of a transformer over several ranks: each has some heads of the attention and some units of the network after it, and their
//! partial results are added, with the residual, and normalized by one call. Separate calls give the same bits, and so do fewer tokens.
//!
//! ```console
//! cargo run --release --example transformer_block
//! mscclpp launch -n 4 -- target/release/examples/transformer_block
//! ```

use mscclpp::prelude::*;
use mscclpp::runtime::RowNorm;
use mscclpp::runtime::select::OrderPolicy;

/// Tokens; elements of a token; heads of the attention; units of the network; blocks.
const TOKENS: usize = 12;
const HIDDEN: usize = 64;
const HEADS: usize = 8;
const UNITS: usize = 160;
const BLOCKS: usize = 3;

const HEAD: usize = HIDDEN / HEADS;
const EPS: f32 = 1e-6;

/// Returns a weight of a block; `matrix` is one of its six.
fn weight(block: usize, matrix: usize, row: usize, column: usize) -> f32 {
    ((block * 17 + matrix * 29 + row * 31 + column * 13) % 37) as f32 / 148.0 - 0.125
}

/// Returns the factors of a norm.
fn gamma(block: usize, norm: usize) -> Vec<f32> {
    (0..HIDDEN).map(|at| 0.75 + ((block * 5 + norm * 3 + at) % 8) as f32 / 16.0).collect()
}

/// Returns what a rank has of `count` heads or units.
fn part(count: usize, comm: &Communicator) -> std::ops::Range<usize> {
    let (rank, ranks) = (comm.rank() as usize, comm.num_ranks() as usize);
    count * rank / ranks..count * (rank + 1) / ranks
}

/// Multiplies rows by some columns of a matrix.
fn columns(rows: &[f32], (block, matrix): (usize, usize), of: std::ops::Range<usize>) -> Vec<f32> {
    let product =
        |row: &[f32], column| row.iter().enumerate().map(|(k, x)| x * weight(block, matrix, k, column)).sum::<f32>();
    rows.chunks_exact(HIDDEN).flat_map(|row| of.clone().map(move |column| product(row, column))).collect()
}

/// Multiplies the parts of rows that a rank has by the matching rows of a matrix: the rank's part of a sum over all ranks.
fn partial(parts: &[f32], (block, matrix): (usize, usize), of: std::ops::Range<usize>, tokens: usize) -> Vec<f32> {
    let mut sums = vec![0.0; tokens * HIDDEN];
    for (token, sums) in sums.chunks_exact_mut(HIDDEN).enumerate() {
        for (x, k) in parts[token * of.len()..].iter().zip(of.clone()) {
            sums.iter_mut().enumerate().for_each(|(column, sum)| *sum += x * weight(block, matrix, k, column));
        }
    }
    sums
}

/// Causal attention of this rank's heads, and its part of the projection after it.
fn attention(rows: &[f32], block: usize, heads: std::ops::Range<usize>) -> Vec<f32> {
    let of = heads.start * HEAD..heads.end * HEAD;
    let [queries, keys, values] = [0, 1, 2].map(|matrix| columns(rows, (block, matrix), of.clone()));
    let (tokens, width) = (rows.len() / HIDDEN, of.len());
    let mut mixed = vec![0.0; tokens * width];
    for token in 0..tokens {
        for head in (0..width).step_by(HEAD) {
            let at = |token: usize| token * width + head..token * width + head + HEAD;
            let score = |other| queries[at(token)].iter().zip(&keys[at(other)]).map(|(q, k)| q * k).sum::<f32>().exp();
            let scores: Vec<f32> = (0..=token).map(score).collect();
            let total: f32 = scores.iter().sum();
            for (other, score) in scores.iter().enumerate() {
                let mixed = mixed[at(token)].iter_mut().zip(&values[at(other)]);
                mixed.for_each(|(mixed, value)| *mixed += score / total * value);
            }
        }
    }
    partial(&mixed, (block, 3), of, tokens)
}

/// This rank's units of the network, and its part of their results.
fn network(rows: &[f32], block: usize, units: std::ops::Range<usize>) -> Vec<f32> {
    let mut inner = columns(rows, (block, 4), units.clone());
    inner.iter_mut().for_each(|x| *x /= 1.0 + (-*x).exp());
    partial(&inner, (block, 5), units, rows.len() / HIDDEN)
}

/// Adds the partial results of all ranks and the residual, and returns normalized rows: in one call.
fn fused(comm: &Communicator, partial: &[f32], residual: &mut [f32], gamma: &[f32]) -> mscclpp::Result<Vec<f32>> {
    let mut rows = vec![0.0; partial.len()];
    let norm = RowNorm::new(EPS).gamma(gamma).residual_in_place(residual);
    comm.all_reduce_rms_norm(partial, &mut rows, HIDDEN, norm)?;
    Ok(rows)
}

/// The same with an all-reduce and the arithmetic that the documentation states.
fn unfused(comm: &Communicator, partial: &[f32], residual: &mut [f32], gamma: &[f32]) -> mscclpp::Result<Vec<f32>> {
    let mut rows = vec![0.0; partial.len()];
    comm.all_reduce(partial, &mut rows, ReduceOp::Sum)?;
    for (row, residual) in rows.chunks_exact_mut(HIDDEN).zip(residual.chunks_exact_mut(HIDDEN)) {
        residual.iter_mut().zip(&*row).for_each(|(residual, sum)| *residual += sum);
        // Partial sum j has the elements of the 16-byte vectors j, j + 256, …
        let mut squares = [0.0_f32; 256];
        residual.iter().enumerate().for_each(|(at, x)| squares[at / 4 % 256] += x * x);
        for half in [128, 64, 32, 16, 8, 4, 2, 1] {
            (0..half).for_each(|at| squares[at] += squares[at + half]);
        }
        let inverse = 1.0 / (squares[0] / HIDDEN as f32 + EPS).sqrt();
        row.iter_mut().zip(residual).zip(gamma).for_each(|((y, x), gamma)| *y = *x * inverse * gamma);
    }
    Ok(rows)
}

type Layer = fn(&Communicator, &[f32], &mut [f32], &[f32]) -> mscclpp::Result<Vec<f32>>;

/// Returns the normalized rows and the residual after all blocks.
fn transformer(comm: &Communicator, tokens: &[f32], layer: Layer) -> mscclpp::Result<(Vec<f32>, Vec<f32>)> {
    let (heads, units) = (part(HEADS, comm), part(UNITS, comm));
    let (mut rows, mut residual) = (tokens.to_vec(), tokens.to_vec());
    for block in 0..BLOCKS {
        rows = layer(comm, &attention(&rows, block, heads.clone()), &mut residual, &gamma(block, 0))?;
        rows = layer(comm, &network(&rows, block, units.clone()), &mut residual, &gamma(block, 1))?;
    }
    Ok((rows, residual))
}

fn main() -> mscclpp::Result<()> {
    examples::on_ranks(4, |comm| {
        // The order in which calls with row norms always add.
        comm.set_order_policy(OrderPolicy::RankOrder);
        let tokens: Vec<f32> = (0..TOKENS * HIDDEN).map(|at| ((at * 37) % 41) as f32 / 41.0 - 0.5).collect();
        let (rows, residual) = transformer(comm, &tokens, fused)?;
        assert_eq!(transformer(comm, &tokens, unfused)?, (rows.clone(), residual.clone()), "separate calls");

        // A token does not see those that follow it, and nothing else depends on their number.
        for count in 1..TOKENS {
            let end = count * HIDDEN;
            let found = transformer(comm, &tokens[..end], fused)?;
            assert_eq!(found, (rows[..end].to_vec(), residual[..end].to_vec()), "{count} tokens");
        }
        if comm.rank() == 0 {
            let ranks = comm.num_ranks();
            let (first, last) = (rows[0], rows[rows.len() - 1]);
            println!(
                "{BLOCKS} blocks on {ranks} ranks, {TOKENS} tokens: {first} to {last}, with separate calls and with fewer tokens too"
            );
        }
        Ok(())
    })
}
