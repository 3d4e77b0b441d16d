//! Expert parallelism on device memory: rows at experts, and sums, are those of a computation from the tokens of all ranks.

use libtest_mimic::Failed;
use mscclpp_communicator::{Communicator, ExpertShape, RowElement, RowLayout, quantize_rows};
use mscclpp_exec::cuda::{Device, DeviceVec};
use mscclpp_exec::error::CountLimit;
use mscclpp_exec::{E4m3, Error};

use super::{each_on, errors, failure, group_options, on_devices};
use crate::processes::{Job, machine_options};

/// Rank 0 has tokens for experts (0, 3) and (3, none), rank 1 for (1, 2) and (3, 0); expert e multiplies by e + 1.
pub(super) fn tokens_reach_their_experts_in_order(seed: u64) -> Result<(), Failed> {
    let shape = ExpertShape { hidden: 1, num_experts: 4, top_k: 2, max_tokens: 2 };
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let (tokens, choices, weights) = match comm.rank() {
            0 => ([2.0_f32, 4.0], [0_i64, 3, 3, -1], [0.5_f32, 0.5, 1.0, 9.0]),
            _ => ([8.0, 16.0], [1, 2, 3, 0], [0.25, 0.75, 0.5, 0.5]),
        };
        let mut experts = on.experts::<f32>(shape)?;
        let (tokens, choices) = (DeviceVec::from_slice(device, &tokens)?, DeviceVec::from_slice(device, &choices)?);
        let mut rows = DeviceVec::from_slice(device, &[-1.0_f32; 8])?;
        let mut counts = DeviceVec::<i64>::new(device, 2)?;
        experts.dispatch(on, &tokens, &choices, RowLayout::Slots, &mut rows, &mut counts)?;
        on.synchronize()?;
        let (found, expected) = match comm.rank() {
            0 => ([2, 1], [2.0, 16.0, -1.0, -1.0, 8.0, -1.0, -1.0, -1.0]),
            _ => ([1, 3], [8.0, -1.0, -1.0, -1.0, 2.0, 4.0, 16.0, -1.0]),
        };
        assert_eq!(counts.to_vec()?, found);
        let mut at_experts = rows.to_vec()?;
        assert_eq!(at_experts, expected);
        for (place, x) in at_experts.iter_mut().enumerate() {
            *x *= (2 * comm.rank() as usize + place / 4 + 1) as f32;
        }
        rows.write(&at_experts)?;
        let (weights, mut sums) = (DeviceVec::from_slice(device, &weights)?, DeviceVec::<f32>::new(device, 2)?);
        experts.combine(on, &rows, &weights, &mut sums)?;
        on.synchronize()?;
        assert_eq!(sums.to_vec()?, if comm.rank() == 0 { [5.0, 16.0] } else { [22.0, 40.0] });
        Ok(())
    })
}

/// Tokens, choices and weights of a rank. Most choices are different experts; some are none.
struct Tokens<T> {
    rows: Vec<T>,
    choices: Vec<i64>,
    weights: Vec<f32>,
}

