//! What errors say of a rank that does not make a call: they name the call of the program, at its line, and never a call that this
//! library makes for it, such as those that connect the ranks.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use mscclpp_bootstrap::Options;
use mscclpp_communicator::Communicator;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::Error;
use mscclpp_exec::error::ErrorKind;

use crate::ranks::on_comms;

/// Returns the error of rank 0 in a call that rank 1 does not make, after a call of both if `is_connected`.
fn error(is_connected: bool, call: impl Fn(&Communicator) -> Result<(), Error> + Sync) -> String {
    // A call of both ranks has to end within it.
    let timeout = Duration::from_millis(if is_connected { 2_000 } else { 300 });
    let comms = Communicator::local_with_options(2, Options::default().timeout(timeout)).expect("a communicator");
    let errors = on_comms(comms, |comm| {
        if is_connected {
            comm.all_reduce_in_place(&mut [1_u32; 3], ReduceOp::Sum).expect("both ranks call");
        }
        if comm.rank() == 1 {
            while comm.bootstrap().check_alive().is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
            return None;
        }
        Some(call(comm).expect_err("rank 1 does not call"))
    });
    let error = errors.into_iter().flatten().next().expect("that of rank 0");
    assert_eq!((error.kind(), error.root_cause().map(|cause| cause.rank)), (ErrorKind::Timeout, Some(1)), "{error}");
    error.to_string()
}

fn check(text: &str, parts: &[&str]) {
    assert!(parts.iter().all(|part| text.contains(part)) && !text.contains("/src/"), "expected {parts:?} in: {text}");
}

#[test]
fn late_first_call_is_that_of_the_program() {
    let here = " at mscclpp-communicator/tests/late_calls.rs:";
    let all_reduce = |comm: &Communicator| comm.all_reduce_in_place(&mut [1_u32; 3], ReduceOp::Sum);
    check(&error(false, all_reduce), &["did not enter allreduce of 12 bytes u32", "(call 1)", here]);
    check(&error(false, |comm| comm.barrier()), &["did not enter barrier (call 1)", here]);
    let gather = |comm: &Communicator| comm.gather(&[1_u8; 3], &mut [0; 6], 0);
    check(&error(false, gather), &["did not enter gather of 3 u8 to rank 0 (call 1)", here]);
    let all_to_all_v = |comm: &Communicator| comm.all_to_all_v(&[1_u8; 3], &[1, 2]).map(drop);
    check(&error(false, all_to_all_v), &["did not enter all_to_all_v of u8 (call 1)", here]);
    check(&error(false, |comm| comm.alloc::<u8>(1).map(drop)), &["did not enter alloc (call 1)", here]);
}

#[test]
fn late_call_of_a_new_size_is_that_of_the_program_after_the_last_one() {
    let text = error(true, |comm| comm.all_reduce_in_place(&mut [1_u32; 40], ReduceOp::Sum));
    check(&text, &["did not enter allreduce of 160 bytes u32", "; the last call before is allreduce of 12 bytes u32"]);
}

/// The first transfer waits in a communicator of the two ranks.
#[test]
fn late_first_transfer_is_that_of_the_program() {
    let options = Options::default().timeout(Duration::from_millis(300));
    let comms = Communicator::local_with_options(2, options).expect("a communicator");
    let end = Barrier::new(2);
    let texts = on_comms(comms, |comm| {
        let made = if comm.rank() == 0 { comm.recv(&mut [0_u8; 4], 1) } else { Ok(()) };
        end.wait();
        made.err().map_or_else(String::new, |error| error.to_string())
    });
    check(
        &texts[0],
        &[
            "recv of rank 0 with rank 1",
            "did not enter transfer of 4 u8 from rank 1 (call 1) at mscclpp-communicator/tests/late_calls.rs:",
        ],
    );
}
