//! Structs and enums of the user.

use std::sync::Arc;

use super::{ConstId, FnId, TypeExpr};

/// The name of the function of `Default` in [`Adt::methods`]; an associated function may be named `default` as well.
pub(crate) const DEFAULT: &str = "Default::default";

/// A struct or enum.
#[derive(Debug)]
pub(crate) struct Adt {
    /// Its name.
    pub(crate) name: Arc<str>,
    /// Whether it is an enum.
    pub(crate) is_enum: bool,
    /// Its variants in order of declaration; a struct has one.
    pub(crate) variants: Vec<Variant>,
    /// Its methods and associated functions that are called somewhere.
    pub(crate) methods: Vec<(Arc<str>, FnId)>,
}

/// A variant of an enum, or the only one of a struct.
#[derive(Debug)]
pub(crate) struct Variant {
    /// Its name and fields.
    pub(crate) shape: Arc<Shape>,
    /// The types of its fields.
    pub(crate) types: Vec<TypeExpr>,
    /// Its discriminant, if it is written.
    pub(crate) discriminant: Option<ConstId>,
}

/// Name and fields of a variant.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Its name; that of the struct for a struct.
    pub(crate) name: Arc<str>,
    /// Its number within the enum.
    pub(crate) index: u32,
    /// Its fields.
    pub(crate) fields: Fields,
}

/// The fields of a variant.
#[derive(Debug)]
pub(crate) enum Fields {
    /// None: `Name`
    Unit,
    /// Numbered: `Name(a, b)`
    Tuple(usize),
    /// Named: `Name { a, b }`
    Named(Vec<Arc<str>>),
}

impl Fields {
    /// Returns the number of the field with a name; fields of tuples are named `0`, `1`, ….
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        match self {
            Self::Unit => None,
            Self::Tuple(len) => name.parse().ok().filter(|index| index < len),
            Self::Named(names) => names.iter().position(|other| **other == *name),
        }
    }
}