/// Returns a function that draws numbers below a limit.
fn draw(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

impl<T: RowElement> Tokens<T> {
    /// Every third rank has no tokens; one weight in seven is NaN if `has_nan`.
    fn new(rank: u32, seed: u64, shape: &ExpertShape, has_nan: bool) -> Self {
        let ExpertShape { hidden, num_experts, top_k, max_tokens } = *shape;
        let mut next = draw(seed ^ u64::from(rank) << 40);
        let count = if (u64::from(rank) + seed) % 3 == 1 { 0 } else { 1 + next(max_tokens as u64) as usize };
        let rows = (0..count * hidden).map(|_| T::from_f32(next(1000) as f32 / 333.0 - 1.5)).collect();
        let mut choices = Vec::new();
        for _ in 0..count {
            let mut of_token: Vec<i64> = Vec::new();
            for _ in 0..top_k {
                let expert = next(num_experts as u64 + 1) as i64 - 1;
                of_token.push(if of_token.contains(&expert) { -1 } else { expert });
            }
            choices.extend(of_token);
        }
        let weight = |number: u64| if has_nan && number.is_multiple_of(7) { f32::NAN } else { number as f32 / 997.0 };
        Self { rows, choices, weights: (0..count * top_k).map(|_| weight(next(1000))).collect() }
    }
}

/// What the experts of a rank get, computed from the tokens of all ranks: places that are filled, with rank and token, and counts.
fn expected_places<T>(
    all: &[Tokens<T>],
    rank: usize,
    shape: &ExpertShape,
    layout: RowLayout,
) -> (Vec<(usize, usize, usize)>, Vec<i64>) {
    let each = shape.num_experts / all.len();
    let tokens_of = |source: usize, expert: usize| {
        let choices = all[source].choices.chunks(shape.top_k).enumerate();
        let expert = (rank * each + expert) as i64;
        choices.filter(move |(_, choices)| choices.contains(&expert)).map(move |(token, _)| (source, token))
    };
    let mut counts = Vec::new();
    let mut places = Vec::new();
    let mut next = 0;
    if layout == RowLayout::ByRank {
        for (source, expert) in (0..all.len()).flat_map(|source| (0..each).map(move |expert| (source, expert))) {
            let begin = next;
            for (source, token) in tokens_of(source, expert) {
                places.push((next, source, token));
                next += 1;
            }
            counts.push((next - begin) as i64);
        }
        return (places, counts);
    }
    for expert in 0..each {
        match layout {
            RowLayout::ByExpert { alignment } => next = next.next_multiple_of(alignment),
            _ => next = expert * all.len() * shape.max_tokens,
        }
        let begin = next;
        for (source, token) in (0..all.len()).flat_map(|source| tokens_of(source, expert)) {
            places.push((next, source, token));
            next += 1;
        }
        counts.push((next - begin) as i64);
    }
    (places, counts)
}

/// Dispatches random tokens, lets experts multiply, and combines, several times with one object; compares all of it with a computation from the
/// tokens of all ranks.
fn random_calls<T: RowElement + PartialEq + std::fmt::Debug>(
    comm: &Communicator,
    device: &Device,
    shape: ExpertShape,
    seed: u64,
) -> Result<(), Failed> {
    let (stream, rank, ranks) = (device.stream()?, comm.rank() as usize, comm.num_ranks());
    let (on, each) = (comm.on(&stream), shape.num_experts / ranks as usize);
    let mut experts = on.experts::<T>(shape)?;
    let layouts = [
        RowLayout::Slots,
        RowLayout::ByExpert { alignment: 1 },
        RowLayout::ByExpert { alignment: 4 },
        RowLayout::ByRank,
    ];
    for (round, layout) in layouts.into_iter().enumerate() {
        let seed = seed + round as u64;
        let all: Vec<Tokens<T>> = (0..ranks).map(|rank| Tokens::new(rank, seed, &shape, round == 2)).collect();
        let own = &all[rank];
        let (places, expected_counts) = expected_places(&all, rank, &shape, layout);
        let room = shape.slots(ranks) + 4 * each;
        let untouched = T::from_f32(77.0);
        let tokens = DeviceVec::from_slice(device, &own.rows)?;
        let choices = DeviceVec::from_slice(device, &own.choices)?;
        let mut rows = DeviceVec::from_slice(device, &vec![untouched; room * shape.hidden])?;
        let mut counts = DeviceVec::<i64>::new(device, expected_counts.len())?;
        match round {
            // Halves.
            1 => {
                drop(experts.dispatch_begin(on, &tokens, &choices)?);
                let pending = experts.dispatch_begin(on, &tokens, &choices)?;
                pending.finish(layout, &mut rows, &mut counts)?;
            }
            _ => experts.dispatch(on, &tokens, &choices, layout, &mut rows, &mut counts)?,
        }
        on.synchronize()?;
        assert_eq!(counts.to_vec()?, expected_counts, "seed {seed}, {layout:?}");
        let mut found = rows.to_vec()?;
        let mut expected = vec![untouched; found.len()];
        if let RowLayout::ByExpert { alignment } = layout {
            let filled: usize = expected_counts.iter().map(|count| (*count as usize).next_multiple_of(alignment)).sum();
            expected[..filled * shape.hidden].fill(T::from_f32(0.0));
        }
        for &(place, source, token) in &places {
            expected[place * shape.hidden..][..shape.hidden]
                .copy_from_slice(&all[source].rows[token * shape.hidden..][..shape.hidden]);
        }
        assert!(found == expected, "seed {seed}, {layout:?}: {found:?}, expected {expected:?}");
        // By the expert that the place belongs to.
        let mut expert_of = expected_counts
            .iter()
            .enumerate()
            .flat_map(|(list, count)| std::iter::repeat_n(list % each, *count as usize));
        for &(place, ..) in &places {
            let factor = (rank * each + expert_of.next().unwrap_or(0) + 1) as f32;
            found[place * shape.hidden..][..shape.hidden]
                .iter_mut()
                .for_each(|x| *x = T::from_f32(x.to_f32() * factor));
        }
        rows.write(&found)?;
        let weights = DeviceVec::from_slice(device, &own.weights)?;
        let mut sums = DeviceVec::<T>::new(device, own.rows.len())?;
        match round {
            1 => {
                drop(experts.combine_begin(on, &rows)?);
                experts.combine_begin(on, &rows)?.finish(&weights, &mut sums)?;
            }
            _ => experts.combine(on, &rows, &weights, &mut sums)?,
        }
        on.synchronize()?;
        let expected: Vec<T> = (0..own.rows.len())
            .map(|at| {
                let choices = at / shape.hidden * shape.top_k..(at / shape.hidden + 1) * shape.top_k;
                let sum = choices.filter(|choice| own.choices[*choice] >= 0).fold(0.0_f32, |sum, choice| {
                    let result = T::from_f32(own.rows[at].to_f32() * (own.choices[choice] + 1) as f32);
                    sum + own.weights[choice] * result.to_f32()
                });
                T::from_f32(sum)
            })
            .collect();
        let found = sums.to_vec()?;
        let is_same = |(one, other): (&T, &T)| one == other || one.to_f32().is_nan() && other.to_f32().is_nan();
        assert!(found.iter().zip(&expected).all(is_same), "seed {seed}, {layout:?}: {found:?}, expected {expected:?}");
    }
    Ok(())
}

pub(super) fn random_routes_equal_a_computation_on_one_rank(seed: u64) -> Result<(), Failed> {
    let shape = |hidden, num_experts, top_k, max_tokens| ExpertShape { hidden, num_experts, top_k, max_tokens };
    on_devices(seed, 1, 1, |comm, device| random_calls::<f32>(comm, device, shape(5, 3, 2, 4), seed))?;
    on_devices(seed, 2, 1, |comm, device| random_calls::<half::bf16>(comm, device, shape(9, 4, 1, 5), seed))?;
    on_devices(seed, 3, 3, |comm, device| random_calls::<half::f16>(comm, device, shape(8, 3, 8, 3), seed))?;
    on_devices(seed, 4, 2, |comm, device| random_calls::<f32>(comm, device, shape(4, 16, 8, 4), seed))?;
    on_devices(seed, 8, 8, |comm, device| random_calls::<half::bf16>(comm, device, shape(3, 8, 2, 2), seed))
}

pub(super) fn experts_are_on_several_nodes(seed: u64) -> Result<(), Failed> {
    [(2, 1), (4, 2)].into_iter().try_for_each(|(ranks, per_node)| {
        Job::start("communicator_experts", "simulator", seed, ranks, per_node)?.succeed()
    })
}

/// The part of a process, all of which know the tokens of all ranks.
pub(super) fn play(comm: &Communicator, device: &Device, seed: u64) -> Result<(), Failed> {
    let shape = ExpertShape { hidden: 5, num_experts: 8, top_k: 3, max_tokens: 6 };
    random_calls::<f32>(comm, device, shape, seed)
}

/// Rows that are quantized on the way, and rows that are passed with scales, arrive as the host quantizes them.
pub(super) fn rows_travel_with_their_scales(seed: u64) -> Result<(), Failed> {
    let shape = ExpertShape { hidden: 256, num_experts: 2, top_k: 2, max_tokens: 3 };
    on_devices(seed, 2, 2, |comm, device| {
        let (stream, rank, ranks) = (device.stream()?, comm.rank() as usize, comm.num_ranks());
        let on = comm.on(&stream);
        let mut experts = on.experts::<half::bf16>(shape)?;
        let mut all: Vec<Tokens<half::bf16>> =
            (0..ranks).map(|rank| Tokens::new(rank, 2 + 3 * seed, &shape, false)).collect();
        all[0].rows[..3].copy_from_slice(&[f32::NAN, f32::INFINITY, 1e-9].map(half::bf16::from_f32));
        all[0].rows[128..].iter_mut().take(128).for_each(|x| *x = half::bf16::from_f32(x.to_f32() * 1e-7));
        let quantized: Vec<_> = all.iter().map(|tokens| quantize_rows(&tokens.rows)).collect();
        for (round, layout) in
            [RowLayout::Slots, RowLayout::ByExpert { alignment: 8 }, RowLayout::Slots].into_iter().enumerate()
        {
            let (places, expected_counts) = expected_places(&all, rank, &shape, layout);
            let room = 16;
            let tokens = DeviceVec::from_slice(device, &all[rank].rows)?;
            let choices = DeviceVec::from_slice(device, &all[rank].choices)?;
            let mut rows = DeviceVec::<E4m3>::new(device, room * shape.hidden)?;
            let mut scales = DeviceVec::<f32>::new(device, room * 2)?;
            let mut counts = DeviceVec::<i64>::new(device, 1)?;
            match round {
                0 => {
                    experts.dispatch_quantized(on, &tokens, &choices, layout, (&mut rows, &mut scales), &mut counts)?
                }
                1 => {
                    let pending = experts.dispatch_quantized_begin(on, &tokens, &choices)?;
                    pending.finish_scaled(layout, (&mut rows, &mut scales), &mut counts)?;
                }
                _ => {
                    let own = DeviceVec::from_slice(device, &quantized[rank].0)?;
                    let own_scales = DeviceVec::from_slice(device, &quantized[rank].1)?;
                    let results = (&mut rows, &mut scales);
                    experts.dispatch_scaled(on, (&own, &own_scales), &choices, layout, results, &mut counts)?;
                }
            }
            on.synchronize()?;
            assert_eq!(counts.to_vec()?, expected_counts);
            let (rows, scales) = (rows.to_vec()?, scales.to_vec()?);
            let bits =
                |rows: &[E4m3]| rows.iter().map(|x| if x.to_f32().is_nan() { 0x7f } else { x.0 }).collect::<Vec<_>>();
            let mut on_host = (vec![E4m3::from_f32(0.0); rows.len()], vec![0.0; scales.len()]);
            for &(place, source, token) in &places {
                on_host.0[place * 256..][..256].copy_from_slice(&quantized[source].0[token * 256..][..256]);
                on_host.1[place * 2..][..2].copy_from_slice(&quantized[source].1[token * 2..][..2]);
            }
            assert_eq!(bits(&rows), bits(&on_host.0), "round {round}");
            assert_eq!(scales, on_host.1, "round {round}");
        }
        Ok(())
    })
}

/// What all ranks report, the same error on each; calls after it succeed.
pub(super) fn refused_tokens_are_reported_by_all_ranks(seed: u64) -> Result<(), Failed> {
    let shape = ExpertShape { hidden: 2, num_experts: 4, top_k: 2, max_tokens: 2 };
    on_devices(seed, 2, 2, |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let on = comm.on(&stream);
        let mut experts = on.experts::<f32>(shape)?;
        let of_token = "a choice of token";
        for (choices, tokens, limit, place) in [
            (vec![0, 1, 2, 3, -1, -1], 3, Some(CountLimit::Tokens), (3, 2, 0)),
            (vec![0, 1, 2, 4], 2, Some(CountLimit::Choice), (1, 4, 1)),
            (vec![-2, 1, 2, 3], 2, Some(CountLimit::Choice), (0, 4, 0)),
            (vec![i64::MAX, 1, 2, i64::MIN], 2, Some(CountLimit::Choice), (0, 4, 0)),
            (vec![1, 3, 2, 2], 2, Some(CountLimit::Choice), (1, 4, 1)),
            (vec![0, 1, 2, 3], 2, None, (0, 0, 0)),
        ] {
            let (choices, tokens) = if rank == 1 { (choices, tokens) } else { (vec![3, 0], 1) };
            let rows_of = |len: usize, x: f32| DeviceVec::from_slice(device, &vec![x; len]);
            let (input, choices) = (rows_of(2 * tokens, 1.5)?, DeviceVec::from_slice(device, &choices)?);
            let (mut rows, mut counts) = (rows_of(16, 9.0)?, DeviceVec::from_slice(device, &[-7_i64; 2])?);
            experts.dispatch(on, &input, &choices, RowLayout::Slots, &mut rows, &mut counts)?;
            let overflow = |result: Result<(), Error>| match result {
                Err(Error::CountOverflow(overflow)) => Ok(Some(overflow)),
                other => other.map(|()| None),
            };
            let found = overflow(on.synchronize())?;
            let (weights, mut sums) = (rows_of(2 * tokens, 1.0)?, rows_of(2 * tokens, 8.0)?);
            experts.combine(on, &rows, &weights, &mut sums)?;
            let returned = overflow(on.synchronize())?;
            match limit {
                None => {
                    assert_eq!((found, returned), (None, None));
                    assert_eq!(counts.to_vec()?, if rank == 0 { [2, 1] } else { [1, 2] });
                    assert_eq!(sums.to_vec()?, vec![3.0; 2 * tokens]);
                }
                Some(limit) => {
                    let found = found.ok_or(of_token)?;
                    assert_eq!((found.rank, found.limit, (found.demand, found.room, found.part)), (1, limit, place));
                    assert_eq!(returned.map(|overflow| overflow.limit), Some(CountLimit::Returned));
                    assert_eq!((rows.to_vec()?, counts.to_vec()?), (vec![9.0; 16], vec![-7; 2]));
                    assert_eq!(sums.to_vec()?, vec![8.0; 2 * tokens]);
                }
            }
        }
        // A result that is too short for what arrives.
        let choices = DeviceVec::from_slice(device, &[0_i64, 1, 0, 1])?;
        let input = DeviceVec::from_slice(device, &[1.5_f32; 4])?;
        for (room, fits) in [(7, false), (8, true)] {
            let room = if rank == 0 { room } else { 0 };
            let (mut rows, mut counts) = (DeviceVec::<f32>::new(device, 2 * room)?, DeviceVec::<i64>::new(device, 2)?);
            experts.dispatch(
                on,
                &input,
                &choices,
                RowLayout::ByRank,
                &mut rows,
                &mut DeviceVec::<i64>::new(device, 4)?,
            )?;
            assert_eq!(on.synchronize().is_ok(), fits, "{room} rows");
            let layout = RowLayout::ByExpert { alignment: 1 };
            experts.dispatch(on, &input, &choices, layout, &mut rows, &mut counts)?;
            match on.synchronize() {
                Err(Error::CountOverflow(overflow)) if !fits => {
                    assert_eq!((overflow.rank, overflow.limit), (0, CountLimit::Output));
                }
                other => other?,
            }
        }
        Ok(())
    })
}

