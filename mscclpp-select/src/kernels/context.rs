//! Contexts of native algorithms, which calls share by key.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{NativeAlgorithm, NativeError};
use crate::Request;
use mscclpp_base::error::Error;
use mscclpp_exec::cuda::{Allocation, DeviceSlice, Executor, Stream, WeakExecutor};

/// Key of a context of a [`NativeAlgorithm`]: calls of an executor whose keys are equal share one context.
///
/// ```
/// use mscclpp_core::collective::CollectiveKind;
/// use mscclpp_exec::DataType;
/// use mscclpp_select::kernels::ContextKey;
/// use mscclpp_select::Request;
///
/// let [short, long] = [1024, 4096].map(|bytes| Request::new(CollectiveKind::AllReduce, 8, DataType::F32, bytes));
/// assert_ne!(ContextKey::of_request(&short), ContextKey::of_request(&long));
/// // One context for both, with scratch for the longer one.
/// assert_eq!(ContextKey::new(4096), ContextKey::new(4096));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextKey {
    request: Option<Request>,
    number: u64,
    is_per_allocation: bool,
}

impl ContextKey {
    /// Returns the key that all calls of a request share.
    pub const fn of_request(request: &Request) -> Self {
        Self { request: Some(*request), number: 0, is_per_allocation: false }
    }

    /// Returns the key that calls of all requests share for which the algorithm returns the same number.
    pub const fn new(number: u64) -> Self {
        Self { request: None, number, is_per_allocation: false }
    }

    /// Returns this key for calls on the same allocations only: those that contain the input and output of each rank of this process. Memory
    /// that is freed and allocated again is another allocation, also at the same address. The context is created by the first
    /// [`launch`](super::NativeRun::launch) on these allocations, or by [`NativeRun::prepare`](super::NativeRun::prepare).
    #[must_use]
    pub const fn per_allocation(self) -> Self {
        Self { is_per_allocation: true, ..self }
    }

    /// Returns whether calls on other allocations have another context.
    pub(super) const fn is_per_allocation(&self) -> bool {
        self.is_per_allocation
    }
}

/// A key, and the allocations of the calls' buffers if it depends on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallKey {
    key: ContextKey,
    allocations: Vec<[Option<Allocation>; 2]>,
}

impl CallKey {
    /// Returns the key of calls on any memory.
    pub(super) const fn any(key: ContextKey) -> Self {
        Self { key, allocations: Vec::new() }
    }

    /// Returns the key of a call. `ranks`: input and output of each rank of this process.
    ///
    /// # Errors
    /// [`Error::Driver`] for memory that the driver does not know.
    pub(super) fn of_call(key: ContextKey, world: &Executor, ranks: &[[DeviceSlice; 2]]) -> Result<Self, Error> {
        if !key.is_per_allocation {
            return Ok(Self::any(key));
        }
        let mut allocations = Vec::with_capacity(ranks.len());
        for (device, slices) in world.local_devices().zip(ranks) {
            let mut found = [None; 2];
            for (found, slice) in found.iter_mut().zip(slices).filter(|(_, slice)| slice.bytes > 0) {
                *found = Some(device.driver().allocation(slice.address)?);
            }
            allocations.push(found);
        }
        Ok(Self { key, allocations })
    }

    /// Returns the allocations as slices.
    fn slices(&self) -> Vec<[DeviceSlice; 2]> {
        let slice = |found: Option<Allocation>| {
            found.map_or(DeviceSlice::EMPTY, |Allocation { base, bytes, .. }| DeviceSlice { address: base, bytes })
        };
        self.allocations.iter().map(|ranks| ranks.map(slice)).collect()
    }
}

/// A context, which the runs that have used it keep.
pub(super) type SharedContext<A> = Arc<Mutex<<A as NativeAlgorithm>::Context>>;

/// A key, and its context if a run still has it.
type KnownContext<A> = (CallKey, Weak<Mutex<<A as NativeAlgorithm>::Context>>);

/// What an algorithm keeps for an executor.
pub(super) struct OnExecutor<A: NativeAlgorithm> {
    pub(super) executor: WeakExecutor,
    pub(super) kernels: A::Kernels,
    contexts: Mutex<Vec<KnownContext<A>>>,
}

impl<A: NativeAlgorithm> OnExecutor<A> {
    pub(super) fn new(world: &Executor, kernels: A::Kernels) -> Self {
        Self { executor: world.downgrade(), kernels, contexts: Mutex::default() }
    }

    /// Returns the context of a key, and creates it if no run has it. `stream`: that of the launch that needs it.
    ///
    /// # Errors
    /// Those of [`NativeAlgorithm::context`]; [`Error::Capturing`] if it would be created in a capture.
    pub(super) fn context(
        &self,
        algorithm: &A,
        world: &Executor,
        request: &Request,
        key: &CallKey,
        stream: Option<&Stream>,
    ) -> Result<SharedContext<A>, NativeError> {
        // Held until the context exists, so that threads that share an executor create it once.
        let mut contexts = lock(&self.contexts);
        contexts.retain(|(_, context)| context.strong_count() > 0);
        if let Some(context) = contexts.iter().find(|(known, _)| known == key).and_then(|(_, known)| known.upgrade()) {
            return Ok(context);
        }
        if stream.map_or(Ok(false), Stream::is_capturing)? {
            let what =
                "cannot create the context of memory that was not used before; call `NativeRun::prepare` earlier,"
                    .into();
            return Err(Error::Capturing { what }.into());
        }
        let context = algorithm.context(&self.kernels, world, request, &key.slices())?;
        let context = Arc::new(Mutex::new(context));
        contexts.push((key.clone(), Arc::downgrade(&context)));
        Ok(context)
    }
}

/// Locks a mutex, also after a panic in an algorithm's function.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
