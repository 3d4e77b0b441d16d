//! A layer of a mixture of experts and its training, for the examples that run it over several ranks: tokens, matrices, losses, and the
//! training of all experts on a single rank.

/// Elements of a token.
pub const HIDDEN: usize = 16;
/// Experts.
pub const EXPERTS: usize = 8;
/// Tokens of a rank.
pub const TOKENS: usize = 24;
/// Experts that a token chooses.
pub const TOP_K: usize = 2;
/// Steps of the training.
pub const STEPS: usize = 100;

/// The learning rate.
const RATE: f32 = 4.0;

/// Weights of the choices of a token.
pub const WEIGHTS: [f32; TOP_K] = [0.75, 0.25];

/// The tokens of a rank; each is a row.
pub fn tokens(rank: usize) -> Vec<f32> {
    (0..TOKENS * HIDDEN).map(|at| ((rank * 37 + at * 29) % 23) as f32 / 23.0 - 0.5).collect()
}

/// The choices of a rank's tokens: most of them choose the first experts, and one in five only one.
pub fn choices(rank: usize) -> Vec<i64> {
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
pub fn apply(matrix: &[f32], rows: &[f32]) -> Vec<f32> {
    let product = |row: &[f32], column: &[f32]| row.iter().zip(column).map(|(a, b)| a * b).sum::<f32>();
    rows.chunks_exact(HIDDEN)
        .flat_map(|row| matrix.chunks_exact(HIDDEN).map(move |column| product(row, column)))
        .collect()
}

/// Changes a matrix by the gradients of the results of rows, one row after the other.
pub fn learn(matrix: &mut [f32], rows: &[f32], gradients: &[f32]) {
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
pub fn targets(rank: usize) -> Vec<f32> {
    let (x, choices) = (tokens(rank), choices(rank));
    let row = |choice: usize| &x[choice / TOP_K * HIDDEN..][..HIDDEN];
    weighted(&choices, |choice| apply(&teacher(choices[choice] as usize), row(choice)))
}

/// Returns the loss of results, and the gradient of each choice's result, a row each.
pub fn loss(results: &[f32], targets: &[f32], ranks: usize) -> (f64, Vec<f32>) {
    let errors: Vec<f32> = results.iter().zip(targets).map(|(result, target)| result - target).collect();
    let count = (ranks * TOKENS) as f32;
    let of_choice = |(token, k): (usize, usize)| {
        errors[token * HIDDEN..][..HIDDEN].iter().map(move |error| WEIGHTS[k] * error / count)
    };
    let choices = (0..TOKENS).flat_map(|token| (0..TOP_K).map(move |k| (token, k)));
    (errors.iter().map(|error| f64::from(*error).powi(2)).sum(), choices.flat_map(of_choice).collect())
}

/// Trains all experts on a single rank, and returns the loss of each step; `ranks`: as many have tokens.
pub fn dense(ranks: usize) -> Vec<f64> {
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
pub fn each_expert(counts: &[usize], mut of: impl FnMut(usize, std::ops::Range<usize>)) {
    let mut begin = 0;
    for (expert, count) in counts.iter().enumerate() {
        let end = begin + count * HIDDEN;
        of(expert, begin..end);
        begin = end;
    }
}
