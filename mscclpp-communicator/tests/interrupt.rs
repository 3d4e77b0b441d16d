//! Calls that a check of the caller ends.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mscclpp_core::types::ReduceOp;

use mscclpp_base::error::ErrorKind;
use mscclpp_communicator::Communicator;
use mscclpp_exec::process::{is_interrupted, with_interrupt_check};

#[test]
fn check_that_is_true_ends_the_call_on_all_ranks_with_this_rank_as_cause() {
    let started = Instant::now();
    let [zero, one] = Communicator::local(2).unwrap().try_into().unwrap();
    let (ended, has_ended) = mpsc::channel();
    thread::scope(|scope| {
        let zero = scope.spawn(move || {
            zero.barrier().unwrap();
            let sum = || zero.all_reduce_in_place(&mut [1_u32], ReduceOp::Sum);
            let error = with_interrupt_check(|| true, sum).unwrap_err();
            ended.send(()).unwrap();
            error
        });
        let one = scope.spawn(move || {
            one.barrier().unwrap();
            has_ended.recv().unwrap();
            one.all_reduce_in_place(&mut [1_u32], ReduceOp::Sum).unwrap_err()
        });
        for error in [zero.join().unwrap(), one.join().unwrap()] {
            assert_eq!(error.root_cause().map(|cause| cause.rank), Some(0), "{error}");
            assert_ne!(error.kind(), ErrorKind::Timeout, "{error}");
        }
    });
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn check_does_not_run_in_calls_without_a_wait_and_after_them() {
    let comm = Communicator::local(1).unwrap().remove(0);
    let check = || unreachable!("no rank waits");
    with_interrupt_check(check, || comm.all_reduce_in_place(&mut [1_u32], ReduceOp::Sum)).unwrap();
    assert!(!is_interrupted());
}
