//! Reasons why device code was not compiled.

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
        /// First and last of the names that were tried.
        tried: String,
    },
    /// `MSCCLPP_NVRTC` names a file that is no library.
    #[error("MSCCLPP_NVRTC names `{}`, which cannot be loaded: {reason}", path.display())]
    NotALibrary {
        /// The path.
        path: PathBuf,
        /// Error of the loader.
        reason: String,
    },
    /// A library that lacks a function: too old, or not NVRTC.
    #[error("the run-time compiler has no function `{symbol}`; expected NVRTC 11.2 or later")]
    MissingSymbol {
        /// The function.
        symbol: &'static str,
    },
    /// A device that the compiler does not support.
    #[error(
        "NVRTC {version} supports compute capability {known}, found a device of {found}; install another version of \
         NVRTC"
    )]
    Architecture {
        /// The compiler's version.
        version: String,
        /// The device's compute capability.
        found: String,
        /// The lowest and the highest compute capability that it supports.
        known: String,
    },
    /// A call to the compiler failed for another reason than the source.
    #[error("{call} failed: {text} ({code})")]
    Call {
        /// The compiler's function.
        call: &'static str,
        /// Its result.
        code: i32,
        /// The compiler's description of the result.
        text: String,
    },
    /// A source that does not compile.
    #[error("`{name}` does not compile for {target}:\n{log}")]
    Source {
        /// The source.
        name: String,
        /// The target of the compilation.
        target: String,
        /// The compiler's messages, each with file and line.
        log: String,
    },
    /// A device without a run-time compiler.
    #[error("this device has no run-time compiler")]
    Unsupported,
}
