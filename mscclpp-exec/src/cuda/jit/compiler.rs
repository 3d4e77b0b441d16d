//! From a source to an image, by way of the cache.

use std::fmt;

use super::cache::Cache;
use super::error::JitError;
use super::source::Source;

/// What a device's driver loads.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// The code.
    pub code: Vec<u8>,
    /// What the compiler said: registers, stack and spills of each kernel.
    pub log: String,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({} bytes)", self.code.len())
    }
}

/// Compiles for one device.
pub trait Compiler: Send + Sync {
    /// The compiler, its version and the device: all that its images depend on beside the source.
    fn identity(&self) -> &str;

    /// Compiles.
    ///
    /// # Errors
    /// [`JitError::Source`] with the compiler's messages, [`JitError::Call`].
    fn compile(&self, source: &Source) -> Result<Image, JitError>;
}

/// The image of a source: the cache's, or compiled and put there.
///
/// # Errors
/// As [`Compiler::compile`]. What the cache cannot read is compiled again, and what it cannot write is not kept.
pub fn compile(compiler: &dyn Compiler, cache: &Cache, source: &Source) -> Result<Image, JitError> {
    let key = source.key(compiler.identity());
    if let Some(image) = cache.load(&key) {
        return Ok(image);
    }
    let image = compiler.compile(source)?;
    log::debug!("{}: compiled by {}\n{}", source.name(), compiler.identity(), image.log);
    cache.store(&key, &image);
    Ok(image)
}
