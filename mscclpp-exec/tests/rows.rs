//! Plans that normalize rows, on the CPU: every algorithm has the bits of a naive computation of each row alone, whatever the
//! number of rows, ranks, thread blocks and workers.

use mscclpp_algorithms as algorithms;
use mscclpp_base::error::RowsError;
use mscclpp_base::random::Random;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::OpKind;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{BufferKind, Protocol};
use mscclpp_exec::__half::{bf16, f16};
use mscclpp_exec::cpu::{Executor, Options, PreparedPlan, Schedule};
use mscclpp_exec::{AccumType, E4m3, Element, Error, Message, RowNorm};

/// Elements that rows consist of.
pub(crate) trait Float: Element + PartialEq + std::fmt::Debug {
    fn of(value: f32) -> Self;
    fn get(self) -> f32;
}

macro_rules! float {
    ($type:ty, $of:expr, $get:expr) => {
        impl Float for $type {
            fn of(value: f32) -> Self {
                $of(value)
            }
            fn get(self) -> f32 {
                $get(self)
            }
        }
    };
}
float!(f32, |value| value, |value| value);
float!(f16, f16::from_f32, f16::to_f32);
float!(bf16, bf16::from_f32, bf16::to_f32);

/// What a launch passes and receives on a rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case<T> {
    pub(crate) hidden: usize,
    pub(crate) eps: f32,
    pub(crate) bias: f32,
    /// By rank.
    pub(crate) inputs: Vec<Vec<T>>,
    pub(crate) residual: Vec<T>,
    pub(crate) gamma: Vec<T>,
}

/// What a rank has after a launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found<T> {
    pub(crate) normed: Vec<T>,
    pub(crate) sums: Vec<T>,
    pub(crate) quantized: Vec<E4m3>,
    pub(crate) scales: Vec<f32>,
}

impl<T: Float> Case<T> {
    pub(crate) fn random(ranks: usize, rows: usize, hidden: usize, seed: u64) -> Self {
        let random = std::cell::RefCell::new(Random(seed));
        let value = || T::of((random.borrow_mut().next() % 4096) as f32 / 1024.0 - 2.0);
        let list = |len: usize| (0..len).map(|_| value()).collect::<Vec<_>>();
        let inputs = (0..ranks).map(|_| list(rows * hidden)).collect();
        Self { hidden, eps: 1e-6, bias: 1.0, inputs, residual: list(rows * hidden), gamma: list(hidden) }
    }

    fn rows(&self) -> usize {
        self.residual.len() / self.hidden
    }

    /// Returns some of its rows.
    fn part(&self, rows: std::ops::Range<usize>) -> Self {
        let of = |list: &[T]| list[rows.start * self.hidden..rows.end * self.hidden].to_vec();
        let inputs = self.inputs.iter().map(|input| of(input)).collect();
        Self { inputs, residual: of(&self.residual), gamma: self.gamma.clone(), ..*self }
    }

    /// Returns what every rank must have, computed row by row, and element by element as the contract states it.
    pub(crate) fn expected(&self) -> Found<T> {
        let mut found = Found { normed: vec![], sums: vec![], quantized: vec![], scales: vec![] };
        for row in 0..self.rows() {
            let at = |i: usize| row * self.hidden + i;
            let sum = |i: usize| {
                let others = self.inputs[1..].iter();
                others.fold(self.inputs[0][at(i)], |sum, input| T::of(sum.get() + input[at(i)].get()))
            };
            let sums: Vec<T> = (0..self.hidden).map(|i| T::of(sum(i).get() + self.residual[at(i)].get())).collect();
            let inverse = 1.0 / (squares(&sums) / self.hidden as f32 + self.eps).sqrt();
            let factor = |i: usize| self.bias + self.gamma[i].get();
            let normed: Vec<T> = (0..self.hidden).map(|i| T::of((sums[i].get() * inverse) * factor(i))).collect();
            let largest = normed.iter().map(|value| value.get().abs()).fold(0.0, f32::max);
            let scale = (largest / 448.0).max(1.0 / (512.0 * 448.0));
            let quantize = |value: &T| E4m3::from_f64(f64::from(value.get() * (1.0 / scale)));
            found.quantized.extend(normed.iter().map(quantize));
            found.scales.push(scale);
            found.normed.extend(normed);
            found.sums.extend(sums);
        }
        found
    }

