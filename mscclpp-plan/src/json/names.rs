//! The names of the format: each value is one of a short list of strings.

use super::context::{ReadState, quoted};
use super::value::Read;
use crate::OpKind;
use crate::diag::Code;
use crate::types::{BufferKind, ChannelKind, Protocol, ReduceOp};

macro_rules! names {
    ($($type:ty, $what:literal, $fallback:expr, $all:expr, $name:ident, $find:expr;)*) => { $(
        impl Read for $type {
            const WANT: &'static str = concat!("the name of ", $what);

            fn fallback() -> Self {
                $fallback
            }

            #[inline]
            fn from_str(name: &str, context: &mut ReadState<'_>) -> Option<Self> {
                let found: Option<Self> = $find(name);
                if found.is_none() {
                    let names: Vec<&str> = $all.iter().map(|one| one.$name()).collect();
                    unknown(name, $what, &names, context);
                }
                Some(found.unwrap_or($fallback))
            }
        }
    )* };
}

names! {
    BufferKind, "a buffer", Self::Scratch, Self::ALL, letter, Self::from_letter;
    ChannelKind, "a channel type", Self::Memory, Self::ALL, name, Self::from_name;
    ReduceOp, "a reduction", Self::Sum, Self::ALL, name, Self::from_name;
    Protocol, "a protocol", Self::Simple, [Self::Simple, Self::LL], name,
        |name| [Self::Simple, Self::LL].into_iter().find(|one| one.name() == name);
}

/// The name of an operation; `None` for an unknown one, which has been reported.
#[derive(Clone, Copy)]
pub(super) struct Name(pub(super) Option<OpKind>);

impl Read for Name {
    const WANT: &'static str = "the name of an operation";

    fn fallback() -> Self {
        Self(None)
    }

    #[inline]
    fn from_str(name: &str, context: &mut ReadState<'_>) -> Option<Self> {
        let found = OpKind::from_name(name);
        if found.is_none() {
            let names: Vec<&str> = OpKind::ALL.iter().map(|kind| kind.name()).collect();
            unknown(name, "an operation", &names, context);
        }
        Some(Self(found))
    }
}

/// Reports a name that is not on its list.
#[cold]
pub(super) fn unknown(name: &str, what: &str, names: &[&str], context: &mut ReadState<'_>) {
    let message = format!("{} is not a valid name of {what}", quoted(name));
    context.error_with_help(Code::UnknownName, message, Some(format!("use one of: {}", names.join(", "))));
}