/// A graph of a dispatch and a combine, whose choices earlier work on the stream writes.
pub(super) fn captured_dispatches_take_new_choices(seed: u64) -> Result<(), Failed> {
    let shape = ExpertShape { hidden: 3, num_experts: 4, top_k: 2, max_tokens: 2 };
    on_devices(seed, 2, 2, |comm, device| {
        let (stream, rank) = (device.stream()?, i64::from(comm.rank()));
        let on = comm.on(&stream);
        let mut experts = on.experts::<f32>(shape)?;
        let values: Vec<f32> = (0..6).map(|at| (10 * rank + at) as f32).collect();
        let (input, mut choices) = (DeviceVec::from_slice(device, &values)?, DeviceVec::<i64>::new(device, 4)?);
        let weights = DeviceVec::from_slice(device, &[1.0_f32, 2.0, 4.0, 8.0])?;
        let (mut rows, mut counts) = (DeviceVec::<f32>::new(device, 24)?, DeviceVec::<i64>::new(device, 2)?);
        let mut sums = DeviceVec::<f32>::new(device, 6)?;
        for in_halves in [false, true] {
            let graph = stream.capture(|captured| {
                let on = comm.on(captured);
                if in_halves {
                    experts.dispatch_begin(on, &input, &choices)?.finish(RowLayout::Slots, &mut rows, &mut counts)?;
                    drop(experts.combine_begin(on, &rows)?);
                } else {
                    experts.dispatch(on, &input, &choices, RowLayout::Slots, &mut rows, &mut counts)?;
                }
                experts.combine(on, &rows, &weights, &mut sums)
            })?;
            for turn in 0..5 {
                let table = [turn % 4, (turn + 1) % 4, (turn + rank) % 4, -1];
                stream.copy(&DeviceVec::from_slice(device, &table)?, &mut choices)?;
                // SAFETY: the communicator and the memory live longer than the graph's launches.
                unsafe { graph.launch(&stream)? };
                on.synchronize()?;
                let expected: Vec<f32> =
                    values.iter().enumerate().map(|(at, x)| if at < 3 { 3.0 * x } else { 4.0 * x }).collect();
                assert_eq!(sums.to_vec()?, expected, "turn {turn}");
                let of = |expert: i64| {
                    let both = 2 * (i64::from(table[0] == expert) + i64::from(table[1] == expert));
                    both + (0..2).filter(|rank| (turn + rank) % 4 == expert).count() as i64
                };
                assert_eq!(counts.to_vec()?, [of(2 * rank), of(2 * rank + 1)], "turn {turn}");
            }
        }
        Ok(())
    })
}

