//! The authoring API's types and values. Everything here is read from its registry.

use std::sync::Arc;

use mscclpp_core::dsl::registry;

use crate::ast::PathValue;

/// The enums of the authoring API.
const ENUMS: [&str; 3] = ["BufferKind", "BlockSync", "ReduceOp"];

/// The name of a handle or enum.
pub(crate) fn handle(name: &str) -> Option<&'static str> {
    let types = registry::TYPES.iter().map(|ty| ty.name).filter(|name| *name != "Program");
    types.chain(ENUMS).find(|other| *other == name)
}

/// Whether a name is a marker in the type arguments of handles, which rustc checks.
pub(crate) fn is_marker(name: &str) -> bool {
    matches!(name, "Input" | "Output" | "Scratch" | "AnyBuffer" | "Memory" | "Port")
}

/// An enum's value.
pub(crate) fn constant(ty: &str, name: &str) -> Option<PathValue> {
    registry::constant(ty, name)?;
    let ty = ENUMS.into_iter().find(|other| *other == ty)?;
    Some(PathValue::Dsl(ty, Arc::from(name)))
}