    /// Returns an empty result for a number of rows.
    pub(crate) fn nothing(&self, rows: usize) -> Found<T> {
        let elements = rows * self.hidden;
        Found {
            normed: vec![T::of(-7.0); elements],
            sums: vec![T::of(-7.0); elements],
            quantized: vec![E4m3(1); elements],
            scales: vec![-7.0; rows],
        }
    }

    /// Launches a plan, and returns what every rank has.
    pub(crate) fn launch(&self, prepared: &mut PreparedPlan) -> Vec<Found<T>> {
        let rows = prepared.output_len() / self.hidden;
        let mut found = vec![self.nothing(rows); self.inputs.len()];
        let parts = self.rows() / rows.max(1);
        let mut norms = Vec::new();
        let mut outputs = Vec::new();
        for (rank, Found { normed, sums, quantized, scales }) in found.iter_mut().enumerate() {
            let first = if parts > 1 { rank * rows * self.hidden } else { 0 };
            let residual = &self.residual[first..first + rows * self.hidden];
            let norm = RowNorm::new(self.eps).bias(self.bias).gamma(&self.gamma).residual(residual);
            norms.push(norm.residual_out(sums).quantized_by_row(quantized, scales));
            outputs.push(normed);
        }
        let mut outputs: Vec<&mut [T]> = outputs.into_iter().map(Vec::as_mut_slice).collect();
        prepared.launch_rows(&self.inputs, &mut outputs, norms).expect("a launch");
        found
    }
}

/// Returns the sum of squares by the tree of the contract.
fn squares<T: Float>(row: &[T]) -> f32 {
    let mut partials = [0.0_f32; 256];
    for (i, value) in row.iter().enumerate() {
        let vector = i * size_of::<T>() / 16;
        partials[vector % 256] += value.get() * value.get();
    }
    for half in [128, 64, 32, 16, 8, 4, 2, 1] {
        for k in 0..half {
            partials[k] += partials[k + half];
        }
    }
    partials[0]
}

/// Plans of an algorithm, out of place, with several numbers of thread blocks.
pub(crate) fn plans(name: &str, ranks: u32) -> Vec<Plan> {
    let algorithm = algorithms::find(name).expect("an algorithm");
    let variants = [1, 3].map(|blocks| {
        let mut spec = algorithm.spec(ranks, ranks);
        spec.collective.in_place = false;
        let arguments = if algorithm.arguments([]).is_ok_and(|list| list.len() == 1) { vec![blocks] } else { vec![] };
        if arguments.is_empty() && name != "allreduce_norm_pull" {
            spec.collective.chunk_factor = blocks as u32;
        }
        algorithm.plan(spec, &arguments).unwrap_or_else(|error| panic!("{name}, {ranks} ranks: {error}"))
    });
    variants.into()
}

const ALL_REDUCES: [&str; 4] =
    ["allreduce_norm_one_shot", "allreduce_norm_pull", "allreduce_norm_two_shot", "allreduce_norm_scatter"];

/// Returns rows `part` of what a rank has.
fn part<T: Float>(all: &Found<T>, rows: std::ops::Range<usize>, hidden: usize) -> Found<T> {
    let elements = rows.start * hidden..rows.end * hidden;
    Found {
        normed: all.normed[elements.clone()].to_vec(),
        sums: all.sums[elements.clone()].to_vec(),
        quantized: all.quantized[elements].to_vec(),
        scales: all.scales[rows].to_vec(),
    }
}

