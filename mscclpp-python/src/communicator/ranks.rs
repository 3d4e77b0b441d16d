//! What the calls of a rank share.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mscclpp_communicator::Communicator;
use mscclpp_select::defaults;

use crate::call::{Call, Staging};
use crate::device::Devices;
use crate::failure::Failure;
use crate::gloo_order;
use crate::point_to_point::PointToPoint;
use crate::queue::Queue;

/// A rank and the state of its calls.
pub(super) struct Ranks {
    pub(super) comm: Communicator,
    pub(super) queue: Arc<Queue>,
    pub(super) staging: Mutex<Staging>,
    pub(super) devices: Mutex<Devices>,
    pub(super) point_to_point: PointToPoint,
    /// The process that joined; a copy of it is no rank.
    process: u32,
    /// Milliseconds that calls wait by default; negative for the communicator's.
    pub(super) timeout: AtomicI64,
    pub(super) num_calls: AtomicU64,
}

impl Ranks {
    pub(super) fn new(comm: Communicator) -> Result<Self, Failure> {
        gloo_order::adopt(&comm)?;
        let point_to_point = PointToPoint::new(&comm)?;
        let process = std::process::id();
        let (timeout, num_calls) = (AtomicI64::new(-1), AtomicU64::new(0));
        Ok(Self {
            comm,
            queue: Arc::default(),
            staging: Mutex::default(),
            devices: Mutex::default(),
            point_to_point,
            process,
            timeout,
            num_calls,
        })
    }

    pub(super) fn run(&self, call: &Call, timeout: Option<Duration>) -> Result<(), Failure> {
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match timeout {
            Some(timeout) => call.run(&self.comm.with_timeout(timeout), &mut staging),
            None => call.run(&self.comm, &mut staging),
        };
        made.map_err(|failure| failure.on(self.comm.rank(), call.name()))
    }

    /// Returns the timeout of a call in milliseconds, of which a negative one is the default; none for the communicator's.
    pub(super) fn timeout(&self, timeout: i64) -> Option<Duration> {
        let timeout = if timeout < 0 { self.timeout.load(Relaxed) } else { timeout };
        u64::try_from(timeout).ok().map(Duration::from_millis)
    }

    /// Returns whether this process is a copy of the one that joined.
    pub(super) fn is_copy(&self) -> bool {
        std::process::id() != self.process
    }

    /// Checks that calls can be made here: not in a copy of the process, and not by a selector, which would wait for itself.
    pub(super) fn check_caller(&self, name: &str) -> Result<(), Failure> {
        if defaults::is_in_selector() {
            let message = "a selector made this call, for which it would wait itself: decide by its arguments";
            return Err(Failure::of_kind("unsupported", name, message.into()).on(self.comm.rank(), name));
        }
        if !self.is_copy() {
            return Ok(());
        }
        let message = format!(
            "expected the process {} that joined as rank {}, found its copy {}; make calls in the process that joined, or start \
             workers with the method `spawn`",
            self.process,
            self.comm.rank(),
            std::process::id()
        );
        Err(Failure::of_kind("unsupported", name, message).on(self.comm.rank(), name))
    }
}
