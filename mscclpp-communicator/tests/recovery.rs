//! Communicators that continue after failures, with ranks that are threads.

use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use mscclpp_bootstrap::{Options, UniqueId};
use mscclpp_communicator::Communicator;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::Error;
use mscclpp_exec::error::ErrorKind;
use mscclpp_select::{Algorithm, Choice};

/// Timeouts that exceed any time without a processor on a busy machine.
fn options() -> Options {
    Options::default().timeout(Duration::from_secs(120))
}

fn on_ranks(ranks: u32, body: impl Fn(Communicator) + Sync) {
    let body = &body;
    thread::scope(|scope| {
        for comm in Communicator::local_with_options(ranks, options()).expect("ranks") {
            scope.spawn(move || body(comm));
        }
    });
}

/// Makes calls of the three kinds of memory and sizes, and returns the first error.
fn work(comm: &Communicator) -> Result<(), Error> {
    let ranks = comm.num_ranks();
    for len in [3, 70_000] {
        let mut x = vec![comm.rank() + 1; len];
        comm.all_reduce_in_place(&mut x, ReduceOp::Sum)?;
        assert!(x.iter().all(|found| *found == ranks * (ranks + 1) / 2));
        let (input, mut output) = (vec![comm.rank(); len], vec![0; len * ranks as usize]);
        comm.all_gather(&input, &mut output)?;
        assert!(output.chunks(len).zip(0..).all(|(part, rank)| part.iter().all(|found| *found == rank)));
    }
    let mut shared = comm.alloc::<u64>(5000)?;
    shared.fill(2);
    comm.all_reduce_in_place(&mut shared, ReduceOp::Max)?;
    comm.barrier()?;
    // A rank that ends after this does not fail the calls before it on another rank.
    Ok(comm.bootstrap().barrier()?)
}

fn fail_at_work(comm: &Communicator) -> Error {
    loop {
        if let Err(error) = work(comm) {
            return error;
        }
    }
}

fn panic_with(comm: Communicator) {
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _dropped_by_the_panic = comm;
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(ended.is_err());
}

#[test]
fn ranks_continue_without_one_that_panicked_again_and_again() {
    on_ranks(5, |mut comm| {
        let own = comm.rank();
        for victim in [4, 0, 2] {
            work(&comm).unwrap();
            if own == victim {
                return panic_with(comm);
            }
            let error = fail_at_work(&comm);
            assert_eq!(error.lost().len(), 1, "{error}");
            comm = comm.shrink(&error.lost()).unwrap();
        }
        assert_eq!((comm.rank(), comm.num_ranks()), (own / 2, 2));
        work(&comm).unwrap();
    });
}

#[test]
fn ranks_continue_without_one_that_left() {
    on_ranks(3, |comm| {
        work(&comm).unwrap();
        if comm.rank() == 0 {
            return;
        }
        let error = fail_at_work(&comm);
        assert_eq!((error.kind(), error.lost()), (ErrorKind::RankLost, vec![0]), "{error}");
        let shrunk = comm.shrink(&error.lost()).unwrap();
        assert_eq!(shrunk.num_ranks(), 2);
        work(&shrunk).unwrap();
    });
}

#[test]
fn late_rank_is_excluded_and_learns_by_whom() {
    let barrier = Barrier::new(3);
    on_ranks(3, |comm| {
        work(&comm).unwrap();
        barrier.wait();
        if comm.rank() == 1 {
            barrier.wait();
            let error = fail_at_work(&comm);
            let excluded = comm.shrink(&error.lost()).unwrap_err();
            let text = excluded.to_string();
            assert!(text.contains("was excluded from the communicator by ranks 0 and 2"), "{error}: {text}");
            return;
        }
        let mut x = [0_u32];
        let short = comm.with_timeout(Duration::from_millis(200));
        short.all_reduce_in_place(&mut x, ReduceOp::Sum).unwrap_err();
        let shrunk = comm.shrink(&[1]).unwrap();
        barrier.wait();
        work(&shrunk).unwrap();
    });
}

#[test]
fn all_ranks_continue_after_a_mismatch() {
    on_ranks(3, |comm| {
        work(&comm).unwrap();
        let mut x = vec![0_f32; if comm.rank() == 2 { 30 } else { 20 }];
        let error = comm.all_reduce_in_place(&mut x, ReduceOp::Sum).unwrap_err();
        assert_eq!((error.kind(), error.lost()), (ErrorKind::Mismatch, vec![]), "{error}");
        let again = comm.shrink(&error.lost()).unwrap();
        assert_eq!(again.num_ranks(), 3);
        work(&again).unwrap();
    });
}

