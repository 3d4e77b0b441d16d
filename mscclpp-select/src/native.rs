//! Algorithms that are Rust functions instead of plans.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::request::Request;
#[cfg(feature = "process")]
use mscclpp_bootstrap::Bootstrap;

/// Arguments of a native algorithm: one call on one rank.
#[derive(Debug)]
pub struct Call<'a> {
    /// The request, which is the same on all ranks.
    pub request: &'a Request,
    /// Bootstrap handle, for messages between the ranks.
    #[cfg(feature = "process")]
    pub bootstrap: &'a Bootstrap,
    /// This rank's buffers.
    pub buffers: Buffers<'a>,
}

/// Buffers of a call: elements of the request's type, in bytes.
#[derive(Debug)]
pub enum Buffers<'a> {
    /// Out of place.
    OutOfPlace {
        /// The rank's input.
        input: &'a [u8],
        /// The rank's output.
        output: &'a mut [u8],
    },
    /// In place: the larger of input and output. In an all-gather the input is this rank's part, in a reduce-scatter
    /// the output is.
    InPlace(&'a mut [u8]),
}

/// Function of a native algorithm. It is called on all ranks, and returns when this rank has finished.
#[derive(Clone)]
pub(super) struct Function(Arc<Body>);

type Body = dyn Fn(Call<'_>) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync;

impl Function {
    pub(super) fn new(
        body: impl Fn(Call<'_>) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(body))
    }

    pub(super) fn call(&self, call: Call<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
        (self.0)(call)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}

/// Performs any collective with a single rank: the output is the input.
pub(super) fn alone(call: Call<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
    match call.buffers {
        Buffers::InPlace(_) => Ok(()),
        Buffers::OutOfPlace { input, output } if input.len() == output.len() => {
            output.copy_from_slice(input);
            Ok(())
        }
        Buffers::OutOfPlace { input, output } => Err(format!(
            "expected equal sizes, found an input of {} bytes and an output of {} bytes",
            input.len(),
            output.len()
        )
        .into()),
    }
}
