//! What inference hands to evaluation.

use std::collections::BTreeMap;

use mscclpp_core::dsl::registry::Method;

use crate::ast::{Con, FnId, IntTy, NodeId, TypeExpr};
use crate::lang::Builtin;

/// What inference has found, by node.
#[derive(Debug, Default)]
pub(crate) struct Types {
    /// The integer type of an expression that has one.
    pub(super) ints: Vec<Option<IntTy>>,
    /// What a method call or field means.
    pub(super) targets: Vec<Target>,
    /// The types whose default is wanted.
    pub(super) defaults: BTreeMap<NodeId, TypeExpr>,
}

/// What a method call or field means.
#[derive(Clone, Copy, Default)]
pub(crate) enum Target {
    /// Nothing: the node is something else.
    #[default]
    None,
    /// A method of the language, and for `collect` and its kin what they make.
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

/// What `into` does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Conversion {
    /// Nothing that can be told apart.
    Same,
    /// It wraps the value in a `Some`.
    Some,
    /// It makes an integer of this type.
    Int(IntTy),
    /// It makes an integer of this type, or an error.
    TryInt(IntTy),
}

/// What collecting makes: one collection, or two for `unzip` and `partition`.
pub(crate) type Made = [Option<Collected>; 2];

/// A collection that is made from items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collected {
    /// `Option` or `Result` around it, if collecting stops at the first `None` or `Err`.
    pub(crate) stops: Option<Con>,
    /// The collection.
    pub(crate) into: Con,
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
    /// The integer type of a node; `i32` where there is none to be had.
    pub(crate) fn int(&self, id: NodeId) -> IntTy {
        self.ints.get(id as usize).copied().flatten().unwrap_or_default()
    }

    /// What a method call or field means.
    pub(crate) fn target(&self, id: NodeId) -> Target {
        self.targets.get(id as usize).copied().unwrap_or_default()
    }

    /// The type whose default a node wants.
    pub(crate) fn default(&self, id: NodeId) -> Option<&TypeExpr> {
        self.defaults.get(&id)
    }
}
