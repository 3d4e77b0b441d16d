//! What the calls of a communicator need of an executor that connects its ranks.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use mscclpp_bootstrap as bootstrap;
use serde::{Deserialize, Serialize};

use super::executor::{Executor, Inner};
use super::ipc::{IpcGroup, PeerPath};
use super::last_launch::LastLaunch;
use super::plan_state::PlanState;
use crate::process::CallRing;
use mscclpp_base::error::Error;
use mscclpp_cuda::buffer::DeviceBuffer;
use mscclpp_cuda::device::stream::{Stream, Used};
use mscclpp_cuda::slice::DeviceSlice;

impl Executor {
    /// Returns the ranks of this process, ascending.
    #[doc(hidden)]
    pub fn local_ranks(&self) -> Vec<u32> {
        self.inner.local().map(|(rank, _)| rank).collect()
    }

    /// Returns whether all ranks are in this process.
    #[doc(hidden)]
    pub fn is_local(&self) -> bool {
        self.inner.group.is_none()
    }

    /// Returns the number of the executor in this process.
    #[doc(hidden)]
    pub fn number(&self) -> u64 {
        self.inner.number
    }

    /// Returns the connection to the other ranks.
    pub(super) fn group(&self) -> Result<&IpcGroup, Error> {
        self.inner.group.as_ref().ok_or_else(|| Error::Internal("an executor without a group".into()))
    }

    /// Returns how this rank's device accesses the memory of each rank; none for an executor whose ranks are all in this
    /// process.
    #[doc(hidden)]
    pub fn peer_paths(&self) -> &[PeerPath] {
        self.inner.group.as_ref().map_or(&[], |group| &group.paths)
    }

    /// Returns the number of ranks per node, as requests state it: ranks of a node access the memory of each other.
    #[doc(hidden)]
    pub fn ranks_per_node(&self) -> Result<u32, Error> {
        Ok(mscclpp_bootstrap::ranks_per_node(&self.group()?.nodes))
    }

    /// Returns the labels of all ranks' devices, which contain their names.
    #[doc(hidden)]
    pub fn device_labels(&self) -> Result<Vec<String>, Error> {
        let group = self.group()?;
        Ok((0..self.inner.ranks).map(|rank| group.multicast(rank).0).collect())
    }

    /// Returns whether all ranks are on separate devices with multicast objects, and these are not disabled.
    #[doc(hidden)]
    pub fn has_multicast(&self) -> bool {
        let separate = |group: &IpcGroup| {
            let ranks = 0..self.inner.ranks;
            ranks.clone().all(|rank| group.multicast(rank).1)
                && ranks.clone().all(|rank| (0..rank).all(|other| !group.on_one_device(rank, other)))
        };
        self.inner.options.multicast && self.inner.group.as_ref().is_some_and(separate)
    }

