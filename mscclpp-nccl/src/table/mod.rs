//! The functions of NCCL: the one table, by subject, from which the exported symbols and [`FUNCTIONS`] are made. Each has the
//! version of NCCL that introduced it, and how it is served.

mod calls;
mod communicators;
mod device_interface;
mod memory;
mod parameters;

use crate::abi;
use crate::entry::{Failure, Result};
use crate::forward;

/// How a function is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// By this library.
    Ours,
    /// By the NCCL that `MSCCLPP_NCCL_LIB_PATH` names, if it has the function; otherwise as [`Loud`](Self::Loud).
    Forwarded,
    /// Not at all: it returns an error with a text that says so and what to do.
    Loud,
}

/// A function of NCCL.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Function {
    /// Its name; with a `p` before it, that of its twin for profilers.
    pub name: &'static str,
    /// The version that introduced it, times 100: 2.18 is 218.
    pub since: u32,
    /// How it is served.
    pub class: Class,
    /// Whether it has a twin.
    pub has_twin: bool,
}

/// Defines functions. After `=>`: the function returns a code, and the body is a [`Result`].
macro_rules! functions {
    ($($since:literal $class:ident $name:ident $twin:ident ($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? $(=> $checked:block)? $($body:block)?)*) => {
        /// The functions of this subject.
        pub(super) const FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            since: $since,
            class: Class::$class,
            has_twin: functions!(@is_twin $twin),
        },)*];
        $(functions!(@both $name $twin ($($argument: $type),*) $(-> $output)? $(=> $checked)? $($body)?);)*
    };
    (@is_twin none) => { false };
    (@is_twin $twin:ident) => { true };
    (@both $name:ident none $($rest:tt)*) => { functions!(@one $name $name $($rest)*); };
    (@both $name:ident $twin:ident $($rest:tt)*) => {
        functions!(@one $name $name $($rest)*);
        functions!(@one $name $twin $($rest)*);
    };
    (@one $name:ident $symbol:ident ($($argument:ident: $type:ty),*) => $checked:block) => {
        /// # Safety
        /// As NCCL documents the function: pointers must be null where it allows that, or else valid for its use of them.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($argument: $type),*) -> c_int {
            entry::call(stringify!($name), || -> Result<()> { $checked })
        }
    };
    (@one $name:ident $symbol:ident ($($argument:ident: $type:ty),*) $(-> $output:ty)? $body:block) => {
        /// # Safety
        /// As NCCL documents the function.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($argument: $type),*) $(-> $output)? $body
    };
}

use functions;

/// The functions by subject.
const SUBJECTS: [&[Function]; 5] =
    [communicators::FUNCTIONS, memory::FUNCTIONS, calls::FUNCTIONS, parameters::FUNCTIONS, device_interface::FUNCTIONS];

/// All functions of the header of NCCL 2.32.3.
pub const FUNCTIONS: &[Function] = &joined::<{ count() }>();

const fn count() -> usize {
    let (mut count, mut subject) = (0, 0);
    while subject < SUBJECTS.len() {
        count += SUBJECTS[subject].len();
        subject += 1;
    }
    count
}

const fn joined<const COUNT: usize>() -> [Function; COUNT] {
    let mut all = [SUBJECTS[0][0]; COUNT];
    let (mut at, mut subject) = (0, 0);
    while subject < SUBJECTS.len() {
        let mut number = 0;
        while number < SUBJECTS[subject].len() {
            all[at] = SUBJECTS[subject][number];
            (at, number) = (at + 1, number + 1);
        }
        subject += 1;
    }
    all
}

/// The failure of a function that is not served.
fn loud(name: &str, instead: &str) -> Failure {
    let (major, minor, patch) = (abi::HEADER / 10_000, abi::HEADER / 100 % 100, abi::HEADER % 100);
    Failure::usage(format!("{name} of NCCL {major}.{minor}.{patch} is not served by mscclpp-nccl: {instead}"))
}

/// Returns the library for a function that only the real NCCL serves.
///
/// # Errors
/// As [`loud`] if no NCCL is named; why it cannot be loaded.
fn passed(name: &str, instead: &str) -> Result<&'static forward::Library> {
    match forward::library() {
        None => Err(loud(name, &format!("name a NCCL with {}; without it, {instead}", forward::VARIABLE))),
        Some(library) => library.as_ref().map_err(Clone::clone),
    }
}
