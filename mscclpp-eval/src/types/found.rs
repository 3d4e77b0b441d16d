//! The results of inference for evaluation.

use std::collections::BTreeMap;

use mscclpp_core::dsl::registry::Method;

use crate::hir::{FnId, IntTy, Made, NodeId, TypeExpr};
use crate::lang::Builtin;

/// The results of inference, by node.
#[derive(Debug, Default)]
pub(crate) struct Types {
    /// The integer type of an expression that has one.
    pub(super) ints: Vec<Option<IntTy>>,
    /// Target of a method call or field.
    pub(super) targets: Vec<Target>,
    /// The types whose default is requested.
    pub(super) defaults: BTreeMap<NodeId, TypeExpr>,
}

/// Target of a method call or field.
#[derive(Clone, Copy, Default)]
pub(crate) enum Target {
    /// Nothing: the node is something else.
    #[default]
    None,
    /// A method of the language, and for `collect` and similar methods what they create.
    Builtin(&'static Builtin, Made),
    /// A method of the authoring API.
    Dsl(&'static Method),
    /// `Program::pipeline`
    Pipeline,
    /// A method of the user.
    Function(FnId),
    /// `into` and `try_into`.
    Convert(Conversion),
    /// A field by number.
    Field(u32),
}

/// The conversion that `into` does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Conversion {
    /// None: the value does not change.
    Same,
    /// Wraps the value in a `Some`.
    Some,
    /// Converts to an integer of this type.
    Int(IntTy),
    /// Converts to an integer of this type, or an error.
    TryInt(IntTy),
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Builtin(builtin, _) => f.write_str(builtin.sig),
            Self::Dsl(method) => f.write_str(method.name),
            Self::Pipeline => f.write_str("pipeline"),
            Self::Function(id) => write!(f, "function {id}"),
            Self::Convert(conversion) => write!(f, "{conversion:?}"),
            Self::Field(index) => write!(f, "field {index}"),
        }
    }
}

impl Types {
    /// Returns the integer type of a node; `i32` if it has none.
    pub(crate) fn int(&self, id: NodeId) -> IntTy {
        self.ints.get(id as usize).copied().flatten().unwrap_or_default()
    }

    /// Returns what a method call or field refers to.
    pub(crate) fn target(&self, id: NodeId) -> Target {
        self.targets.get(id as usize).copied().unwrap_or_default()
    }

    /// Returns the type whose default a node requests.
    pub(crate) fn default(&self, id: NodeId) -> Option<&TypeExpr> {
        self.defaults.get(&id)
    }
}