fn has_the_bits_of_the_contract<T: Float>(ranks: u32, rows: usize, hidden: usize) {
    let case = Case::<T>::random(ranks as usize, rows, hidden, u64::from(ranks) << 32 | (rows * hidden) as u64);
    let expected = case.expected();
    for name in ALL_REDUCES {
        for (seed, plan) in plans(name, ranks).iter().enumerate() {
            let options = Options::default().schedule(Schedule::Seeded(seed as u64)).workers(Some(2)).parallel_from(0);
            let executor = Executor::with_options(ranks, options);
            let mut prepared = executor.prepare(plan, Message::rows::<T>(rows, hidden)).expect("a plan");
            for launch in 0..2 {
                prepared.scramble_scratch(launch);
                for (rank, found) in case.launch(&mut prepared).into_iter().enumerate() {
                    let text = format!("{name}, rank {rank} of {ranks}, {rows} rows of {hidden} {}", T::TYPE);
                    assert_eq!(found.normed, expected.normed, "{text}");
                    if name != "allreduce_norm_scatter" {
                        assert_eq!(found, expected, "{text}");
                    }
                }
            }
        }
    }
}

/// Runs a plan of which every rank normalizes all rows.
pub(crate) fn normalizes_rows(plan: &Plan) {
    let ranks = plan.num_ranks();
    for (rows, hidden, seed) in [(0, 8, 0), (1, 8, 1), (5, 24, 2), (12, 520, 3)] {
        let options = Options::default().schedule(Schedule::Seeded(seed)).workers(Some(2));
        let executor = Executor::with_options(ranks, options);
        let mut prepared = executor.prepare(plan, Message::rows::<f32>(rows, hidden)).expect("a plan");
        let case = Case::<f32>::random(ranks as usize, rows, hidden, seed);
        assert!(case.launch(&mut prepared).into_iter().all(|found| found == case.expected()), "{}", plan.name());
    }
}

#[test]
fn results_have_the_bits_of_the_contract() {
    for ranks in [2, 3, 5, 8] {
        for (rows, hidden) in [(0, 8), (1, 8), (3, 24), (7, 1032), (9, 8)] {
            has_the_bits_of_the_contract::<bf16>(ranks, rows, hidden);
            has_the_bits_of_the_contract::<f16>(ranks, rows, hidden);
            has_the_bits_of_the_contract::<f32>(ranks, rows, hidden);
        }
    }
}

#[test]
fn reduce_scatter_normalizes_the_part_of_each_rank() {
    for (ranks, per_rank, hidden) in [(2, 0, 8), (2, 3, 40), (3, 1, 8), (4, 5, 1032)] {
        let case = Case::<bf16>::random(ranks as usize, per_rank * ranks as usize, hidden, 7);
        let expected = case.expected();
        for plan in plans("reducescatter_norm", ranks) {
            let message = Message::rows::<bf16>(per_rank * ranks as usize, hidden);
            let mut prepared = Executor::new(ranks).prepare(&plan, message).expect("a plan");
            for (rank, found) in case.launch(&mut prepared).into_iter().enumerate() {
                assert_eq!(found, part(&expected, rank * per_rank..(rank + 1) * per_rank, hidden), "rank {rank}");
            }
        }
    }
}

