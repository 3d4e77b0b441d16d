//! Collective calls by several ranks in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ranks::on_ranks;
use mscclpp_communicator::Communicator;
use mscclpp_communicator::status::Finding;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::Error;
use mscclpp_exec::error::ErrorKind;
use mscclpp_exec::{E4m3, E4m3B15, E5m2, Element};
use mscclpp_select::{Algorithm, Buffers, Choice, Config, OrderPolicy, Registry};

/// Returns element `index` of a rank's input: small, so that sums are exact in all types.
fn element<T: Element + From<u8>>(rank: u32, index: usize) -> T {
    T::from(((rank as usize * 7 + index * 3) % 5) as u8)
}

fn input<T: Element + From<u8>>(rank: u32, len: usize) -> Vec<T> {
    (0..len).map(|index| element(rank, index)).collect()
}

/// Computes the naive result of every call, for ranks that contribute `part` elements per rank.
fn every_call<T>(ranks: u32, part: usize, root: u32)
where
    T: Element + From<u8> + PartialEq + std::fmt::Debug + std::ops::Add<Output = T> + PartialOrd,
{
    let n = ranks as usize;
    let whole = part * n;
    let sums: Vec<T> =
        (0..whole).map(|index| (1..ranks).fold(element(0, index), |sum, rank| sum + element(rank, index))).collect();
    let of_all = |from: &dyn Fn(u32) -> Vec<T>| -> Vec<T> { (0..ranks).flat_map(from).collect() };
    on_ranks(ranks, |comm| {
        let rank = comm.rank();
        let me = rank as usize;
        let mine = || input::<T>(rank, whole);
        let blank = |len| vec![T::from(99); len];
        let own = me * part..(me + 1) * part;

        let mut x = mine();
        comm.all_reduce_in_place(&mut x, ReduceOp::Sum).expect("all_reduce");
        assert_eq!(x, sums);
        let mut y = blank(whole);
        comm.all_reduce(&mine(), &mut y, ReduceOp::Sum).expect("all_reduce");
        assert_eq!(y, sums);
        let mut largest = mine();
        comm.all_reduce_in_place(&mut largest, ReduceOp::Max).expect("all_reduce");
        let maximum = |index| (0..ranks).map(|rank| element::<T>(rank, index)).reduce(|a, b| if b > a { b } else { a });
        assert_eq!(largest, (0..whole).map(|index| maximum(index).expect("ranks")).collect::<Vec<_>>());

        let gathered = of_all(&|rank| input(rank, part));
        let mut y = blank(whole);
        comm.all_gather(&input(rank, part), &mut y).expect("all_gather");
        assert_eq!(y, gathered);
        let mut x = blank(whole);
        x[own.clone()].copy_from_slice(&input::<T>(rank, part));
        comm.all_gather_in_place(&mut x).expect("all_gather_in_place");
        assert_eq!(x, gathered);

        let mut y = blank(part);
        comm.reduce_scatter(&mine(), &mut y, ReduceOp::Sum).expect("reduce_scatter");
        assert_eq!(y, sums[own.clone()]);
        let mut x = mine();
        comm.reduce_scatter_in_place(&mut x, ReduceOp::Sum).expect("reduce_scatter_in_place");
        assert_eq!(x[own.clone()], sums[own.clone()]);

        let exchanged = of_all(&|from| input::<T>(from, whole)[own.clone()].to_vec());
        let mut y = blank(whole);
        comm.all_to_all(&mine(), &mut y).expect("all_to_all");
        assert_eq!(y, exchanged);
        let mut x = mine();
        comm.all_to_all_in_place(&mut x).expect("all_to_all_in_place");
        assert_eq!(x, exchanged);

        let mut x = mine();
        comm.broadcast_in_place(&mut x, root).expect("broadcast");
        assert_eq!(x, input::<T>(root, whole));
        let mut y = blank(whole);
        comm.broadcast(&mine(), &mut y, root).expect("broadcast_to");
        assert_eq!(y, input::<T>(root, whole));

        let mut x = mine();
        comm.reduce_in_place(&mut x, ReduceOp::Sum, root).expect("reduce");
        assert_eq!(x, if rank == root { sums.clone() } else { mine() });
        let mut y = blank(whole);
        comm.reduce(&mine(), &mut y, ReduceOp::Sum, root).expect("reduce_to");
        assert_eq!(y, if rank == root { sums.clone() } else { blank(whole) });

        let received = input::<T>((rank + ranks - 1) % ranks, whole);
        let mut y = blank(whole);
        comm.send_recv(&mine(), &mut y).expect("send_recv");
        assert_eq!(y, received);
        let mut x = mine();
        comm.send_recv_in_place(&mut x).expect("send_recv_in_place");
        assert_eq!(x, received);
        comm.barrier().expect("barrier");
    });
}

