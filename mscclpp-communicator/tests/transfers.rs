//! Transfers between two ranks, and groups.

use std::time::Duration;

use mscclpp_communicator::{Communicator, Group};
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::error::ErrorKind;
use mscclpp_exec::{ElementName, Error};

use crate::ranks::{on_comms, on_ranks};

/// Seeded xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}

/// Element `index` of the transfer with a number.
fn element(number: usize, index: usize) -> u32 {
    (number * 1_000_003 + index * 31) as u32
}

fn data(number: usize, len: usize) -> Vec<u32> {
    (0..len).map(|index| element(number, index)).collect()
}

/// Adds the transfers of a rank in an order of its own, in which those of each direction of two ranks keep theirs.
fn shuffled<T>(mut transfers: Vec<(usize, usize, T)>, random: &mut Random) -> Vec<(usize, usize, T)> {
    let mut result = Vec::new();
    while !transfers.is_empty() {
        let at = random.below(transfers.len());
        let (from, to, _) = transfers[at];
        let first = transfers.iter().position(|(a, b, _)| (*a, *b) == (from, to)).expect("at least that one");
        result.push(transfers.remove(first));
    }
    result
}

#[test]
fn groups_of_random_transfers_bring_what_was_sent() {
    let seed = std::process::id() as u64 | 1;
    println!("seed {seed}");
    for case in 0..30_u64 {
        let mut random = Random(seed.wrapping_mul(2 * case + 1) | 1);
        let ranks = 1 + random.below(5);
        let lens = [0, 1, 3, 1000, 5000, 40_000];
        let all: Vec<(usize, usize, usize)> =
            (0..random.below(16)).map(|_| (random.below(ranks), random.below(ranks), lens[random.below(6)])).collect();
        on_ranks(ranks as u32, |comm| {
            let rank = comm.rank() as usize;
            let mut random = Random(((seed + case) * 77 + rank as u64) | 1);
            let of = |mine: fn(&(usize, usize, usize)) -> usize| -> Vec<_> {
                let numbered = all.iter().enumerate().filter(|(_, transfer)| mine(transfer) == rank);
                numbered.map(|(number, &(from, to, len))| (from, to, (number, len))).collect()
            };
            let sent: Vec<_> = of(|transfer| transfer.0)
                .into_iter()
                .map(|(from, to, (number, len))| (from, to, data(number, len)))
                .collect();
            let received: Vec<_> = of(|transfer| transfer.1);
            let mut memory: Vec<_> = received.iter().map(|(_, _, (_, len))| vec![7; *len]).collect();
            let mut group = Group::new();
            let sends = sent.iter().map(|(from, to, data)| (*from, *to, (Some(data), None)));
            let recvs =
                received.iter().zip(&mut memory).map(|((from, to, _), memory)| (*from, *to, (None, Some(memory))));
            let (sends, recvs) = (shuffled(sends.collect(), &mut random), shuffled(recvs.collect(), &mut random));
            for (from, to, (send, recv)) in sends.into_iter().chain(recvs) {
                send.into_iter().for_each(|data| group.send(comm, data, to as u32));
                recv.into_iter().for_each(|data| group.recv(comm, data, from as u32));
            }
            group.run().expect("all ranks take part");
            for ((_, _, (number, len)), found) in received.iter().zip(&memory) {
                assert_eq!(*found, data(*number, *len), "transfer {number} of {all:?}");
            }
        });
    }
}

#[test]
fn long_data_is_exchanged_within_a_group() {
    on_ranks(3, |comm| {
        let (rank, len) = (comm.rank(), 700_000);
        let own = data(rank as usize, len);
        let mut received = vec![vec![0; len]; 3];
        for _ in 0..3 {
            let mut group = Group::new();
            for (peer, memory) in (0..).zip(&mut received) {
                group.recv(comm, memory, peer);
                group.send(comm, &own, peer);
            }
            group.run().expect("all ranks take part");
            for (peer, found) in received.iter_mut().enumerate() {
                assert_eq!(*found, data(peer, len));
                found.fill(0);
            }
        }
    });
}

#[test]
fn ranks_transfer_without_the_others_and_between_collective_calls() {
    on_ranks(4, |comm| {
        for round in 0..20 {
            let mut sum = [comm.rank() + round];
            comm.all_reduce_in_place(&mut sum, ReduceOp::Sum).expect("all ranks");
            assert_eq!(sum, [6 + 4 * round]);
            let mut received = [0_u64; 9];
            match comm.rank() {
                1 => comm.send(&[u64::from(round); 9], 3),
                3 => comm.recv(&mut received, 1),
                _ => Ok(()),
            }
            .expect("both ranks");
            if comm.rank() == 3 {
                assert_eq!(received, [u64::from(round); 9]);
            }
        }
    });
}

