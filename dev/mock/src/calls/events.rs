//! Events.

use std::ffi::c_uint;
use std::thread;
use std::time::Duration;

use mscclpp_exec::cuda::{Driver, Handle};

use super::{ask, calls, valid};
use crate::code::{self, Code};
use crate::{captures, state, streams};

/// Time between two queries of an event that is waited for.
const POLL: Duration = Duration::from_micros(100);

fn record(event: usize, stream: usize) -> Result<(), Code> {
    let stream = streams::resolve(stream)?;
    if captures::record(event, stream)? {
        return Ok(());
    }
    state::enqueue_on(stream)?;
    ask(|driver| driver.record(Handle(event), Handle(stream)))
}

calls! {
    fn cuEventCreate(event: *mut usize, flags: c_uint) -> event {
        // With or without timing and blocking waits. Events of other processes are not supported.
        valid(flags < 4)?;
        let create = |driver: &dyn Driver| match flags & 2 {
            0 => driver.create_event(),
            _ => driver.create_untimed_event(),
        };
        ask(create).map(|event| event.0)
    }

    fn cuEventDestroy_v2(event: usize) {
        captures::remove_event(event)?;
        ask(|driver| driver.destroy_event(Handle(event)))
    }

    fn cuEventRecord(event: usize, stream: usize) {
        record(event, stream)
    }

    fn cuEventRecordWithFlags(event: usize, stream: usize, flags: c_uint) {
        valid(flags <= 1)?;
        if flags == 0 {
            return record(event, stream);
        }
        let stream = streams::resolve(stream)?;
        captures::count(stream)?;
        ask(|driver| driver.record_in_graph(Handle(event), Handle(stream)))
    }

    fn cuEventQuery(event: usize) {
        captures::check_query(event)?;
        match ask(|driver| driver.is_done(Handle(event)))? {
            true => Ok(()),
            false => Err(code::NOT_READY),
        }
    }

    fn cuEventSynchronize(event: usize) {
        captures::check_query(event)?;
        // Other threads run the kernels.
        while !ask(|driver| driver.is_done(Handle(event)))? {
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, from: usize, to: usize) -> milliseconds {
        ask(|driver| driver.elapsed_us(Handle(from), Handle(to))).map(|us| us as f32 / 1e3)
    }
}