#[test]
fn every_call_equals_the_naive_result() {
    for (ranks, part) in [(1, 3), (2, 1), (2, 5000), (3, 1001), (4, 0), (5, 17), (7, 300)] {
        every_call::<f32>(ranks, part, ranks / 2);
    }
}

#[test]
fn every_type_is_supported() {
    every_call::<u8>(3, 33, 2);
    every_call::<i32>(3, 33, 2);
    every_call::<u32>(3, 33, 2);
    every_call::<i64>(3, 33, 2);
    every_call::<u64>(3, 33, 2);
    every_call::<f64>(3, 33, 2);
    on_ranks(2, |comm| {
        fn sum<T: Element>(comm: &Communicator, one: T, two: T) -> bool {
            let mut x = [one; 5];
            comm.all_reduce_in_place(&mut x, ReduceOp::Sum).expect("all_reduce");
            x.iter().all(|found| bytemuck::bytes_of(found) == bytemuck::bytes_of(&two))
        }
        assert!(sum(comm, 1_i8, 2));
        assert!(sum(comm, half::f16::ONE, half::f16::from_f32(2.0)));
        assert!(sum(comm, half::bf16::ONE, half::bf16::from_f32(2.0)));
        assert!(sum(comm, E4m3::from_f64(1.0), E4m3::from_f64(2.0)));
        assert!(sum(comm, E4m3B15::from_f64(0.5), E4m3B15::from_f64(1.0)));
        assert!(sum(comm, E5m2::from_f64(1.0), E5m2::from_f64(2.0)));
    });
}

#[test]
fn mismatched_lengths_are_reported_before_any_wait() {
    on_ranks(3, |comm| {
        if comm.rank() != 1 {
            return;
        }
        let text = |error: Result<(), Error>| error.expect_err("it does not fit").to_string();
        let op = ReduceOp::Sum;
        assert_eq!(
            text(comm.all_gather(&[1_i8; 4], &mut [0; 11])),
            "all_gather of rank 1: the output has 11 elements, expected 3 times the 4 of the input"
        );
        assert_eq!(
            text(comm.reduce_scatter(&[1_i8; 7], &mut [0; 2], op)),
            "reduce_scatter of rank 1: the input has 7 elements, expected 3 times the 2 of the output"
        );
        assert_eq!(
            text(comm.all_to_all_in_place(&mut [0_i8; 4])),
            "all_to_all_in_place of rank 1: the buffer has 4 elements, expected a multiple of 3, the number of ranks"
        );
        assert_eq!(
            text(comm.all_reduce(&[0_i8; 4], &mut [0; 5], op)),
            "all_reduce of rank 1: the output has 5 elements, expected 4, the length of the input"
        );
        assert_eq!(
            text(comm.broadcast_in_place(&mut [0_i8], 3)),
            "broadcast_in_place of rank 1: expected a root of 0 to 2, found 3"
        );
        let error = comm.all_to_all_v(&[0_i8; 4], &[1, 2]).expect_err("two counts");
        assert_eq!((error.code(), error.rank(), error.root_cause()), (Code::InvalidCall, Some(1), None));
        assert_eq!(
            error.to_string(),
            "all_to_all_v of rank 1: the list of counts has 2 elements, expected 3, one per rank"
        );
        let error = comm.all_to_all_v(&[0_i8; 4], &[1, 2, usize::MAX]).expect_err("too many").to_string();
        assert!(error.contains("more than the address space"), "{error}");
    });
}

