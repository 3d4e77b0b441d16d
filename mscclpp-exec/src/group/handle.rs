//! One rank's handle to its group.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;

use super::cache::{Cache, Serving};
use super::error::Error;
use crate::comm::Communicator;
use crate::dtype::{DataType, Element};
use crate::flight_recorder::Recorder;
use crate::process::{Executor, SharedBuffer};
use crate::select::{Buffers, Call, Choice, Registry, Request};

/// A rank among others, with which it makes collective calls.
///
/// All ranks make the same calls in the same order, with the same sizes, types, reductions and roots. A call returns when
/// this rank's part is done: its output is there, and its input may be changed.
///
/// The first call of a kind and size selects an algorithm and prepares its plan; later ones only launch it. At most 256
/// kinds and sizes are kept, those used longest ago forgotten first.
///
/// # Errors
/// All calls: lengths that do not go together and roots that are no rank, before any other rank is waited for; what
/// selection, preparation and launch say. [`Error`] names them.
pub struct Group {
    communicator: Communicator,
    pub(super) executor: Executor,
    registry: Registry,
    pub(super) cache: Cache,
    registered: bool,
    insisted: Option<(CollectiveKind, Choice)>,
    recorder: Recorder,
    /// What parts of different lengths go through; the same length on all ranks.
    pub(super) staging: Option<[SharedBuffer<u8>; 2]>,
}

impl Group {
    /// The group that the environment describes: that of a launcher, or of one rank that is alone.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] if the environment is incomplete or ranks are missing, otherwise as [`new`](Self::new).
    pub fn from_env() -> Result<Self, Error> {
        Self::new(Communicator::from_env()?)
    }

    /// `ranks` ranks in this process, for as many threads.
    ///
    /// # Errors
    /// As [`Communicator::local`] and [`new`](Self::new).
    pub fn local(ranks: u32) -> Result<Vec<Self>, Error> {
        std::thread::scope(|scope| {
            let communicators = Communicator::local(ranks)?;
            let new = |communicator| std::thread::Builder::new().spawn_scoped(scope, || Self::new(communicator));
            // Where one cannot be started those before it are told: the ranks behind it are dropped.
            let threads: Result<Vec<_>, _> = communicators.into_iter().map(new).collect();
            let threads = threads.map_err(|error| crate::Error::SpawnThread(error.to_string()))?;
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        })
    }

    /// The group of a communicator, with the algorithms of the library and the tuning table that the environment names.
    ///
    /// # Errors
    /// [`Error::Table`], and as [`with_registry`](Self::with_registry).
    pub fn new(communicator: Communicator) -> Result<Self, Error> {
        Self::with_registry(communicator, Registry::from_env()?)
    }

    /// The group of a communicator with a registry, which must be the same on all ranks. A call of all ranks.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] if ranks have different versions or registries, with the first difference; [`Error::Run`] if they
    /// cannot share memory.
    pub fn with_registry(communicator: Communicator, registry: Registry) -> Result<Self, Error> {
        let algorithms = registry.fingerprint();
        let values = [("version of mscclpp", env!("CARGO_PKG_VERSION")), ("algorithms", &algorithms)];
        communicator.bootstrap().agree(&values)?;
        let transport = Executor::new(Arc::clone(communicator.bootstrap()))?;
        Ok(Self {
            communicator,
            executor: transport,
            registry,
            cache: Cache::default(),
            registered: false,
            insisted: None,
            recorder: Recorder::default(),
            staging: None,
        })
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.communicator.rank()
    }

