//! Copies to memory of the host that is not page-locked, for which a driver waits in the call. Until the work before such a copy is
//! complete, calls of other threads in the context wait that allocate memory or create or destroy streams and events, and then all
//! others wait for those (driver 580.159 on an H200).

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::state;

/// Calls that wait for copies.
const ALLOCATING: [&str; 7] = [
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuMemAlloc_v2",
    "cuMemHostAlloc",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
];

/// What happens in a context.
#[derive(Default)]
struct Uses {
    copies: usize,
    /// Calls that wait for the copies.
    allocating: usize,
}

static CONTEXTS: Mutex<BTreeMap<usize, Uses>> = Mutex::new(BTreeMap::new());
static ENDED: Condvar = Condvar::new();

/// Number of copies: most calls find none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn contexts() -> MutexGuard<'static, BTreeMap<usize, Uses>> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the copies of other threads in the current context. Each call begins with it.
pub(crate) fn wait(call: &str) {
    if COUNT.load(SeqCst) == 0 {
        return;
    }
    let (context, mut contexts) = (state::context(), contexts());
    let is_allocating = ALLOCATING.contains(&call);
    if is_allocating && let Some(uses) = contexts.get_mut(&context) {
        uses.allocating += 1;
    }
    while contexts.get(&context).is_some_and(|uses| uses.copies > 0 && uses.allocating > 0) {
        contexts = ENDED.wait(contexts).unwrap_or_else(PoisonError::into_inner);
    }
    if is_allocating && let Some(uses) = contexts.get_mut(&context) {
        uses.allocating = uses.allocating.saturating_sub(1);
    }
}

/// A copy in the current context, until it is dropped.
pub(crate) struct Copy {
    context: usize,
}

impl Copy {
    pub(crate) fn begin() -> Self {
        let context = state::context();
        COUNT.fetch_add(1, SeqCst);
        contexts().entry(context).or_default().copies += 1;
        Self { context }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Some(uses) = contexts().get_mut(&self.context) {
            uses.copies = uses.copies.saturating_sub(1);
        }
        COUNT.fetch_sub(1, SeqCst);
        ENDED.notify_all();
    }
}