#[test]
fn selectors_and_native_algorithms_are_used_and_counted() {
    on_ranks(2, |comm| {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let native = Algorithm::native("by_hand", CollectiveKind::AllGather, move |call| {
            let (me, bootstrap) = (call.bootstrap.rank() as usize, call.bootstrap);
            counted.fetch_add(1, Ordering::Relaxed);
            let Buffers::OutOfPlace { input, output } = call.buffers else { return Err("in place".into()) };
            let peer = 1 - me;
            bootstrap.send(peer as u32, 3, input)?;
            let len = input.len();
            output[me * len..][..len].copy_from_slice(input);
            output[peer * len..][..len].copy_from_slice(&bootstrap.recv(peer as u32, 3)?);
            Ok(())
        });
        let configured = comm.configure(|registry| {
            registry.set_selector(|request, _| {
                (request.collective == CollectiveKind::AllReduce).then(|| Choice::named("allreduce_ring"))
            });
            registry.add(native)
        });
        configured.expect("equal registries").expect("a new name");
        let mut y = [0; 4];
        for _ in 0..3 {
            let own = [comm.rank() * 2 + 1, 5];
            comm.all_gather(&own, &mut y).expect("all_gather");
            assert_eq!(y, [1_u32, 5, 3, 5]);
            comm.all_reduce_in_place(&mut [1_u32; 9], ReduceOp::Sum).expect("all_reduce");
        }
        assert_eq!(calls.load(Ordering::Relaxed), 3);
        assert_eq!(comm.registry().expect("a registry").call_counts(), [("allreduce_ring", 3), ("by_hand", 3)]);
        let error = comm.all_gather_in_place(&mut y).expect_err("the function says no");
        let request = "allgather of 16 bytes u32, in place, 2 ranks on 1 node";
        assert_eq!(error.to_string(), format!("rank {}, {request}: `by_hand`: in place", comm.rank()));
    });
}

#[test]
fn failed_selection_or_build_names_rank_and_call() {
    on_ranks(2, |comm| {
        let rank = comm.rank();
        let request = "allreduce of 8 bytes i64, sum, in place, 2 ranks on 1 node";
        let config = Config { blocks: Some(0), threads: None };
        comm.force_algorithm(Some((CollectiveKind::AllReduce, Choice { config, ..Choice::named("allreduce_ring") })))
            .expect("no call");
        let error = comm.all_reduce_in_place(&mut [1_i64], ReduceOp::Sum).expect_err("no blocks").to_string();
        assert_eq!(error, format!("rank {rank}, {request}: `allreduce_ring` supports 1 to 1024 blocks, found 0"));
        comm.force_algorithm(Some((CollectiveKind::AllReduce, Choice::named("allgather_ring")))).expect("no call");
        let error = comm.all_reduce_in_place(&mut [1_i64], ReduceOp::Sum).expect_err("no such name");
        assert_eq!((error.code(), error.kind()), (Code::NoAlgorithm, ErrorKind::InvalidInput));
        let error = error.to_string();
        assert!(error.starts_with(&format!("rank {rank}: ")) && error.contains(request), "{error}");
    });
}

#[test]
fn different_plans_of_one_call_are_named() {
    on_ranks(2, |comm| {
        let name = ["allreduce_ring", "allreduce_packets"][comm.rank() as usize];
        comm.force_algorithm(Some((CollectiveKind::AllReduce, Choice::named(name)))).expect("no call");
        let error = comm.all_reduce_in_place(&mut [1_u32; 8], ReduceOp::Sum).expect_err("they differ").to_string();
        for (rank, plan) in [(0, "`allreduce_ring`"), (1, "`allreduce_packets`")] {
            assert!(error.contains(&format!("rank {rank} ")) && error.contains(plan), "{error}");
        }
    });
}

#[test]
fn ranks_with_different_algorithms_are_rejected() {
    let communicators = Communicator::local(3).expect("three ranks");
    std::thread::scope(|scope| {
        for communicator in communicators {
            scope.spawn(move || {
                let mut registry = Registry::builtin();
                if communicator.rank() == 2 {
                    registry.remove("allreduce_ring");
                }
                let error = communicator.set_registry(registry).expect_err("they differ").to_string();
                assert!(error.contains("algorithms") && error.contains("rank 2"), "{error}");
            });
        }
    });
}

#[test]
fn prepared_calls_are_evicted_in_order_and_recreated() {
    on_ranks(2, |comm| {
        for round in 0..2 {
            for len in 1..300_usize {
                let mut x = vec![1_i32; len];
                comm.all_reduce_in_place(&mut x, ReduceOp::Sum).expect("all_reduce");
                assert!(x.iter().all(|value| *value == 2), "round {round}, {len} elements");
            }
        }
    });
}
/// Generator of small pseudo-random numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % most
    }

    /// Delays this rank at random, so that the other ranks get ahead.
    fn dawdle(&mut self) {
        match self.below(4) {
            0 => std::thread::sleep(std::time::Duration::from_micros(self.below(300))),
            1 => std::thread::yield_now(),
            _ => {}
        }
    }
}