    /// Number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.communicator.num_ranks()
    }

    /// The communicator.
    pub fn communicator(&self) -> &Communicator {
        &self.communicator
    }

    /// What decides which algorithm serves a call.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Changes what decides which algorithm serves a call; all ranks must change it alike, between the same calls. What
    /// was prepared is forgotten.
    pub fn registry_mut(&mut self) -> &mut Registry {
        self.cache.clear();
        &mut self.registry
    }

    /// Promises, on all ranks alike, that all buffers of the calls to come are registered. A promise is taken into account
    /// when algorithms are selected; registered buffers are used without copies also without it.
    pub fn assume_registered(&mut self, registered: bool) {
        self.registered = registered;
    }

    /// Lets one algorithm serve all calls of its collective from now on, or the registry decide again. For measuring; all
    /// ranks must do it alike. Calls that the algorithm does not serve fail.
    pub fn force_algorithm(&mut self, choice: Option<(CollectiveKind, Choice)>) {
        self.cache.clear();
        self.insisted = choice;
    }

    /// A buffer of `len` elements, zero at first, that calls use without copies: registered memory. A call of all ranks;
    /// lengths may differ.
    ///
    /// # Errors
    /// [`Error::Run`] if the machine does not have so much.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<SharedBuffer<T>, Error> {
        Ok(self.executor.alloc(len)?)
    }

    /// The request of a call: what an algorithm is selected for.
    pub fn request<T: Element>(&self, collective: CollectiveKind, count: usize) -> Request {
        self.request_of(collective, T::TYPE, (count as u64).saturating_mul(size_of::<T>() as u64))
    }

    /// The request of a call with `bytes` bytes in the larger of a rank's input and output.
    pub fn request_of(&self, collective: CollectiveKind, dtype: DataType, bytes: u64) -> Request {
        Request {
            ranks_per_node: self.communicator.bootstrap().ranks_per_node(),
            registered: self.registered,
            ..Request::new(collective, self.num_ranks(), dtype, bytes)
        }
    }

    /// Serves a request out of place; its lengths are the caller's care.
    #[track_caller]
    pub(crate) fn serve_separate<T: Element>(
        &mut self,
        request: Request,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        self.serve(request, Typed::Separate(input, output))
    }

    /// Serves a request in place; its length is the caller's care.
    #[track_caller]
    pub(crate) fn serve_in_place<T: Element>(&mut self, request: Request, buffer: &mut [T]) -> Result<(), Error> {
        self.serve(request, Typed::Same(buffer))
    }

    /// Serves a request.
    #[track_caller]
    pub(super) fn serve<T: Element>(&mut self, request: Request, buffers: Typed<'_, T>) -> Result<(), Error> {
        self.recorded(Some(request), |group| group.launch(request, buffers))
    }

    /// Makes a call, that of a request or a barrier, and writes down what is known if it fails.
    #[track_caller]
    pub(super) fn recorded(
        &mut self,
        request: Option<Request>,
        call: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.recorder.note(request, Location::caller());
        call(self).inspect_err(|error| {
            let stall = match error {
                Error::Run(crate::Error::Stalled(stall)) => Some(&**stall),
                Error::Run(crate::Error::Interrupted(interrupted)) => Some(&interrupted.stall),
                _ => None,
            };
            self.recorder.fail(self.communicator.bootstrap(), error.to_string(), stall);
        })
    }

    fn launch<T: Element>(&mut self, request: Request, buffers: Typed<'_, T>) -> Result<(), Error> {
        let Self { communicator, executor: transport, registry, cache, insisted, .. } = self;
        let rank = communicator.rank();
        let select = |source| Error::Select { rank, source };
        let prepared = cache.get(&request, || {
            let decision = match insisted {
                Some((kind, choice)) if *kind == request.collective => registry.decision(&request, choice),
                _ => registry.select(&request),
            }
            .map_err(select)?;
            let serving = match decision.algorithm.is_native() {
                true => Serving::Native,
                false => {
                    let plan = registry.plan(&request, &decision).map_err(|source| {
                        let request = request.to_string();
                        Error::Plan { rank, request, source }
                    })?;
                    Serving::Plan(Box::new(transport.prepare(&plan, request.message())?))
                }
            };
            Ok::<_, Error>((decision.algorithm, serving))
        })?;
        match (&mut prepared.serving, buffers) {
            (Serving::Plan(plan), Typed::Separate(input, output)) => plan.launch(input, output)?,
            (Serving::Plan(plan), Typed::Same(buffer)) => plan.launch_in_place(buffer)?,
            (Serving::Native, buffers) => {
                let bootstrap = communicator.bootstrap();
                let call = Call { request: &request, bootstrap, buffers: buffers.bytes() };
                let failed = |source| Error::Native { rank, request: request.to_string(), source };
                prepared.algorithm.call(call).map_err(failed)?;
            }
        }
        prepared.algorithm.count();
        Ok(())
    }
}

/// The memory of a call.
pub(super) enum Typed<'a, T> {
    /// Out of place: input and output.
    Separate(&'a [T], &'a mut [T]),
    /// In place.
    Same(&'a mut [T]),
}

impl<'a, T: Element> Typed<'a, T> {
    fn bytes(self) -> Buffers<'a> {
        match self {
            Self::Separate(input, output) => {
                Buffers::Separate { input: bytemuck::cast_slice(input), output: bytemuck::cast_slice_mut(output) }
            }
            Self::Same(buffer) => Buffers::Same(bytemuck::cast_slice_mut(buffer)),
        }
    }
}

/// A request that reduces by `op`.
pub(super) fn reducing(request: Request, op: ReduceOp) -> Request {
    Request { op: Some(op), ..request }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("rank", &self.rank())
            .field("size", &self.num_ranks())
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}