#[test]
fn all_gather_normalizes_the_rows_of_each_rank() {
    for (ranks, per_rank, hidden) in [(2, 0, 8), (2, 3, 40), (3, 1, 8), (3, 10, 24), (5, 2, 136), (8, 5, 1032)] {
        let own: Vec<_> = (0..ranks).map(|rank| Case::<bf16>::random(1, per_rank, hidden, rank.into())).collect();
        let expected: Vec<_> = own.iter().map(Case::expected).collect();
        let all: Vec<bf16> = expected.iter().flat_map(|found| found.normed.clone()).collect();
        for (name, in_place) in [("allgather_norm", false), ("allgather_norm", true), ("allgather_norm_packets", true)]
        {
            let algorithm = algorithms::find(name).expect("an algorithm");
            for plan in plans(name, ranks) {
                let mut spec = algorithm.spec(ranks, ranks);
                spec.collective.in_place = in_place;
                let plan =
                    if in_place { algorithm.plan(spec, &algorithm.arguments([]).unwrap()).unwrap() } else { plan };
                let message = Message::rows::<bf16>(per_rank * ranks as usize, hidden);
                let options =
                    Options::default().schedule(Schedule::Seeded(ranks.into())).workers(Some(2)).parallel_from(0);
                let mut prepared = Executor::with_options(ranks, options).prepare(&plan, message).expect("a plan");
                prepared.scramble_scratch(1);
                let mut found: Vec<_> = own.iter().map(|case| case.nothing(per_rank)).collect();
                let mut outputs = vec![vec![bf16::ZERO; all.len()]; ranks as usize];
                let inputs: Vec<_> = own.iter().map(|case| case.inputs[0].clone()).collect();
                let norms: Vec<_> = found
                    .iter_mut()
                    .zip(&own)
                    .map(|(found, case)| {
                        let Found { sums, quantized, scales, .. } = found;
                        let norm = RowNorm::new(case.eps).bias(case.bias).gamma(&case.gamma).residual(&case.residual);
                        norm.residual_out(sums).quantized_by_row(quantized, scales)
                    })
                    .collect();
                if in_place {
                    for (rank, output) in outputs.iter_mut().enumerate() {
                        output[rank * per_rank * hidden..][..per_rank * hidden].copy_from_slice(&inputs[rank]);
                    }
                    prepared.launch_rows_in_place(&mut outputs, norms).expect("a launch");
                } else {
                    prepared.launch_rows(&inputs, &mut outputs, norms).expect("a launch");
                }
                for (rank, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let text =
                        format!("{name}, rank {rank} of {ranks}, {per_rank} rows of {hidden}, in place: {in_place}");
                    assert_eq!(outputs[rank], all, "{text}");
                    let expected = (&expected.sums, &expected.quantized, &expected.scales);
                    assert_eq!((&found.sums, &found.quantized, &found.scales), expected, "{text}");
                }
            }
        }
    }
}

#[test]
fn bits_of_a_row_do_not_depend_on_the_number_of_rows() {
    for hidden in [8, 520, 2056] {
        let whole = Case::<bf16>::random(2, 71, hidden, hidden as u64);
        let expected = whole.expected();
        let all: Vec<Plan> = ALL_REDUCES.iter().flat_map(|name| plans(name, 2)).collect();
        let executor = Executor::new(2);
        for rows in 0..=70 {
            // Rows of another place in another batch.
            let first = 71 - rows;
            let case = whole.part(first..71);
            let plan = &all[rows % all.len()];
            let mut prepared = executor.prepare(plan, Message::rows::<bf16>(rows, hidden)).expect("a plan");
            for found in case.launch(&mut prepared) {
                assert_eq!(found.normed, part(&expected, first..71, hidden).normed, "{rows} rows of {hidden}");
            }
        }
    }
}

#[test]
fn results_are_within_the_rounding_of_an_oracle_in_f64() {
    let case = Case::<f32>::random(3, 5, 4096, 11);
    let found = case.expected();
    for row in 0..5 {
        let sum = |i: usize| {
            let inputs = case.inputs.iter().map(|input| f64::from(input[row * 4096 + i]));
            inputs.sum::<f64>() + f64::from(case.residual[row * 4096 + i])
        };
        let mean = (0..4096).map(|i| sum(i) * sum(i)).sum::<f64>() / 4096.0;
        for i in 0..4096 {
            let y = sum(i) / (mean + f64::from(case.eps)).sqrt() * (1.0 + f64::from(case.gamma[i]));
            let error = (f64::from(found.normed[row * 4096 + i]) - y).abs();
            assert!(error <= 4e-6 * (1.0 + y.abs()), "{error} at {i} of row {row}: {y}");
        }
    }
}