#[test]
fn packets_of_different_calls_are_distinguished() {
    // Alternating calls use every other launch of the communicator, and alternating sizes lay out scratch differently.
    for ranks in [2, 3, 5] {
        on_ranks(ranks, |comm| {
            let (mut own, mut common) = (Dice(u64::from(comm.rank()) + 1), Dice(99));
            for round in 0..400_u32 {
                let len = [1, 3, 40, 700][common.below(4) as usize] * ranks as usize;
                let kind = common.below(4);
                own.dawdle();
                let mut x = vec![round + comm.rank(); len];
                match kind {
                    0 => {
                        comm.all_reduce_in_place(&mut x, ReduceOp::Max).expect("all_reduce");
                        assert_eq!(x, vec![round + ranks - 1; len], "round {round}");
                    }
                    1 => {
                        comm.reduce_in_place(&mut x, ReduceOp::Sum, 1).expect("reduce");
                        let sum = (0..ranks).map(|rank| round + rank).sum();
                        assert_eq!(x[len - 1], if comm.rank() == 1 { sum } else { round + comm.rank() });
                    }
                    2 => {
                        comm.all_to_all_in_place(&mut x).expect("all_to_all");
                        assert!(x.chunks(len / ranks as usize).zip(round..).all(|(part, from)| part[0] == from));
                    }
                    _ => {
                        comm.all_gather_in_place(&mut x).expect("all_gather");
                        assert!(x.chunks(len / ranks as usize).zip(round..).all(|(part, from)| part[0] == from));
                    }
                }
                if common.below(2) == 0 {
                    comm.barrier().expect("barrier");
                }
            }
        });
    }
}

#[test]
fn started_calls_run_in_order_and_before_direct_ones() {
    on_ranks(3, |comm| {
        let pending: Vec<_> = (0..20_u32)
            .map(|round| {
                let mut buffer = vec![round + comm.rank(); 1 + 100 * round as usize];
                let started = comm.start(move |comm| {
                    comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum)?;
                    Ok(buffer)
                });
                started.expect("a thread")
            })
            .collect();
        // A direct call waits for the started ones, which all ranks made before it.
        let mut direct = [comm.rank()];
        comm.all_reduce_in_place(&mut direct, ReduceOp::Max).expect("all ranks call it");
        assert_eq!(direct, [2]);
        assert!(pending.iter().all(mscclpp_communicator::Pending::is_finished));
        for (round, pending) in (0..).zip(pending) {
            // As a future, and by waiting.
            let sums = if round % 2 == 0 { block_on(pending) } else { pending.wait() }.expect("all ranks call it");
            assert!(sums.iter().all(|sum| *sum == 3 * round + 3));
        }
    });
}

#[test]
fn panic_of_a_started_call_is_an_error_and_later_calls_work() {
    on_ranks(2, |comm| {
        let pending = comm.start(|_| -> Result<(), Error> { panic!("no gradients") }).expect("a thread");
        let error = pending.wait().expect_err("it panicked");
        assert_eq!(error.code(), Code::CallPanicked);
        assert_eq!(error, Error::Panicked { rank: comm.rank(), message: "no gradients".into() });
        let nested = comm.start(|comm| comm.barrier()).expect("a thread");
        comm.barrier().expect("after the started one");
        nested.wait().expect("all ranks call it");
    });
}

#[test]
fn buffers_of_alloc_and_plans_of_the_executor_share_one_session() {
    on_ranks(2, |comm| {
        let mut shared = comm.alloc::<i32>(64).expect("memory");
        shared.fill(1 + comm.rank() as i32);
        comm.all_reduce_in_place(&mut shared, ReduceOp::Sum).expect("all ranks call it");
        assert!(shared.iter().all(|sum| *sum == 3));
        let executor = comm.executor().expect("connected");
        assert_eq!((executor.rank(), executor.num_ranks()), (comm.rank(), 2));
        executor.barrier().expect("the same session");
    });
}

