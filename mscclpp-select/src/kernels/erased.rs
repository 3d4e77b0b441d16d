//! Type-erased native algorithms.

use std::fmt;
use std::sync::{Arc, Mutex};

use mscclpp_core::collective::CollectiveKind;

use super::context::{CallKey, OnExecutor, SharedContext, lock};
use super::{ContextKey, NativeAlgorithm, NativeError, NativeRun};
use crate::{CallError, Request};
use mscclpp_base::error::Error;
use mscclpp_exec::cuda::{DeviceSlice, Executor, StagedPart, Stream, part_slices};

/// A native algorithm, shared by all its callers.
#[derive(Clone)]
pub(super) struct Shared(Arc<dyn Prepare>);

trait Prepare: Send + Sync {
    fn prepare(self: Arc<Self>, world: &Executor, request: &Request) -> Result<Box<dyn Bound>, NativeError>;
}

/// An algorithm bound to an executor and a request.
pub(super) trait Bound: Send {
    /// Creates the context for calls on the memory, unless it exists.
    fn prepare(&mut self, ranks: &[[DeviceSlice; 2]]) -> Result<(), NativeError>;

    /// Enqueues a call on a stream.
    ///
    /// # Safety
    /// As for [`NativeAlgorithm::launch`].
    unsafe fn launch(&mut self, ranks: &[[DeviceSlice; 2]], stream: &Stream) -> Result<(), NativeError>;

    /// Returns the number of contexts that it keeps.
    fn num_contexts(&self) -> usize;
}

struct Holder<A: NativeAlgorithm> {
    algorithm: A,
    /// Executors that were used; few, so that a list suffices.
    worlds: Mutex<Vec<Arc<OnExecutor<A>>>>,
}

struct BoundAlgorithm<A: NativeAlgorithm> {
    // Dropped first: contexts may use the executor.
    contexts: Vec<(CallKey, SharedContext<A>)>,
    holder: Arc<Holder<A>>,
    on_executor: Arc<OnExecutor<A>>,
    world: Executor,
    request: Request,
    key: ContextKey,
}

impl<A: NativeAlgorithm> Holder<A> {
    fn on(&self, world: &Executor) -> Result<Arc<OnExecutor<A>>, NativeError> {
        let mut worlds = lock(&self.worlds);
        worlds.retain(|known| known.executor.is_alive());
        if let Some(known) = worlds.iter().find(|known| known.executor.is(world)) {
            return Ok(Arc::clone(known));
        }
        let on_executor = Arc::new(OnExecutor::new(world, self.algorithm.init(world)?));
        worlds.push(Arc::clone(&on_executor));
        Ok(on_executor)
    }
}

impl<A: NativeAlgorithm> Prepare for Holder<A> {
    fn prepare(self: Arc<Self>, world: &Executor, request: &Request) -> Result<Box<dyn Bound>, NativeError> {
        let on_executor = self.on(world)?;
        let key = self.algorithm.context_key(request);
        let (world, request) = (world.clone(), *request);
        let mut bound = BoundAlgorithm { contexts: Vec::new(), holder: self, on_executor, world, request, key };
        if !key.is_per_allocation() {
            bound.context(CallKey::any(key), None)?;
        }
        Ok(Box::new(bound))
    }
}

impl<A: NativeAlgorithm> BoundAlgorithm<A> {
    /// Returns the context of a key, which this run keeps. `stream`: that of the launch that needs it.
    fn context(&mut self, key: CallKey, stream: Option<&Stream>) -> Result<SharedContext<A>, NativeError> {
        if let Some((_, context)) = self.contexts.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(context));
        }
        let Self { holder, on_executor, world, request, .. } = self;
        let context = on_executor.context(&holder.algorithm, world, request, &key, stream)?;
        self.contexts.push((key, Arc::clone(&context)));
        Ok(context)
    }
}

impl<A: NativeAlgorithm> Bound for BoundAlgorithm<A> {
    fn prepare(&mut self, ranks: &[[DeviceSlice; 2]]) -> Result<(), NativeError> {
        let key = CallKey::of_call(self.key, &self.world, ranks)?;
        self.context(key, None).map(drop)
    }

    unsafe fn launch(&mut self, ranks: &[[DeviceSlice; 2]], stream: &Stream) -> Result<(), NativeError> {
        let key = CallKey::of_call(self.key, &self.world, ranks)?;
        let context = self.context(key, Some(stream))?;
        let Self { holder, on_executor, .. } = self;
        // SAFETY: guaranteed by the caller.
        unsafe { holder.algorithm.launch(&on_executor.kernels, &mut lock(&context), ranks, stream) }
    }

    fn num_contexts(&self) -> usize {
        self.contexts.len()
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
        Ok(NativeRun { bound, name: name.to_owned(), request: *request, local, world: world.clone() })
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

    /// Creates the context for calls on this memory, unless it exists: before a captured call, if the algorithm's
    /// [`context_key`](NativeAlgorithm::context_key) depends on the allocations. Other contexts exist already.
    ///
    /// # Errors
    /// [`CallError`] as [`launch`](Self::launch).
    pub fn prepare(&mut self, ranks: &[[DeviceSlice; 2]]) -> Result<(), CallError> {
        let prepared = self.check(ranks).map_err(NativeError::from).and_then(|()| self.bound.prepare(ranks));
        prepared.map_err(|source| self.failed(source))
    }

    /// Returns the number of contexts that this keeps until it is dropped: one, or one for the allocations of each launch.
    pub fn num_contexts(&self) -> usize {
        self.bound.num_contexts()
    }

    /// Enqueues a call on a stream, and returns immediately. It is ordered after the earlier work on the stream and
    /// nothing else: unlike launches of plans, calls on several streams are unordered.
    ///
    /// # Errors
    /// [`CallError`] with the algorithm's error; if the number of ranks or the length of a slice differs from
    /// [`lengths`](Self::lengths); with [`Error::Capturing`] if a context for new allocations would be created in a capture.
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

    /// Enqueues a call of the one rank of this process on parts of lent memory; in place `output` alone. Unlike [`launch`](Self::launch) it
    /// is ordered among the launches of the executor, on whatever streams.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`Error::Driver`].
    #[doc(hidden)]
    pub fn launch_lent(
        &mut self,
        input: Option<StagedPart<'_>>,
        output: StagedPart<'_>,
        stream: &Stream,
    ) -> Result<(), CallError> {
        let slices = part_slices(input, output).map_err(|error| self.failed(error))?;
        self.world.follow_launches(stream).map_err(|error| self.failed(error))?;
        // SAFETY: lent memory is on a device of the stream, which is that of the one rank of this process: `check` compares their
        // number. It exists until the work that is enqueued meanwhile is complete, and its owner enqueues no other work on it in
        // between, as the traits that lend it guarantee.
        let launched = unsafe { self.launch(&[slices], stream) };
        launched.and(self.world.extend_launch(stream).map_err(|error| self.failed(error)))
    }

    fn failed(&self, source: impl Into<NativeError>) -> CallError {
        CallError { name: self.name.clone(), source: source.into() }
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
