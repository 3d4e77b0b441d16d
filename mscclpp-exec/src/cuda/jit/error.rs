//! Why device code was not compiled.

use std::path::PathBuf;

use thiserror::Error;

/// Why device code could not be compiled at run time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JitError {
    /// NVRTC's library was not found.
    #[error(
        "no run-time compiler: {tried} were not found; install NVRTC (`libnvrtc`, part of the CUDA toolkit and of the wheel \
         `nvidia-cuda-nvrtc`), or set MSCCLPP_NVRTC to the path of its library"
    )]
    NoCompiler {
        /// Names that were tried, the first and the last.
        tried: String,
    },
    /// MSCCLPP_NVRTC names something that is no library.
    #[error("MSCCLPP_NVRTC names `{}`, which cannot be loaded: {reason}", path.display())]
    NotALibrary {
        /// The path.
        path: PathBuf,
        /// What the loader says.
        reason: String,
    },
    /// A library that lacks a function: too old, or something else.
    #[error("the run-time compiler has no function `{symbol}`; expected NVRTC 11.2 or later")]
    MissingSymbol {
        /// The function.
        symbol: &'static str,
    },
    /// A device that the compiler does not know.
    #[error(
        "NVRTC {version} supports compute capability {known}, found a device of {found}; install another version of \
         NVRTC"
    )]
    Architecture {
        /// Its version.
        version: String,
        /// The device's compute capability.
        found: String,
        /// The lowest and the highest that it knows.
        known: String,
    },
    /// A call to the compiler failed for another reason than the source.
    #[error("{call} failed: {text} ({code})")]
    Call {
        /// The compiler's function.
        call: &'static str,
        /// Its result.
        code: i32,
        /// What it says about it.
        text: String,
    },
    /// A source that does not compile.
    #[error("`{name}` does not compile for {target}:\n{log}")]
    Source {
        /// The source.
        name: String,
        /// For what it was compiled.
        target: String,
        /// The compiler's messages, each with file and line.
        log: String,
    },
    /// A device whose driver compiles nothing.
    #[error("this device has no run-time compiler")]
    Unsupported,
}
