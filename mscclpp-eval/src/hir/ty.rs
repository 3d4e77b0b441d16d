//! Types.

use super::AdtId;

/// A type as written, without references and lifetimes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TypeExpr {
    /// `_`, or nothing.
    Infer,
    /// An integer type.
    Int(IntTy),
    /// A type constructor with its arguments.
    TyCon(TyCon, Vec<TypeExpr>),
    /// `impl IntoIterator<Item = T>`.
    Each(Box<TypeExpr>),
}

/// The collections that collecting creates: one collection, or two for `unzip` and `partition`.
pub(crate) type Made = [Option<Collected>; 2];

/// A collection that is created from items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collected {
    /// `Option` or `Result` around it, if collecting stops at the first `None` or `Err`.
    pub(crate) stops: Option<TyCon>,
    /// The collection.
    pub(crate) into: TyCon,
}

/// Integer types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are Rust's")]
pub(crate) enum IntTy {
    I8,
    I16,
    #[default]
    I32,
    I64,
    Isize,
    U8,
    U16,
    U32,
    U64,
    Usize,
}

impl IntTy {
    /// All integer types, in the order of their discriminants.
    pub(crate) const ALL: [Self; 10] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::Isize,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Usize,
    ];

    /// Returns the name in Rust.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::Isize => "isize",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Usize => "usize",
        }
    }

    /// Returns the type with a name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// Returns the width in bits; `usize` and `isize` have 64, as on every host of a GPU.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::I8 | Self::U8 => 8,
            Self::I16 | Self::U16 => 16,
            Self::I32 | Self::U32 => 32,
            Self::I64 | Self::U64 | Self::Isize | Self::Usize => 64,
        }
    }

    /// Returns whether the type has negative values.
    pub(crate) const fn signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::Isize)
    }

    /// Returns the unsigned type of the same width.
    pub(crate) const fn unsigned(self) -> Self {
        match self {
            Self::I8 | Self::U8 => Self::U8,
            Self::I16 | Self::U16 => Self::U16,
            Self::I32 | Self::U32 => Self::U32,
            Self::I64 | Self::U64 => Self::U64,
            Self::Isize | Self::Usize => Self::Usize,
        }
    }

    /// Returns the signed type of the same width.
    pub(crate) const fn to_signed(self) -> Self {
        match self {
            Self::I8 | Self::U8 => Self::I8,
            Self::I16 | Self::U16 => Self::I16,
            Self::I32 | Self::U32 => Self::I32,
            Self::I64 | Self::U64 => Self::I64,
            Self::Isize | Self::Usize => Self::Isize,
        }
    }

    /// Returns the smallest value.
    pub(crate) const fn min(self) -> i128 {
        if self.signed() { -(1 << (self.bits() - 1)) } else { 0 }
    }

    /// Returns the largest value.
    pub(crate) const fn max(self) -> i128 {
        if self.signed() { (1 << (self.bits() - 1)) - 1 } else { (1 << self.bits()) - 1 }
    }

    /// Returns whether a value is in the range of this type.
    pub(crate) const fn holds(self, value: i128) -> bool {
        self.min() <= value && value <= self.max()
    }
}

/// Type constructors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TyCon {
    /// `()`
    Unit,
    /// `bool`
    Bool,
    /// `&str` and `String`: for messages only.
    Str,
    /// `std::cmp::Ordering`
    Ordering,
    /// A tuple of two or more.
    Tuple,
    /// `Vec`, `VecDeque` and slices.
    List,
    /// An array: equivalent to a list except for its default.
    Array,
    /// `BTreeMap`
    Map,
    /// `HashMap`: equivalent to `Map`, except that nothing may depend on its order.
    HashMap,
    /// `BTreeSet`
    Set,
    /// `HashSet`
    HashSet,
    /// `Option`
    Option,
    /// `Result`
    Result,
    /// `std::num::TryFromIntError`
    TryFromIntError,
    /// `std::cmp::Reverse`
    Reverse,
    /// Ranges with a start and an end.
    Range,
    /// `a..`
    RangeFrom,
    /// `..b` and `..=b`
    RangeTo,
    /// `..`
    RangeFull,
    /// Any iterator.
    Iter,
    /// An entry of a map.
    Entry,
    /// A closure, function or function pointer: parameters, then the result.
    Fn,
    /// A struct or enum of the user.
    Adt(AdtId),
    /// `Program`
    Program,
    /// A handle or enum of the authoring API, by name.
    Handle(&'static str),
}