#[test]
fn split_fails_alone_and_its_ranks_can_continue() {
    on_ranks(4, |comm| {
        let own = comm.rank();
        work(&comm).unwrap();
        let part = comm.split(Some(own % 2), 0).unwrap().unwrap();
        work(&part).unwrap();
        if own == 1 {
            part.abort("on purpose");
        }
        if own % 2 == 1 {
            let error = fail_at_work(&part);
            assert!(error.to_string().contains("aborted: on purpose"), "{error}");
            assert_eq!(error.lost(), [0]);
            // The aborting rank continues as well.
            work(&part.shrink(&[]).unwrap()).unwrap();
        } else {
            work(&part).unwrap();
        }
        work(&comm).unwrap();
        // A difference between the ranks of one part.
        let part = comm.split(Some(own % 2), 0).unwrap().unwrap();
        let mut x = vec![0_u8; if own == 2 { 3 } else { 1 }];
        let result = part.all_reduce_in_place(&mut x, ReduceOp::Sum);
        assert_eq!(result.is_err(), own % 2 == 0);
        work(&comm).unwrap();
    });
}

#[test]
fn revocation_ends_pending_calls_and_names_the_rank() {
    let barrier = Barrier::new(3);
    on_ranks(3, |comm| {
        work(&comm).unwrap();
        barrier.wait();
        if comm.rank() == 2 {
            thread::sleep(Duration::from_millis(50));
            comm.revoke();
        }
        let start = Instant::now();
        let error = fail_at_work(&comm);
        assert_eq!((error.kind(), error.lost()), (ErrorKind::Revoked, vec![]), "{error}");
        assert!(error.to_string().contains("revoked the communicator"), "{error}");
        assert_eq!(error.root_cause().map(|cause| cause.rank), Some(2));
        assert!(start.elapsed() < Duration::from_secs(60));
        work(&comm.shrink(&[]).unwrap()).unwrap();
    });
}

#[test]
fn timeout_of_a_handle_bounds_its_calls_only() {
    let barrier = Barrier::new(2);
    on_ranks(2, |comm| {
        let short = comm.with_timeout(Duration::from_millis(100));
        assert_eq!((short.timeout(), comm.timeout()), (Duration::from_millis(100), Duration::from_secs(120)));
        work(&comm).unwrap();
        barrier.wait();
        if comm.rank() == 0 {
            // Waits for longer than the other handle's timeout.
            work(&comm).unwrap();
            let mut x = [0_u8; 5];
            let start = Instant::now();
            let error = short.all_reduce_in_place(&mut x, ReduceOp::Sum).unwrap_err();
            assert!(start.elapsed() < Duration::from_secs(60) && error.lost() == [1], "{error}");
        } else {
            thread::sleep(Duration::from_millis(500));
            work(&comm).unwrap();
        }
        barrier.wait();
    });
}

#[test]
fn lost_rank_is_replaced_by_a_new_thread() {
    let (sender, ids) = channel::<UniqueId>();
    let ids = std::sync::Mutex::new(ids);
    on_ranks(3, |comm| {
        let own = comm.rank();
        work(&comm).unwrap();
        if own == 1 {
            panic_with(comm);
            let id = ids.lock().unwrap().recv().unwrap();
            return work(&Communicator::join_grown(&id, 1, 3, options()).unwrap()).unwrap();
        }
        let shrunk = comm.shrink(&fail_at_work(&comm).lost()).unwrap();
        work(&shrunk).unwrap();
        let listener = (own == 0).then(|| shrunk.listen_for_newcomers().unwrap());
        if let Some(listener) = &listener {
            sender.send(listener.unique_id().clone()).unwrap();
        }
        let grown = shrunk.grow(&[1], listener).unwrap();
        assert_eq!((grown.rank(), grown.num_ranks()), (own, 3));
        work(&grown).unwrap();
    });
}

#[test]
fn registry_and_prepared_plans_outlive_a_shrink() {
    on_ranks(3, |comm| {
        let added = comm.configure(|registry| {
            let native = Algorithm::native("mine", mscclpp_core::collective::CollectiveKind::Broadcast, |_| Ok(()));
            registry.add(native).unwrap();
            registry.set_selector(|_, candidates| {
                let mine = candidates.iter().find(|algorithm| algorithm.name() == "mine")?;
                Some(Choice::from(*mine))
            });
        });
        added.unwrap();
        work(&comm).unwrap();
        assert_eq!(comm.prepare_for_shrink().unwrap(), 5);
        if comm.rank() == 2 {
            return;
        }
        let shrunk = comm.shrink(&[2]).unwrap();
        work(&shrunk).unwrap();
        shrunk.broadcast_in_place(&mut [0_u8; 4], 0).unwrap();
        let calls = shrunk.registry().unwrap();
        assert!(calls.call_counts().contains(&("mine", 1)), "{:?}", calls.call_counts());
    });
}