/// Polls a future until it is ready.
fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match std::pin::Pin::new(&mut future).poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn agreement_is_the_same_on_all_ranks() {
    for falses in [vec![], vec![1], vec![0, 2], vec![0, 1, 2, 3]] {
        let answers = on_ranks(4, |comm| comm.agree(!falses.contains(&comm.rank())).expect("all ranks call it"));
        assert_eq!(answers, [falses.is_empty(); 4], "{falses:?}");
    }
    // Rank 1 aborts after the barrier. The others learn it at the latest when they agree, perhaps at the end of the barrier.
    let errors = on_ranks(4, |comm| {
        let agreed = comm.barrier().and_then(|()| {
            if comm.rank() == 1 {
                comm.bootstrap().abort("on purpose");
            }
            comm.agree(true)
        });
        agreed.expect_err("a rank has aborted")
    });
    for error in &errors {
        assert_eq!(error.root_cause(), errors[0].root_cause());
        assert_eq!(error.root_cause().map(|cause| cause.rank), Some(1));
    }
}

#[test]
fn status_names_the_late_rank_and_metrics_count_calls() {
    let late = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for comm in Communicator::local(3).unwrap() {
            let late = &late;
            scope.spawn(move || {
                let call = || comm.all_reduce_in_place(&mut [1.0_f32; 8], ReduceOp::Sum).unwrap();
                (0..20).for_each(|_| call());
                match comm.rank() {
                    // Another thread asks while this one waits in the call.
                    0 => std::thread::scope(|scope| {
                        scope.spawn(|| {
                            let status = loop {
                                let status = comm.status().unwrap();
                                if status.verdict.is_problem() {
                                    break status;
                                }
                            };
                            assert_eq!((status.verdict.finding, &status.verdict.ranks[..]), (Finding::Late, &[2][..]));
                            assert_eq!(status.ranks[1].waits_for, [2], "{status:?}");
                            late.wait();
                        });
                        call();
                    }),
                    1 => call(),
                    _ => {
                        late.wait();
                        call();
                    }
                }
                comm.barrier().unwrap();
                let metrics = comm.metrics();
                let calls = |name: &str| metrics.calls.iter().find(|calls| calls.collective == name).unwrap();
                assert_eq!((calls("allreduce").calls, calls("allreduce").bytes), (21, 21 * 32));
                assert_eq!((calls("barrier").calls, metrics.prepared_plans), (1, 1));
                // The first and the 17th call were timed.
                let timed: u64 = calls("allreduce").seconds.counts.iter().sum();
                assert!(timed >= 32 && (comm.rank() == 2 || metrics.wait_seconds > 0.0), "{metrics:?}");
                assert!(metrics.memory_bytes > 0 && metrics.failures.is_empty());
            });
        }
    });
}

#[test]
fn failed_calls_are_counted_by_kind() {
    let results = std::thread::scope(|scope| {
        let run = |comm: Communicator| {
            let op = if comm.rank() == 0 { ReduceOp::Sum } else { ReduceOp::Max };
            comm.all_reduce_in_place(&mut [1.0_f32; 8], op).unwrap_err();
            comm.metrics().failures
        };
        let threads: Vec<_> =
            Communicator::local(2).unwrap().into_iter().map(|comm| scope.spawn(move || run(comm))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(results, vec![[("mismatch".to_owned(), 1)].into(); 2]);
}

#[test]
fn sums_in_the_order_of_ranks_do_not_depend_on_the_part_of_a_batch() {
    let value = |rank: u32, at: usize| [1.0e7, 0.123_456_7, -1.0e7, 7.123_457][(at + rank as usize) % 4] * at as f32;
    let ordered = |at: usize| (1..4).fold(value(0, at), |sum, rank| sum + value(rank, at)).to_bits();
    on_ranks(4, |comm| {
        comm.set_order_policy(OrderPolicy::RankOrder);
        assert_eq!(comm.order_policy(), OrderPolicy::RankOrder);
        let all: Vec<f32> = (0..200_000).map(|at| value(comm.rank(), at)).collect();
        for range in [0..1, 5..100, 1..4_097, 77..30_000, 0..200_000] {
            let mut buffer = all[range.clone()].to_vec();
            let mut output = vec![0.0; buffer.len()];
            comm.all_reduce(&buffer, &mut output, ReduceOp::Sum).expect("all ranks call it");
            comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum).expect("all ranks call it");
            for found in [output, buffer] {
                assert!(found.iter().zip(range.clone()).all(|(sum, at)| sum.to_bits() == ordered(at)), "{range:?}");
            }
        }
        let mut sum = all[3..500].to_vec();
        comm.reduce_in_place(&mut sum, ReduceOp::Sum, 2).expect("all ranks call it");
        assert!(comm.rank() != 2 || sum.iter().zip(3..).all(|(sum, at)| sum.to_bits() == ordered(at)));
    });
}
