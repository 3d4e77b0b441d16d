//! Copies to memory of the host that is not page-locked, for which a driver waits in the call. Until the work before such a copy is
//! complete, calls of other threads in the context wait that allocate memory or create streams and events, and other calls wait for those
//! (driver 580.159 on an H200). Here all calls wait.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::state;

/// The contexts with such a copy.
static COPYING: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
static ENDED: Condvar = Condvar::new();

/// Their number: most calls find none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn contexts() -> MutexGuard<'static, BTreeSet<usize>> {
    COPYING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the copies of other threads in the current context. Each call begins with it.
pub(crate) fn wait() {
    if COUNT.load(SeqCst) > 0 {
        let (context, mut contexts) = (state::context(), contexts());
        while contexts.contains(&context) {
            contexts = ENDED.wait(contexts).unwrap_or_else(PoisonError::into_inner);
        }
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
        contexts().insert(context);
        Self { context }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        contexts().remove(&self.context);
        COUNT.fetch_sub(1, SeqCst);
        ENDED.notify_all();
    }
}
