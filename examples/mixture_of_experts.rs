//! A layer of a mixture of experts, trained over several ranks: every rank has some tokens and some experts. `dispatch` brings each token to
//! the experts that it chooses, `combine` brings their results back. The loss of every step equals that of a single rank, bit for bit.
//!
//! ```console
//! cargo run --release --example mixture_of_experts
//! mscclpp launch -n 4 -- target/release/examples/mixture_of_experts
//! ```

/// Elements of a token; experts; tokens of a rank; experts that a token chooses; steps.
const HIDDEN: usize = 16;
const EXPERTS: usize = 8;
const TOKENS: usize = 24;
const TOP_K: usize = 2;
const STEPS: usize = 100;

/// What a learning rate makes of a gradient.
const RATE: f32 = 4.0;

/// Weights of the choices of a token.
const WEIGHTS: [f32; TOP_K] = [0.75, 0.25];

/// The tokens of a rank; each is a row.
fn tokens(rank: usize) -> Vec<f32> {
    (0..TOKENS * HIDDEN).map(|at| ((rank * 37 + at * 29) % 23) as f32 / 23.0 - 0.5).collect()
}

/// The choices of a rank's tokens: most of them choose the first experts, and one in five only one.
fn choices(rank: usize) -> Vec<i64> {
    let choice = |token: usize, k: usize| match (token % 5, k) {
        (0, 1) => -1,
        _ => (((rank + token) % EXPERTS * (token % 3) + 3 * k) % EXPERTS) as i64,
    };
    (0..TOKENS).flat_map(|token| (0..TOP_K).map(move |k| choice(token, k))).collect()
}

/// The matrix of an expert that is to be learned.
fn teacher(expert: usize) -> Vec<f32> {
    (0..HIDDEN * HIDDEN).map(|at| ((expert * 11 + at * 7) % 13) as f32 / 13.0 - 0.5).collect()
}

/// Multiplies rows by a matrix.
fn apply(matrix: &[f32], rows: &[f32]) -> Vec<f32> {
    let product = |row: &[f32], column: &[f32]| row.iter().zip(column).map(|(a, b)| a * b).sum::<f32>();
    rows.chunks_exact(HIDDEN)
        .flat_map(|row| matrix.chunks_exact(HIDDEN).map(move |column| product(row, column)))
        .collect()
}

/// Changes a matrix by the gradients of the results of rows, one row after the other.
fn learn(matrix: &mut [f32], rows: &[f32], gradients: &[f32]) {
    let mut sum = vec![0.0; matrix.len()];
    for (row, gradient) in rows.chunks_exact(HIDDEN).zip(gradients.chunks_exact(HIDDEN)) {
        for (sum, gradient) in sum.chunks_exact_mut(HIDDEN).zip(gradient) {
            sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += gradient * x);
        }
    }
    matrix.iter_mut().zip(sum).for_each(|(weight, sum)| *weight -= RATE * sum);
}

/// The sum of the results of a token's choices; `result(choice)`: of one of them.
fn weighted(choices: &[i64], result: impl Fn(usize) -> Vec<f32>) -> Vec<f32> {
    let mut all = Vec::new();
    for (token, choices) in choices.chunks_exact(TOP_K).enumerate() {
        let mut sum = vec![0.0_f32; HIDDEN];
        for (k, weight) in WEIGHTS.into_iter().enumerate().filter(|(k, _)| choices[*k] >= 0) {
            sum.iter_mut().zip(result(token * TOP_K + k)).for_each(|(sum, x)| *sum += weight * x);
        }
        all.extend(sum);
    }
    all
}

/// The results that a rank's tokens should have.
fn targets(rank: usize) -> Vec<f32> {
    let (x, choices) = (tokens(rank), choices(rank));
    let row = |choice: usize| &x[choice / TOP_K * HIDDEN..][..HIDDEN];
    weighted(&choices, |choice| apply(&teacher(choices[choice] as usize), row(choice)))
}

