//! Compilation of a source to an image, through the cache.

use std::fmt;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::JitError;
use super::cache::Cache;
use super::source::Source;

/// Maximum time for which a process waits for another one that compiles the same source.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// How often it asks for the lock.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Device code that a driver loads.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// The code.
    pub code: Vec<u8>,
    /// Output of the compiler: registers, stack and spills of each kernel.
    pub log: String,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({} bytes)", self.code.len())
    }
}

/// A compiler for one device.
pub trait Compiler: Send + Sync {
    /// Identifies the compiler, its version and the device: everything that its images depend on other than the source.
    fn identity(&self) -> &str;

    /// Compiles a source.
    ///
    /// # Errors
    /// [`JitError::Source`] with the compiler's messages, [`JitError::Call`].
    fn compile(&self, source: &Source) -> Result<Image, JitError>;
}

/// Returns the image of a source: that of the cache, or a new one, which is stored in the cache.
///
/// # Errors
/// Those of [`Compiler::compile`]. An image that the cache cannot read is compiled again, and one that it cannot write
/// is not kept.
pub fn compile(compiler: &dyn Compiler, cache: &Cache, source: &Source) -> Result<Image, JitError> {
    let key = source.key(compiler.identity());
    if let Some(image) = cache.load(&key) {
        return Ok(image);
    }
    // Of several processes one compiles, and the others wait for its file; not forever, since it may be stopped.
    let end = Instant::now() + MAX_WAIT;
    let mut lock = cache.try_lock(&key);
    while matches!(&lock, Err(error) if error.kind() == ErrorKind::WouldBlock) && Instant::now() < end {
        std::thread::sleep(POLL_INTERVAL);
        lock = cache.try_lock(&key);
    }
    if let Some(image) = lock.as_ref().ok().and_then(|_| cache.load(&key)) {
        return Ok(image);
    }
    let image = compiler.compile(source)?;
    log::debug!("{}: compiled by {}\n{}", source.name(), compiler.identity(), image.log);
    cache.store(&key, &image);
    Ok(image)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A compiler that counts what it compiles.
    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Compiler for Counting {
        fn identity(&self) -> &str {
            "counting"
        }

        fn compile(&self, source: &Source) -> Result<Image, JitError> {
            // Those that begin meanwhile do not find a file.
            std::thread::sleep(std::time::Duration::from_millis(20));
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Image { code: source.name().into(), log: String::new() })
        }
    }

    #[test]
    fn one_of_those_that_compile_a_source_at_once_compiles_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (cache, source) = (Cache::at(folder.path()), Source::new("a.cu", ""));
        let (compiler, together) = (Counting::default(), Barrier::new(4));
        // Each opens the file of the lock, as processes do.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    together.wait();
                    assert_eq!(compile(&compiler, &cache, &source).expect("an image").code, b"a.cu");
                });
            }
        });
        assert_eq!(compiler.0.into_inner(), 1);
    }
}
