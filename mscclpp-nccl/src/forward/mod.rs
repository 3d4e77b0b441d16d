//! Forwarding to a real NCCL.
//!
//! | module | contents |
//! |---|---|
//! | `library` | the library that `MSCCLPP_NCCL_LIB_PATH` names, and its functions |
//! | `rules` | which calls are forwarded: `MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION` |
//! | `nested` | the library's communicator that belongs to one of this library |
//! | `calls`, `windows` | calls, operators, registered memory and one-sided calls of such a communicator |
//! | `context` | the device of a thread |
//!
//! A library that cannot be loaded is an error of each communicator's creation, with the text.

mod calls;
mod context;
mod library;
mod nested;
mod rules;
mod windows;

use std::sync::OnceLock;

pub(crate) use self::calls::{Forwarded, Scalar, group};
pub(crate) use self::library::{Library, VARIABLE, call, dotted, library, usable};
pub(crate) use self::nested::Nested;
pub(crate) use self::rules::Rules;
pub(crate) use self::windows::PutSignal;
use crate::debug;

/// The variable that lists the calls that are forwarded.
pub(crate) const RULES_VARIABLE: &str = "MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION";

/// Reads the list of calls that are forwarded, and what is not valid in it.
pub(crate) fn read_rules() -> (Rules, Vec<String>) {
    let list = std::env::var(RULES_VARIABLE).unwrap_or_default();
    let (rules, mut warnings) = Rules::read(&list);
    if !rules.is_empty() && library().is_none() {
        warnings.push(format!("it is ignored, because {VARIABLE} names no library"));
    }
    (rules, warnings)
}

/// Returns which calls are forwarded. The environment is read once, and a warning printed for what is not valid in it.
pub(crate) fn rules() -> &'static Rules {
    static RULES: OnceLock<Rules> = OnceLock::new();
    RULES.get_or_init(|| {
        let (rules, warnings) = read_rules();
        warnings.iter().for_each(|warning| debug::warn(&format!("{RULES_VARIABLE}: {warning}")));
        if library().is_some() { rules } else { Rules::default() }
    })
}