#[test]
fn registered_memory_is_transferred() {
    on_ranks(2, |comm| {
        let mut memory = comm.alloc::<f32>(50_000).expect("memory");
        if comm.rank() == 0 {
            memory.fill(2.5);
            comm.send(&memory, 1).expect("both ranks");
        } else {
            comm.recv(&mut memory, 0).expect("both ranks");
        }
        assert!(memory.iter().all(|value| *value == 2.5));
    });
}

#[test]
fn calls_of_several_communicators_can_be_added_in_any_order() {
    on_ranks(2, |comm| {
        let other = comm.split(Some(0), 0).expect("all ranks").expect("a color");
        let (mut one, mut two) = ([comm.rank()], [comm.rank() + 10]);
        let mut group = Group::new();
        let mut calls: Vec<(&Communicator, &mut [u32])> = vec![(comm, &mut one), (&other, &mut two)];
        if comm.rank() == 1 {
            calls.reverse();
        }
        for (comm, memory) in calls {
            group.call(comm, move |comm| comm.all_reduce_in_place(memory, ReduceOp::Sum));
        }
        group.run().expect("all ranks take part");
        assert_eq!((one, two), ([1], [21]));
    });
}

#[test]
fn communicators_of_several_jobs_can_be_in_one_group() {
    let jobs = || Communicator::local(2).expect("two ranks");
    let body = |one: Communicator, two: Communicator| {
        // What a rank sends to itself stays in its communicator.
        let (rank, mut first, mut second) = (one.rank(), [0], [0]);
        let mut group = Group::new();
        group.send(&one, &[1], rank);
        group.send(&two, &[2], rank);
        group.recv(&two, &mut second, rank);
        group.recv(&one, &mut first, rank);
        group.run().expect("both parts are received");
        assert_eq!((first, second), ([1], [2]));
        let mut group = Group::new();
        let mut calls = [(&one, &mut first), (&two, &mut second)];
        if rank == 1 {
            calls.reverse();
        }
        for (comm, memory) in calls {
            group.call(comm, move |comm| comm.all_reduce_in_place(memory, ReduceOp::Sum));
        }
        group.run().expect("all ranks take part");
        assert_eq!((first, second), ([2], [4]));
    };
    std::thread::scope(|scope| {
        jobs().into_iter().zip(jobs()).for_each(|(one, two)| _ = scope.spawn(move || body(one, two)));
    });
}

#[test]
fn gather_and_scatter_have_any_root() {
    for ranks in [1, 2, 3, 5] {
        for (root, part) in (0..ranks).flat_map(|root| [0, 1, 3000].map(|part| (root, part))) {
            on_ranks(ranks, |comm| {
                let rank = comm.rank();
                let whole = if rank == root { part * ranks as usize } else { 0 };
                let mut gathered = vec![0; whole];
                comm.gather(&data(rank as usize, part), &mut gathered, root).expect("all ranks");
                let all: Vec<u32> = (0..ranks as usize).flat_map(|rank| data(rank, part)).collect();
                assert_eq!(gathered, all[..whole]);
                let mut scattered = vec![0; part];
                comm.scatter(&gathered, &mut scattered, root).expect("all ranks");
                assert_eq!(scattered, data(rank as usize, part));
            });
        }
    }
}

#[test]
fn different_gathers_and_scatters_are_one_error_on_all_ranks() {
    type Call = fn(&Communicator, bool) -> Result<(), Error>;
    let differ: [Call; 4] = [
        |comm, odd| comm.gather(&[1_u32; 3], &mut [0; 9], u32::from(odd)),
        |comm, odd| comm.gather(&vec![1_u32; 3 + usize::from(odd)], &mut [0; 9], 0),
        |comm, odd| comm.scatter(&[1_u32; 9], &mut [0; 3], u32::from(odd)),
        |comm, odd| if odd { comm.barrier() } else { comm.scatter(&[1_u32; 9], &mut [0; 3], 0) },
    ];
    for call in differ {
        let errors = on_ranks(3, |comm| call(comm, comm.rank() == 1).expect_err("the calls differ"));
        let causes: Vec<_> = errors.iter().map(|error| error.root_cause().expect("a cause")).collect();
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Mismatch), "{errors:?}");
        assert!(causes.iter().all(|cause| *cause == causes[0] && cause.rank == 1), "{causes:?}");
    }
}