    /// Returns an error if an earlier failure excludes further calls.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), Error> {
        self.group()?.check()
    }

    /// Fails the communicator. Returns the error, or the cause that another rank reported first.
    #[doc(hidden)]
    pub fn fail(&self, error: Error) -> Error {
        match self.group() {
            Ok(group) => group.abort(error),
            Err(internal) => internal,
        }
    }

    /// Allocates the rings in which the ranks of a node compare their calls. A call of all ranks.
    #[doc(hidden)]
    pub fn share_call_ring(&self) -> Result<CallRing, Error> {
        self.group()?.session()?.share_call_ring()
    }

    /// Returns the error of the ranks for which this one has waited for `timeout` in vain, if its calls tell them.
    #[doc(hidden)]
    pub fn find_late_ranks(&self, ring: &CallRing, timeout: Duration) -> Option<bootstrap::Error> {
        self.group().ok()?.session().ok()?.find_ranks_late_on_devices(ring, timeout)
    }

    /// Exchanges a value of every rank. A call of all ranks; `text` describes it.
    #[doc(hidden)]
    pub fn gather<T: Serialize + for<'a> Deserialize<'a>>(&self, text: &str, value: &T) -> Result<Vec<T>, Error> {
        let bytes = postcard::to_allocvec(value).map_err(|error| Error::Internal(error.to_string()))?;
        Ok(self.group()?.gather::<T>(text, &bytes, Vec::new())?.into_iter().map(|(value, _)| value).collect())
    }

    /// Allocates memory of this rank that can be shared, on all ranks or on none. A call of all ranks; `text` describes
    /// it.
    #[doc(hidden)]
    pub fn alloc_on_all(&self, text: &str, bytes: u64) -> Result<DeviceBuffer, Error> {
        let rank = self.group()?.rank;
        self.inner.agree(text, self.alloc(rank, bytes))
    }

    /// Shares memory of callers, if all ranks can. A call of all ranks.
    #[doc(hidden)]
    pub fn share_on_all(&self, memory: DeviceSlice) -> Result<(), Error> {
        self.group()?.register(Ok(vec![memory])).map(|_| ())
    }

    fn any_plan(&self, mut condition: impl FnMut(&Arc<PlanState>) -> bool) -> bool {
        let contexts = self.inner.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.iter().any(&mut condition)
    }

    /// Returns whether a launch of any plan has aborted.
    #[doc(hidden)]
    pub fn has_aborted(&self) -> bool {
        self.any_plan(|context| context.has_aborted())
    }

    /// Aborts the pending launches of all plans, and later ones.
    #[doc(hidden)]
    pub fn abort_launches(&self) {
        self.any_plan(|context| {
            context.abort();
            false
        });
    }

    /// Waits until the launches of this rank are complete: that on the last stream, which follows all others.
    #[doc(hidden)]
    pub fn wait_for_launches(&self) -> Result<(), Error> {
        self.inner.wait_for_launches()
    }

    /// Orders the work that is enqueued on a stream from now on after all launches so far.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`], [`Error::Driver`].
    #[doc(hidden)]
    pub fn follow_launches(&self, stream: &Stream) -> Result<(), Error> {
        self.inner.follow_launches(stream)
    }

    /// Adds what was enqueued on a stream since the last launch to that launch, so that later launches follow it.
    ///
    /// # Errors
    /// As [`follow_launches`](Self::follow_launches).
    #[doc(hidden)]
    pub fn extend_launch(&self, stream: &Stream) -> Result<(), Error> {
        self.inner.extend_launch(stream)
    }

    /// Returns the bytes of scratch of all plans.
    #[doc(hidden)]
    pub fn scratch_bytes(&self) -> u64 {
        let contexts = self.inner.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.iter().map(|context| context.scratch_bytes()).sum()
    }

    /// Returns whether the eager launches of this rank are complete.
    #[doc(hidden)]
    pub fn is_idle(&self) -> bool {
        let order = self.inner.launch_order.lock().unwrap_or_else(PoisonError::into_inner);
        order.last.iter().filter_map(LastLaunch::used).all(Used::is_done)
    }

    /// Waits until port channels have drained. The streams of all launches are synchronized.
    #[doc(hidden)]
    pub fn drain_ports(&self) -> Result<(), Error> {
        let contexts = self.inner.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.iter().try_for_each(|context| context.drain(self.inner.timeout))
    }
}

impl Inner {
    /// Waits until all launches of this process are complete, which follow one another: for the last one on each device. What
    /// was captured may run at any time, so that after a capture it waits for all work of the devices.
    pub(super) fn wait_for_launches(&self) -> Result<(), Error> {
        if self.is_captured.load(Relaxed) {
            return Ok(self.devices.iter().try_for_each(|device| device.driver().wait_idle())?);
        }
        let order = self.launch_order.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(order.last.iter().filter_map(LastLaunch::used).try_for_each(Used::wait)?)
    }

    /// Adds what was enqueued on a stream since the last launch to that launch.
    pub(super) fn extend_launch(&self, stream: &Stream) -> Result<(), Error> {
        let mut order = self.launch_order.lock().unwrap_or_else(PoisonError::into_inner);
        for (device, last) in self.devices.iter().zip(&mut order.last) {
            let lane = stream.on(device.driver())?;
            let is_captured = lane.is_capturing()?;
            if is_captured {
                self.is_captured.store(true, Relaxed);
            }
            last.add(lane, is_captured)?;
        }
        Ok(())
    }

    /// Orders the work that is enqueued on a stream from now on after all launches so far.
    pub(super) fn follow_launches(&self, stream: &Stream) -> Result<(), Error> {
        let mut order = self.launch_order.lock().unwrap_or_else(PoisonError::into_inner);
        for (device, last) in self.devices.iter().zip(&mut order.last) {
            let lane = stream.on(device.driver())?;
            last.follow(lane, lane.is_capturing()?)?;
        }
        Ok(())
    }
}
