//! Codes of the area `evaluate`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    BadAttribute = "M0101" "bad-attribute": "the arguments of `#[collective]` are the documented ones",
        "See `docs/subset.md` for the arguments.";
    NotInSubset = "M0102" "not-in-subset": "a collective is written in the subset of Rust that is evaluated at compile time",
        "See `docs/subset.md` for what is evaluated.";
}
