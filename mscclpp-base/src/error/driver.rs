//! Failed calls to the CUDA driver.

use thiserror::Error;

/// A failed call to the driver.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call} failed: {name} ({code}): {text}")]
pub struct DriverError {
    /// The driver's function.
    pub call: &'static str,
    /// Its result.
    pub code: i32,
    /// Name of the result, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
    /// The driver's description of the result.
    pub text: String,
}

impl DriverError {
    /// Returns whether the call was rejected because a stream is captured, or invalidated a capture.
    pub fn is_capture_error(&self) -> bool {
        (900..=908).contains(&self.code)
    }

    /// Returns whether a module has nothing of the name that was looked up.
    pub fn is_missing(&self) -> bool {
        self.code == 500
    }

    /// Returns whether the driver cannot use the image that it was to load: the image is for another device or version,
    /// or the driver has no compiler.
    pub fn is_image_error(&self) -> bool {
        matches!(self.code, 200 | 209 | 218 | 221..=223 | 300)
    }
}