/// Launches the one-shot algorithm and the scatter, compares their normalized rows, and returns rank 0's result.
fn both(case: &Case<bf16>, accumulate: AccumType) -> Found<bf16> {
    let ranks = case.inputs.len() as u32;
    let message = Message::rows::<bf16>(case.rows(), case.hidden).accumulate(accumulate);
    let mut all = ALL_REDUCES.iter().flat_map(|name| plans(name, ranks)).map(|plan| {
        let mut prepared = Executor::new(ranks).prepare(&plan, message).expect("a plan");
        case.launch(&mut prepared)
    });
    let first = all.next().expect("an algorithm");
    assert!(all.flatten().all(|found| found.normed == first[0].normed));
    first[0].clone()
}

fn list(values: &[f32], len: usize) -> Vec<bf16> {
    let padding = std::iter::repeat_n(&0.0, len - values.len());
    values.iter().chain(padding).map(|value| bf16::from_f32(*value)).collect()
}

#[test]
fn ranks_are_added_in_order_and_in_the_accumulator() {
    for rows in [1, 9] {
        let input = |value: f32| list(&vec![value; 8 * rows], 8 * rows);
        let inputs = vec![input(256.0), input(1.0), input(1.0)];
        let case =
            Case { hidden: 8, eps: 0.0, bias: 0.0, inputs, residual: list(&[], 8 * rows), gamma: list(&[1.0; 8], 8) };
        assert!(both(&case, AccumType::Native).sums.iter().all(|sum| sum.to_f32() == 256.0));
        assert!(both(&case, AccumType::F32).sums.iter().all(|sum| sum.to_f32() == 258.0));
    }
}

