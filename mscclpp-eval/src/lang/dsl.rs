//! The authoring API's types and values, read from its registry.

use std::sync::Arc;

use mscclpp_core::dsl::registry;

use crate::hir::PathValue;

/// The enums of the authoring API.
const ENUMS: [&str; 3] = ["BufferKind", "BlockSync", "ReduceOp"];

/// Returns the name of a handle or enum.
pub(crate) fn handle(name: &str) -> Option<&'static str> {
    let types = registry::TYPES.iter().map(|ty| ty.name).filter(|name| *name != "Program");
    types.chain(ENUMS).find(|other| *other == name)
}

/// Returns whether a name is a marker in the type arguments of handles, which rustc checks.
pub(crate) fn is_marker(name: &str) -> bool {
    matches!(name, "Input" | "Output" | "Scratch" | "AnyBuffer" | "Memory" | "Port")
}

/// Returns a value of an enum.
pub(crate) fn constant(ty: &str, name: &str) -> Option<PathValue> {
    registry::constant(ty, name)?;
    let ty = ENUMS.into_iter().find(|other| *other == ty)?;
    Some(PathValue::Dsl(ty, Arc::from(name)))
}
