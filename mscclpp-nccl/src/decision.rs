//! Lines that say how calls are made, with `NCCL_DEBUG=INFO`: one for each class of calls and each decision.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use mscclpp_communicator::Communicator;
use mscclpp_exec::DataType;
use mscclpp_exec::cuda::Stream;
use mscclpp_select::DecidedBy;

use crate::debug;
use crate::forward;
use crate::kind::Kind;

/// Maximum number of lines.
const MAX_LINES: usize = 1024;

/// Prints a decision and its reason, if the decision was not printed before.
fn print(decision: String, reason: impl FnOnce() -> String) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    if printed.len() < MAX_LINES && !printed.contains(&decision) {
        debug::info(|| format!("{decision}; {}", reason()));
        printed.insert(decision);
    }
}

/// Prints that calls of a kind are forwarded, and why.
pub(crate) fn forwarded(kind: Kind, dtype: DataType, bytes: u64, reason: impl FnOnce() -> String) {
    if debug::is_info() {
        let library = forward::usable().map(forward::Library::name).unwrap_or_default();
        let bytes = bytes.checked_next_power_of_two().unwrap_or(u64::MAX);
        let operation = kind.operation().name();
        print(format!("{operation} of up to {bytes} bytes {dtype}: forwarded to {library}"), reason);
    }
}

/// Prints how the last call of a communicator was made.
pub(crate) fn made(communicator: &Communicator, stream: &Stream, named: Option<&str>) {
    if !debug::is_info() {
        return;
    }
    let Ok(Some(call)) = communicator.on(stream).last_call() else { return };
    let request = call.request.class();
    let Some(algorithm) = call.algorithm else {
        return print(format!("{request}: no algorithm"), || "a single rank has its result".to_owned());
    };
    let copies = if call.bytes_copied == 0 { "in the caller's memory" } else { "copied to internal buffers and back" };
    // They have no thread blocks that this library knows.
    let is_of_kernels = call.num_blocks == 0;
    let launch = match is_of_kernels {
        true => "kernels of the program".to_owned(),
        false => {
            let kernel = call.kernel.describe();
            format!("{kernel}, on {} thread blocks of {} threads", call.num_blocks, call.threads_per_block)
        }
    };
    print(format!("{request}: `{algorithm}`, {launch}, {copies}"), || match named {
        Some(name) if name == algorithm => "named by the call's algSelection".to_owned(),
        _ => match call.decided_by {
            Some(DecidedBy::Added) if is_of_kernels => "the program has registered them".to_owned(),
            Some(DecidedBy::Added) => "a plan of the user serves it".to_owned(),
            Some(by) => by.to_string(),
            None => "no reason is known".to_owned(),
        },
    });
}
