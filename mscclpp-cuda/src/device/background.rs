//! Compilation while the program continues: one thread of the process compiles one source after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::driver::SharedDriver;
use crate::jit::{Cache, Image, JitError, Source, compile};

/// Maximum time for which the exit of a process waits for a compilation that is under way.
const MAX_WAIT_AT_EXIT: Duration = Duration::from_secs(30);

/// A source that is compiled in the background, by its owner's driver and cache.
#[derive(Clone)]
pub struct Compilation {
    source: Source,
    image: Arc<OnceLock<Result<Image, JitError>>>,
}

struct Task {
    driver: SharedDriver,
    cache: Cache,
    compilation: Compilation,
}

/// What is left to compile.
struct Queue {
    tasks: VecDeque<Task>,
    /// The process in which the thread runs. A forked process has a copy of the queue, but no thread.
    process: Option<u32>,
    /// Whether the process is exiting.
    is_ended: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { tasks: VecDeque::new(), process: None, is_ended: false });
static IDLE: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Compilation {
    /// Starts to compile a source, unless the cache has its image.
    pub fn start(driver: &SharedDriver, cache: &Cache, source: Source) -> Self {
        let key = driver.compiler().ok().map(|compiler| source.key(compiler.identity()));
        if let Some(image) = key.and_then(|key| cache.load(&key)) {
            return Self { source, image: Arc::new(OnceLock::from(Ok(image))) };
        }
        static HANDLER: Once = Once::new();
        // SAFETY: the handler may run at any time; the system runs it before the libraries that the compiler consists of, which were loaded
        // before, end what they have.
        HANDLER.call_once(|| _ = unsafe { libc::atexit(end) });
        let compilation = Self { source, image: Arc::default() };
        let mut queue = lock();
        queue.tasks.push_back(Task { driver: driver.clone(), cache: cache.clone(), compilation: compilation.clone() });
        if queue.process != Some(std::process::id()) {
            let spawned = thread::Builder::new().name("mscclpp-compile".into()).spawn(run);
            match spawned {
                Ok(_) => queue.process = Some(std::process::id()),
                Err(error) => {
                    log::warn!("plans are interpreted: no thread compiles their kernels: {error}");
                    queue.tasks.clear();
                }
            }
        }
        compilation
    }

    /// Returns the source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the image, or why there is none; nothing as long as it is not compiled.
    pub fn image(&self) -> Option<&Result<Image, JitError>> {
        self.image.get()
    }
}

/// Compiles what is in the queue.
fn run() {
    loop {
        let task = {
            let mut queue = lock();
            match queue.tasks.pop_front().filter(|_| !queue.is_ended) {
                Some(task) => task,
                None => {
                    queue.process = None;
                    IDLE.notify_all();
                    return;
                }
            }
        };
        let Task { driver, cache, compilation } = task;
        let compiled = driver.compiler().and_then(|compiler| compile(compiler, &cache, &compilation.source));
        // Only this thread sets it.
        let _ = compilation.image.set(compiled);
    }
}

/// Waits for the compilation that is under way: the compiler must not end while a thread is in it. Waits for no lock, which a thread may have
/// had when the process was forked.
extern "C" fn end() {
    let Ok(mut queue) = QUEUE.try_lock() else { return };
    queue.is_ended = true;
    let is_running = |queue: &mut Queue| queue.process == Some(std::process::id());
    drop(IDLE.wait_timeout_while(queue, MAX_WAIT_AT_EXIT, is_running));
}
