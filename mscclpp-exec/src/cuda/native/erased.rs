//! Type-erased native algorithms.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mscclpp_core::collective::CollectiveKind;

use super::{NativeAlgorithm, NativeError, NativeRun};
use crate::cuda::executor::Inner;
use crate::cuda::{DeviceSlice, Executor, Stream};
use crate::error::Error;
use crate::select::{CallError, Request};

/// A native algorithm, shared by all its callers.
#[derive(Clone)]
pub(super) struct Shared(Arc<dyn Prepare>);

trait Prepare: Send + Sync {
    fn prepare(self: Arc<Self>, world: &Executor, request: &Request) -> Result<Box<dyn Bound>, NativeError>;
}

/// An algorithm with its context.
pub(super) trait Bound: Send {
    /// Enqueues a call on a stream.
    ///
    /// # Safety
    /// As for [`NativeAlgorithm::launch`].
    unsafe fn launch(&mut self, ranks: &[[DeviceSlice; 2]], stream: &Stream) -> Result<(), NativeError>;
}

struct Holder<A: NativeAlgorithm> {
    algorithm: A,
    /// Executors that were used, with the kernels for each; few, so that a list suffices.
    worlds: Mutex<Vec<PreparedKernels<A::Kernels>>>,
}

/// An executor that may have been dropped, and its kernels.
type PreparedKernels<K> = (Weak<Inner>, Arc<K>);

struct OnExecutor<A: NativeAlgorithm> {
    holder: Arc<Holder<A>>,
    kernels: Arc<A::Kernels>,
    context: A::Context,
}

impl<A: NativeAlgorithm> Holder<A> {
    fn kernels(&self, world: &Executor) -> Result<Arc<A::Kernels>, NativeError> {
        let mut worlds = self.worlds.lock().unwrap_or_else(PoisonError::into_inner);
        worlds.retain(|(known, _)| known.strong_count() > 0);
        let here = Arc::as_ptr(&world.inner);
        if let Some((_, kernels)) = worlds.iter().find(|(known, _)| known.as_ptr() == here) {
            return Ok(Arc::clone(kernels));
        }
        let kernels = Arc::new(self.algorithm.init(world)?);
        worlds.push((Arc::downgrade(&world.inner), Arc::clone(&kernels)));
        Ok(kernels)
    }
}

impl<A: NativeAlgorithm> Prepare for Holder<A> {
    fn prepare(self: Arc<Self>, world: &Executor, request: &Request) -> Result<Box<dyn Bound>, NativeError> {
        let kernels = self.kernels(world)?;
        let context = self.algorithm.context(&kernels, world, request)?;
        Ok(Box::new(OnExecutor { holder: self, kernels, context }))
    }
}

impl<A: NativeAlgorithm> Bound for OnExecutor<A> {
    unsafe fn launch(&mut self, ranks: &[[DeviceSlice; 2]], stream: &Stream) -> Result<(), NativeError> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.holder.algorithm.launch(&self.kernels, &mut self.context, ranks, stream) }
    }
}

impl Shared {
    pub(super) fn new(algorithm: impl NativeAlgorithm) -> Self {
        Self(Arc::new(Holder { algorithm, worlds: Mutex::default() }))
    }

    /// Binds the algorithm to an executor and a request.
    ///
    /// # Errors
    /// [`CallError`] with the algorithm's error, or if the executor has another number of ranks.
    pub(super) fn prepare(&self, name: &str, world: &Executor, request: &Request) -> Result<NativeRun, CallError> {
        let failed = |source| CallError { name: name.to_owned(), source };
        let (expected, found) = (request.num_ranks, world.num_ranks());
        if expected != found {
            return Err(failed(Error::RankCountMismatch { plan: name.to_owned(), expected, found }.into()));
        }
        let bound = Arc::clone(&self.0).prepare(world, request).map_err(failed)?;
        let local = world.local_ranks().len() as u32;
        Ok(NativeRun { name: name.to_owned(), request: *request, local, bound })
    }
}

impl NativeRun {
    /// Returns the request that it is bound to.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the bytes of every rank's input and output; in place, of the one buffer and 0.
    pub fn lengths(&self) -> [u64; 2] {
        let Request { collective, bytes, num_ranks: ranks, in_place, .. } = self.request;
        let part = bytes / u64::from(ranks.max(1));
        match (in_place, collective) {
            (true, _) => [bytes, 0],
            (false, CollectiveKind::AllGather) => [part, bytes],
            (false, CollectiveKind::ReduceScatter) => [bytes, part],
            (false, _) => [bytes, bytes],
        }
    }

    /// Enqueues a call on a stream, and returns immediately. It is ordered after the earlier work on the stream and
    /// nothing else: unlike launches of plans, calls on several streams are unordered.
    ///
    /// # Errors
    /// [`CallError`] with the algorithm's error, or if the number of ranks or the length of a slice differs from
    /// [`lengths`](Self::lengths).
    ///
    /// # Safety
    /// As for [`NativeAlgorithm::launch`].
    pub unsafe fn launch(&mut self, ranks: &[[DeviceSlice; 2]], stream: &Stream) -> Result<(), CallError> {
        self.check(ranks)
            .map_err(NativeError::from)
            .and_then(|()| {
                // SAFETY: guaranteed by the caller.
                unsafe { self.bound.launch(ranks, stream) }
            })
            .map_err(|source| CallError { name: self.name.clone(), source })
    }

    fn check(&self, ranks: &[[DeviceSlice; 2]]) -> Result<(), Error> {
        if ranks.len() != self.local as usize {
            let (expected, found) = (self.local, ranks.len());
            return Err(Error::BufferCount { buffer: "input and output", expected, found });
        }
        for (rank, slices) in (0..).zip(ranks) {
            for ((slice, expected), buffer) in slices.iter().zip(self.lengths()).zip(["input", "output"]) {
                if slice.bytes != expected {
                    return Err(Error::BufferSize { rank, buffer, expected, found: slice.bytes });
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for NativeRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeRun").field("name", &self.name).field("request", &self.request).finish_non_exhaustive()
    }
}