#[test]
fn sums_are_rounded_before_squares_and_products_are_rounded_once() {
    let case = |gamma: f32| Case {
        hidden: 8,
        eps: 0.0,
        bias: 0.0,
        inputs: vec![list(&[256.0, 128.0], 8), list(&[], 8)],
        residual: list(&[1.0], 8),
        gamma: list(&[1.0, gamma, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 8),
    };
    let found = both(&case(1.0), AccumType::Native);
    assert_eq!(found.sums[0].to_f32(), 256.0);
    assert_eq!((found.normed[0].to_f32(), found.normed[1].to_f32()), (2.53125, 1.265625));
    assert_eq!(both(&case(1.015625), AccumType::Native).normed[1].to_f32(), 1.28125);
}

#[test]
fn squares_are_added_by_a_tree_that_depends_on_the_row_alone() {
    for rows in [1, 34, 67] {
        let mut row = vec![0.0; 4096];
        (row[0], row[1024], row[3072]) = (4096.0, 1.0, 1.0);
        let input = list(&row.repeat(rows), 4096 * rows);
        assert_eq!(squares(&input[..4096]), 16_777_218.0);
        let residual = list(&[], 4096 * rows);
        let gamma = list(&vec![1.0; 4096], 4096);
        let inputs = vec![input, residual.clone()];
        let case = Case { hidden: 4096, eps: 0.0, bias: 0.0, inputs, residual, gamma };
        let expected = case.expected();
        assert_eq!(both(&case, AccumType::Native), expected, "{rows} rows");
    }
}

#[test]
fn zeros_keep_their_signs_and_quantization_saturates() {
    let zeros = list(&[-0.0; 8], 8);
    let case = Case {
        hidden: 8,
        eps: 1e-6,
        bias: 0.0,
        inputs: vec![zeros.clone(), zeros.clone()],
        residual: zeros,
        gamma: list(&[1.0; 8], 8),
    };
    let found = both(&case, AccumType::Native);
    assert!(found.normed.iter().all(|value| value.to_bits() == 0x8000), "{:?}", found.normed);
    assert_eq!(found.scales, [4.359_654e-6]);
    // Without a norm, rows are quantized as they are.
    let mut plan = plans("allreduce_norm_one_shot", 2);
    let plan = plan.remove(0);
    let mut prepared = Executor::new(2).prepare(&plan, Message::rows::<bf16>(1, 8)).expect("a plan");
    let input = list(&[460.0, 17.0, 19.0, -460.0], 8);
    let mut outputs = vec![list(&[], 8); 2];
    let mut quantized = [[E4m3(9); 8]; 2];
    let norms = quantized.iter_mut().map(|quantized| RowNorm::add_only().quantized(quantized, 1.0));
    prepared.launch_rows(&[input.clone(), list(&[], 8)], &mut outputs, norms).expect("a launch");
    assert_eq!(outputs, [input.clone(), input]);
    assert_eq!(quantized[1].map(E4m3::to_f32), [448.0, 16.0, 20.0, -448.0, 0.0, 0.0, 0.0, 0.0]);
}

/// A custom collective: both ranks normalize the sums of the first of two chunks of both of them.
fn custom_plan() -> Plan {
    let mut spec = AlgoSpec::new("custom_rows", CollectiveKind::Custom { input: 2, output: 1 }, 2);
    (spec.collective.rows, spec.double_scratch) = (true, true);
    spec.protocol = Protocol::LL;
    let program = Program::new(spec);
    let (first, second, scratch) = (program.rank(0), program.rank(1), program.rank(1).scratch(1));
    let own = first.scratch(1);
    first.memory_channel(second).put_packets(scratch.chunk(0), first.input().chunk(0), 0);
    second.memory_channel(first).put_packets(own.chunk(0), second.input().chunk(0), 0);
    for (rank, other) in [(first, own), (second, scratch)] {
        let sum = rank.output().chunk(0);
        rank.reduce_packets(rank.input().chunk(0), [other.chunk(0)], 0).to(sum);
        rank.row_norm(sum, sum, 0);
        program.expect(rank.output().chunk(0), [first.input().chunk(0), second.input().chunk(0)]);
    }
    let tree = mscclpp_core::compile_tree(program, &mscclpp_core::check::Checks::default()).expect("a right plan");
    Plan::new(&tree)
}

#[test]
fn custom_collectives_normalize_rows() {
    let plan = custom_plan();
    // The larger buffer, the input, has two chunks: of an odd number of rows, the second one is shorter.
    for (rows, hidden) in [(0, 8), (1, 24), (2, 8), (6, 136), (7, 8)] {
        let message = Message::rows::<bf16>(rows, hidden);
        let mut prepared = Executor::new(2).prepare(&plan, message).expect("a plan");
        let own = prepared.output_len() / hidden;
        assert_eq!(own, rows.div_ceil(2));
        let case = Case::<bf16>::random(2, rows, hidden, rows as u64);
        let expected = case.part(0..own).expected();
        let mut found = vec![case.nothing(own); 2];
        let (mut norms, mut outputs) = (Vec::new(), Vec::new());
        for Found { normed, sums, quantized, scales } in &mut found {
            let norm = RowNorm::new(case.eps).bias(case.bias).gamma(&case.gamma);
            let norm = norm.residual(&case.residual[..own * hidden]).residual_out(sums);
            norms.push(norm.quantized_by_row(quantized, scales));
            outputs.push(&mut normed[..]);
        }
        prepared.launch_rows(&case.inputs, &mut outputs, norms).expect("a launch");
        assert!(found.iter().all(|found| *found == expected), "{rows} rows of {hidden}");
    }
    let mut prepared = Executor::new(2).prepare(&plan, Message::rows::<f32>(5, 8)).expect("a plan");
    let verifier = mscclpp_exec::verify::Verifier::new(&prepared, 3);
    let mut buffers = prepared.buffers().expect("memory");
    verifier.fill(&mut buffers);
    prepared.launch_buffers_normalized(&mut buffers, mscclpp_exec::verify::ROW_EPS).expect("a launch");
    let report = verifier.check(&buffers);
    assert!(report.is_correct() && report.checked == 48, "{report}");
    buffers.output_mut(1)[7] ^= 0x40;
    assert_eq!(verifier.check(&buffers).wrong, 1);
}

/// Resolved plans are checked again: what was not proved does not access operands that the caller has not passed.
#[test]
fn norms_of_rows_without_operands_are_rejected_without_checks() {
    let gather = algorithms::find("allgather_norm_packets").expect("an algorithm");
    let mut tree = gather.compile_tree(gather.spec(2, 2), &[1]).expect("a plan");
    let ops = &mut tree.ranks[0].blocks[0].ops;
    let norm = ops.iter_mut().find(|op| op.kind == OpKind::RowNorm).expect("a norm");
    norm.dsts[0].index = 1;
    let found = Executor::new(2).prepare(&Plan::new(&tree), Message::rows::<f32>(2, 8));
    assert!(
        matches!(&found, Err(Error::InvalidPlan { what, .. }) if what.contains("expected one of 0..1")),
        "{found:?}"
    );

    let mut tree = custom_plan().tree();
    let norm = tree.ranks[1].blocks[0].ops.iter_mut().find(|op| op.kind == OpKind::RowNorm).expect("a norm");
    norm.srcs[0] = mscclpp_core::plan::raw::Operand::local(BufferKind::Input, 1, 1);
    let found = Executor::new(2).prepare(&Plan::new(&tree), Message::rows::<f32>(2, 8));
    assert!(matches!(&found, Err(Error::InvalidPlan { what, .. }) if what.contains("which is longer")), "{found:?}");
}

#[test]
fn scatter_normalizes_each_row_on_one_rank() {
    let case = Case::<bf16>::random(8, 3, 16, 3);
    let algorithm = algorithms::find("allreduce_norm_scatter").expect("an algorithm");
    let mut spec = algorithm.spec(8, 8);
    (spec.collective.in_place, spec.collective.chunk_factor) = (false, 1);
    let plan = algorithm.plan(spec, &[]).expect("a plan");
    let mut prepared = Executor::new(8).prepare(&plan, Message::rows::<bf16>(3, 16)).expect("a plan");
    let expected = case.expected();
    for (rank, found) in case.launch(&mut prepared).into_iter().enumerate() {
        let rows = rank.min(3)..(rank + 1).min(3);
        let mut own = case.nothing(3);
        own.normed.clone_from(&expected.normed);
        let elements = rows.start * 16..rows.end * 16;
        own.sums[elements.clone()].copy_from_slice(&expected.sums[elements.clone()]);
        own.quantized[elements.clone()].copy_from_slice(&expected.quantized[elements]);
        own.scales[rows.clone()].copy_from_slice(&expected.scales[rows]);
        assert_eq!(found, own, "rank {rank}");
    }
}

#[test]
fn residual_may_be_replaced_in_place() {
    for name in ALL_REDUCES.into_iter().filter(|name| *name != "allreduce_norm_pull") {
        let case = Case::<bf16>::random(2, 4, 24, 5);
        let algorithm = algorithms::find(name).expect("an algorithm");
        let mut spec = algorithm.spec(2, 2);
        spec.collective.in_place = true;
        let plan = algorithm.plan(spec, &algorithm.arguments([]).expect("defaults")).expect("a plan");
        let mut prepared = Executor::new(2).prepare(&plan, Message::rows::<bf16>(4, 24)).expect("a plan");
        let mut buffers = case.inputs.clone();
        let mut residuals = vec![case.residual.clone(); 2];
        let norms = residuals
            .iter_mut()
            .map(|residual| RowNorm::new(case.eps).bias(case.bias).gamma(&case.gamma).residual_in_place(residual));
        prepared.launch_rows_in_place(&mut buffers, norms).expect("a launch");
        let expected = case.expected();
        assert_eq!(buffers, [expected.normed.clone(), expected.normed], "{name}");
        if name != "allreduce_norm_scatter" {
            assert_eq!(residuals, [expected.sums.clone(), expected.sums], "{name}");
        }
    }
}

#[test]
fn wrong_rows_and_operands_are_rejected() {
    let plan = &plans("allreduce_norm_two_shot", 2)[0];
    let executor = Executor::new(2);
    let rejected = |message: Message| match executor.prepare(plan, message) {
        Err(Error::Rows(error)) => error,
        other => panic!("{other:?}"),
    };
    let dtype = <bf16 as Element>::TYPE;
    assert_eq!(rejected(Message::rows::<bf16>(2, 1441)), RowsError::Length { hidden: 1441, dtype });
    assert_eq!(rejected(Message::rows::<i32>(2, 4)), RowsError::Type { dtype: <i32 as Element>::TYPE });
    assert!(matches!(rejected(Message::of::<bf16>(16)), RowsError::Mode { rows: true, .. }));
    let uneven = Message { count: 9, ..Message::rows::<bf16>(2, 8) };
    assert_eq!(rejected(uneven), RowsError::Count { count: 9, hidden: 8, parts: 1 });
    let scatter = &plans("reducescatter_norm", 2)[0];
    let error = executor.prepare(scatter, Message::rows::<bf16>(3, 8)).expect_err("an odd number of rows");
    assert!(
        matches!(error, Error::IndivisibleCount { .. } | Error::Rows(RowsError::Count { parts: 2, .. })),
        "{error}"
    );
    let ring = algorithms::find("allreduce_ring").expect("an algorithm");
    let ring = ring.plan(ring.spec(2, 2), &[]).expect("a plan");
    let error = executor.prepare(&ring, Message::rows::<bf16>(2, 8)).expect_err("a plan without rows");
    assert!(matches!(error, Error::Rows(RowsError::Mode { rows: false, .. })), "{error}");

    let mut prepared = executor.prepare(plan, Message::rows::<bf16>(2, 8)).expect("a plan");
    let (inputs, mut outputs) = (vec![list(&[], 16); 2], vec![list(&[], 16); 2]);
    let error = prepared.launch(&inputs, &mut outputs).expect_err("no operands");
    assert!(matches!(error, Error::Rows(RowsError::Mode { rows: true, .. })), "{error}");
    let gamma = list(&[], 16);
    let norms = [RowNorm::new(0.0), RowNorm::new(0.0).gamma(&gamma)];
    let error = prepared.launch_rows(&inputs, &mut outputs, norms).expect_err("a long gamma");
    assert_eq!(error.to_string(), "gamma of rank 1 has 16 elements, expected 8");
    let mut quantized = [E4m3(0); 16];
    let norms = [RowNorm::new(0.0).quantized(&mut quantized, -1.0), RowNorm::new(0.0)];
    let error = prepared.launch_rows(&inputs, &mut outputs, norms).expect_err("a negative scale");
    assert_eq!(error.to_string(), "the scale of rank 0 is -1, expected a positive finite number");
    let error = prepared.launch_rows(&inputs, &mut outputs, [RowNorm::new(0.0)]).expect_err("one norm");
    assert!(matches!(error, Error::BufferCount { expected: 2, found: 1, .. }), "{error}");
    assert_eq!(prepared.collective().kind, CollectiveKind::AllReduce);
}

#[test]
fn every_algorithm_reduces_in_the_order_of_ranks() {
    for algorithm in algorithms::norms() {
        for ranks in [2, 3, 8] {
            let tree = algorithm.compile_tree(algorithm.spec(ranks, ranks), &algorithm.arguments([]).unwrap()).unwrap();
            if !algorithm.kind().is_reduction() {
                continue;
            }
            let order = mscclpp_core::check::reduction_order(&tree).expect("a reduction");
            // The sum of two does not depend on their order.
            let is_pull_of_two = algorithm.name() == "allreduce_norm_pull" && ranks == 2;
            assert!(order.is_rank_order || is_pull_of_two, "{}", algorithm.name());
        }
    }
}