/// Returns the loss of results, and the gradient of each choice's result, a row each.
fn loss(results: &[f32], targets: &[f32], ranks: usize) -> (f64, Vec<f32>) {
    let errors: Vec<f32> = results.iter().zip(targets).map(|(result, target)| result - target).collect();
    let count = (ranks * TOKENS) as f32;
    let of_choice = |(token, k): (usize, usize)| {
        errors[token * HIDDEN..][..HIDDEN].iter().map(move |error| WEIGHTS[k] * error / count)
    };
    let choices = (0..TOKENS).flat_map(|token| (0..TOP_K).map(move |k| (token, k)));
    (errors.iter().map(|error| f64::from(*error).powi(2)).sum(), choices.flat_map(of_choice).collect())
}

/// Trains all experts on a single rank, and returns the loss of each step.
fn dense(ranks: usize) -> Vec<f64> {
    let mut matrices = vec![vec![0.0_f32; HIDDEN * HIDDEN]; EXPERTS];
    let step = |_| {
        let (mut total, mut rows, mut gradients) = (0.0, vec![Vec::new(); EXPERTS], vec![Vec::new(); EXPERTS]);
        for rank in 0..ranks {
            let (x, choices) = (tokens(rank), choices(rank));
            let row = |choice: usize| &x[choice / TOP_K * HIDDEN..][..HIDDEN];
            let results = weighted(&choices, |choice| apply(&matrices[choices[choice] as usize], row(choice)));
            let (loss, gradient) = loss(&results, &targets(rank), ranks);
            total += loss;
            for (choice, expert) in choices.iter().enumerate().filter(|(_, expert)| **expert >= 0) {
                rows[*expert as usize].extend_from_slice(row(choice));
                gradients[*expert as usize].extend_from_slice(&gradient[choice * HIDDEN..][..HIDDEN]);
            }
        }
        let all = matrices.iter_mut().zip(rows.iter().zip(&gradients));
        all.for_each(|(matrix, (rows, gradients))| learn(matrix, rows, gradients));
        total
    };
    (0..STEPS).map(step).collect()
}

/// Calls a function with the rows of each expert of a rank.
fn each_expert(counts: &[usize], mut of: impl FnMut(usize, std::ops::Range<usize>)) {
    let mut begin = 0;
    for (expert, count) in counts.iter().enumerate() {
        let end = begin + count * HIDDEN;
        of(expert, begin..end);
        begin = end;
    }
}

fn main() -> mscclpp::Result<()> {
    examples::on_ranks(4, |comm| {
        let (rank, ranks) = (comm.rank() as usize, comm.num_ranks() as usize);
        let (x, choices, targets) = (tokens(rank), choices(rank), targets(rank));
        let weights: Vec<f32> = (0..TOKENS).flat_map(|_| WEIGHTS).collect();
        let mut experts = vec![vec![0.0_f32; HIDDEN * HIDDEN]; EXPERTS / ranks];
        let mut losses = Vec::new();
        for _ in 0..STEPS {
            // To the experts, through them, and back.
            let arrived = comm.dispatch(&x, &choices, HIDDEN, EXPERTS)?;
            let mut results = Vec::with_capacity(arrived.rows.len());
            each_expert(&arrived.counts, |expert, rows| results.extend(apply(&experts[expert], &arrived.rows[rows])));
            let results = comm.combine(&results, &weights, &arrived.route)?;

            // Of each choice a gradient travels, as if it were a token with one choice: to the place of its row.
            let (own, gradients) = loss(&results, &targets, ranks);
            let gradients = comm.dispatch(&gradients, &choices, HIDDEN, EXPERTS)?.rows;
            each_expert(&arrived.counts, |expert, rows| {
                learn(&mut experts[expert], &arrived.rows[rows.clone()], &gradients[rows]);
            });
            let mut all = vec![0.0; ranks];
            comm.all_gather(&[own], &mut all)?;
            losses.push(all.iter().sum::<f64>());
        }

        assert_eq!(losses, dense(ranks), "rank {rank} has the loss of a single one");
        if rank == 0 {
            let [first, last] = [losses[0], losses[STEPS - 1]];
            assert!(last < first / 10.0, "it learns: {first} to {last}");
            println!(
                "{EXPERTS} experts on {ranks} ranks, {STEPS} steps: loss {first:.3} to {last:.5}, as on a single rank"
            );
        }
        Ok(())
    })
}