/// Ranks that disagree on the shape are reported, with both.
pub(super) fn different_shapes_are_reported(seed: u64) -> Result<(), Failed> {
    let results = each_on(machine_options(seed, 0, false), 2, 2, group_options(20), |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let shape = ExpertShape { hidden: 2, num_experts: 4 + 4 * comm.rank() as usize, top_k: 1, max_tokens: 2 };
        let mut experts = on.experts::<f32>(shape)?;
        let (input, choices) = (DeviceVec::<f32>::new(device, 2)?, DeviceVec::<i64>::new(device, 1)?);
        let mut rows = DeviceVec::<f32>::new(device, 2 * shape.slots(2))?;
        let mut counts = DeviceVec::<i64>::new(device, shape.num_experts / 2)?;
        let dispatched = experts.dispatch(on, &input, &choices, RowLayout::Slots, &mut rows, &mut counts);
        Err(failure(dispatched.and_then(|()| on.synchronize()))?.to_string().into())
    });
    let errors = errors(&results);
    match errors.iter().all(|error| error.contains("1 of 4 experts") && error.contains("1 of 8 experts")) {
        true => Ok(()),
        false => Err(format!("{errors:?}").into()),
    }
}

/// A rank that is lost between a dispatch and its combine is named by the others, which go on with the experts of those that remain.
pub(super) fn ranks_continue_without_one_that_left(seed: u64) -> Result<(), Failed> {
    let results = each_on(machine_options(seed, 0, false), 3, 3, group_options(20), |comm, device| {
        let stream = device.stream()?;
        let shape = ExpertShape { hidden: 2, num_experts: 6, top_k: 2, max_tokens: 3 };
        random_calls::<f32>(comm, device, shape, seed)?;
        // A rank that leaves after this does not fail the calls before it on another rank.
        comm.barrier()?;
        comm.bootstrap().barrier()?;
        if comm.rank() == 1 {
            return Ok(());
        }
        let on = comm.on(&stream);
        let mut experts = on.experts::<f32>(shape)?;
        let (input, choices) = (DeviceVec::<f32>::new(device, 2)?, DeviceVec::from_slice(device, &[3_i64, 0])?);
        let mut rows = DeviceVec::<f32>::new(device, 2 * shape.slots(3))?;
        let mut counts = DeviceVec::<i64>::new(device, 2)?;
        let dispatched = experts.dispatch(on, &input, &choices, RowLayout::Slots, &mut rows, &mut counts);
        let lost = failure(dispatched.and_then(|()| on.synchronize()))?;
        assert_eq!(lost.lost(), [1], "{lost}");
        drop(experts);
        let fewer = comm.shrink(&lost.lost())?;
        random_calls::<f32>(&fewer, device, ExpertShape { num_experts: 4, ..shape }, seed)
    });
    results.into_iter().collect()
}