#[test]
fn invalid_peers_lengths_and_roots_are_reported() {
    on_ranks(2, |comm| {
        let rank = comm.rank();
        let error = comm.send(&[1_u8], rank).expect_err("to itself");
        let expected = format!("send of rank {rank}: expected another rank of 0 to 1, found {rank}; within a group");
        assert!(error.to_string().starts_with(&expected), "{error}");
        let error = comm.recv(&mut [1_u8], 2).expect_err("no rank");
        assert_eq!(error.to_string(), format!("recv of rank {rank}: expected another rank of 0 to 1, found 2"));
        let error = comm.gather(&[1_u8], &mut [0; 2], 2).expect_err("no rank");
        assert!(matches!(error, Error::Root { .. }), "{error}");
        let mut group = Group::new();
        let mut memory = [0_u32; 2];
        group.send(comm, &[1_u32; 3], rank);
        group.recv(comm, &mut memory, rank);
        let error = group.run().expect_err("lengths differ").to_string();
        let expected = "recv of 2 u32 with the rank itself, expected the same of the other side, found send of 3 u32";
        assert_eq!(error, format!("group of rank {rank}: {expected}"));
        // Nothing is sent to the rank that exists.
        let mut group = Group::new();
        group.send(comm, &[1_u8], 1 - rank);
        group.send(comm, &[1_u8], 7);
        let error = group.run().expect_err("no rank");
        assert!(matches!(error, Error::Peer { peer: 7, .. }), "{error}");
        // Nothing of this fails the communicator.
        comm.barrier().expect("both ranks");
    });
}

#[test]
fn different_lengths_are_reported_by_both_ranks_alone() {
    on_ranks(3, |comm| {
        let error = match comm.rank() {
            1 => comm.send(&[1_f32; 8], 2).expect_err("lengths differ"),
            2 => comm.recv(&mut [0_f32; 9], 1).expect_err("lengths differ"),
            _ => return comm.barrier().expect("the communicator is whole"),
        };
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{text}");
        assert!(text.contains("(ranks 0 and 1 of their own communicator are ranks 1 and 2)"), "{text}");
        assert!(
            text.contains("transfer of 8 f32") && text.contains("transfer of 9 f32") && text.contains("transfers.rs"),
            "{text}"
        );
        comm.barrier().expect("the communicator is whole");
    });
}

#[test]
fn different_types_are_reported() {
    on_ranks(2, |comm| {
        let error = match comm.rank() {
            0 => comm.send(&[1_f32; 8], 1),
            _ => comm.recv(&mut [1_u32; 8], 0),
        };
        let error = error.expect_err("types differ");
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        assert!(error.to_string().contains("f32") && error.to_string().contains("u32"), "{error}");
    });
}

#[test]
fn different_types_that_are_moved_as_one_are_reported() {
    on_ranks(2, |comm| {
        let rank = comm.rank();
        type Call = fn(&Communicator) -> Result<(), Error>;
        let calls: [Call; 4] = [
            |comm| comm.broadcast_in_place(&mut [1_u8; 8], 0),
            |comm| comm.gather(&[1_u8; 8], &mut [0; 16], 0),
            |comm| if comm.rank() == 0 { comm.send(&[1_u8; 8], 1) } else { comm.recv(&mut [1_u8; 8], 0) },
            |comm| comm.all_to_all_v(&[1_u8; 2], &[1; 2]).map(drop),
        ];
        for call in calls {
            let with_name = |name| {
                let own = comm.split(Some(0), rank).expect("a communicator").expect("of this rank");
                call(&own.with_element_name(ElementName::new(name)))
            };
            with_name("bool").expect("equal names");
            let error = with_name(if rank == 0 { "bool" } else { "u8" }).expect_err("types differ");
            assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
            assert!(error.to_string().contains("u8 (bool)"), "{error}");
        }
    });
}

#[test]
fn ranks_that_both_send_are_told_at_once() {
    on_ranks(2, |comm| {
        let error = comm.send(&[1_u32; 100_000], 1 - comm.rank()).expect_err("both send");
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        assert!(error.to_string().contains("from rank 0") && error.to_string().contains("from rank 1"), "{error}");
    });
}

#[test]
fn rank_that_sends_nothing_is_named() {
    let comms = Communicator::local(3).expect("ranks");
    on_comms(comms, |comm| {
        let mut memory = [0_u8; 4];
        match comm.rank() {
            0 => {
                let error =
                    comm.with_timeout(Duration::from_secs(2)).recv(&mut memory, 2).expect_err("nothing is sent");
                assert_eq!(error.root_cause().map(|cause| cause.rank), Some(2), "{error}");
                assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
            }
            _ => std::thread::sleep(Duration::from_secs(4)),
        }
        comm.barrier().expect("the communicator is whole");
    });
}
