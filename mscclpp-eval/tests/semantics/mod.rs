//! Snippets that run natively and evaluated, and must agree: on the value, or on panicking.
#![allow(clippy::undocumented_unsafe_blocks, reason = "the one there is refused")]
#![allow(
    clippy::all,
    arithmetic_overflow,
    unconditional_panic,
    unused,
    unconditional_recursion,
    dead_code,
    non_local_definitions,
    reason = "the snippets try what people write, not what they should"
)]

use mscclpp_core::diag::Code;
use mscclpp_eval::probe;

fn source(name: &str, ty: &str, body: &str) -> String {
    format!("fn {name}() -> {ty} {body}")
}

/// Tests that a snippet's value is the same both ways.
macro_rules! values {
    ($(fn $name:ident() -> $ty:ty $body:block)*) => { $(
        #[test]
        fn $name() {
            fn native() -> $ty $body
            let source = crate::semantics::source(stringify!($name), stringify!($ty), stringify!($body));
            let evaluated = mscclpp_eval::probe::value(&source, stringify!($name)).unwrap_or_else(|error| panic!("{error}\n{source}"));
            assert_eq!(evaluated, format!("{:?}", native()), "{source}");
        }
    )* };
}

/// Tests that a snippet's value is shown the same both ways; its type may be declared within it.
macro_rules! shown {
    ($(fn $name:ident() $body:block)*) => { $(
        #[test]
        fn $name() {
            fn native() -> impl std::fmt::Debug $body
            let source = crate::semantics::source(stringify!($name), "_", stringify!($body));
            let evaluated = mscclpp_eval::probe::value(&source, stringify!($name)).unwrap_or_else(|error| panic!("{error}\n{source}"));
            assert_eq!(evaluated, format!("{:?}", native()), "{source}");
        }
    )* };
}

/// Tests that a snippet panics natively and is refused with a code.
macro_rules! panics {
    ($(fn $name:ident() -> $ty:ty $body:block => $code:ident)*) => { $(
        #[test]
        fn $name() {
            fn native() -> $ty $body
            std::panic::catch_unwind(native).expect_err("native code panics");
            let source = crate::semantics::source(stringify!($name), stringify!($ty), stringify!($body));
            let error = mscclpp_eval::probe::value(&source, stringify!($name)).expect_err("evaluation fails");
            let codes: Vec<mscclpp_core::diag::Code> = error.iter().map(|diagnostic| diagnostic.code).collect();
            assert_eq!(codes, [mscclpp_core::diag::Code::$code], "{error}\n{source}");
        }
    )* };
}

/// Tests that a snippet, which rustc takes, is refused with a code.
macro_rules! refused {
    ($(fn $name:ident() -> $ty:ty $body:block => $code:ident)*) => { $(
        #[test]
        fn $name() {
            fn native() -> $ty $body
            let _ = native;
            let source = crate::semantics::source(stringify!($name), stringify!($ty), stringify!($body));
            let error = mscclpp_eval::probe::value(&source, stringify!($name)).expect_err("it is refused");
            assert!(error.iter().all(|diagnostic| diagnostic.code == mscclpp_core::diag::Code::$code), "{error}\n{source}");
        }
    )* };
}

mod adts;
mod control;
mod defaults;
mod functions;
mod iterators;
mod lists;
mod macros;
mod maps;
mod mixed;
mod numbers;
mod options;
mod panics;
mod refused;
mod results;
mod standard;
mod variables;
