//! The part of the language and its standard library in the subset: one table per type. The tables decide what is
//! accepted, type it and run it, and the page of what is evaluated is generated from them.

pub(crate) mod dsl;
mod fold;
mod int;
mod iter;
mod list;
mod map;
mod option;
mod paths;
mod result;
mod sort;

use crate::eval::place::Place;
use crate::eval::value::Value;
use crate::eval::{Eval, Interpreter};
use crate::hir::{IntTy, Made, NodeId, PathValue, SpanId, TyCon};

pub(crate) use paths::{PATHS, path_fn};

/// The methods of a type.
pub(crate) struct Table {
    /// The type, as named in signatures.
    pub(crate) header: &'static str,
    /// The type in Rust.
    pub(crate) about: &'static str,
    /// Its methods.
    pub(crate) methods: &'static [Builtin],
}

/// A method of the language.
pub(crate) struct Builtin {
    /// Its signature without the receiver, in the terms of [`types::sig`](crate::types::sig).
    pub(crate) sig: &'static str,
    /// How it takes its receiver.
    pub(crate) takes: Takes,
    /// The function that evaluates it.
    pub(crate) run: Run,
}

/// How a method takes its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// By value or `&`.
    Value,
    /// By `&mut`.
    Place,
    /// An iterator by `&mut`; a range passed that way would be a place.
    Advanced,
}

/// The function that evaluates a method.
pub(crate) type Run = fn(&mut Interpreter<'_>, &mut Call) -> Eval;

/// A call of a method or function of the language.
pub(crate) struct Call {
    /// The receiver, if it is taken by value.
    pub(crate) receiver: Value,
    /// The receiver, if it is taken by `&mut`.
    pub(crate) place: Place,
    /// Its arguments.
    pub(crate) args: Vec<Value>,
    /// The receiver's integer type.
    pub(crate) int: IntTy,
    /// The result's integer type.
    pub(crate) result: IntTy,
    /// The collections that it collects into.
    pub(crate) made: Made,
    /// The node of the call, or the node that names the called function.
    pub(crate) node: NodeId,
    /// Its position.
    pub(crate) tok: SpanId,
}

impl Call {
    /// Returns the next argument.
    pub(crate) fn arg(&mut self) -> Value {
        if self.args.is_empty() { Value::Unit } else { self.args.remove(0) }
    }

    /// Returns the next argument, an integer.
    pub(crate) fn int(&mut self, vm: &mut Interpreter<'_>) -> Eval<i128> {
        match self.arg().load() {
            Value::Int(value) => Ok(value),
            _ => Err(vm.ill_typed(self.tok)),
        }
    }

    /// Returns the next argument, a `usize`.
    pub(crate) fn usize(&mut self, vm: &mut Interpreter<'_>) -> Eval<usize> {
        let value = self.int(vm)?;
        usize::try_from(value).map_err(|_| vm.ill_typed(self.tok))
    }
}

impl Builtin {
    /// Returns the number of its parameters after the receiver.
    pub(crate) fn num_params(&self) -> usize {
        num_params(self.sig)
    }
}

/// Returns the number of parameters of a signature.
fn num_params(sig: &str) -> usize {
    let open = sig.find('(').map_or(sig.len(), |open| open + 1);
    let (mut depth, mut params, mut empty) = (0_i32, 0, true);
    for char in sig[open..].chars() {
        match char {
            ')' if depth == 0 => break,
            '(' | '<' => depth += 1,
            // The arrow of a function's result is not a bracket.
            ')' => depth -= 1,
            '>' => depth = (depth - 1).max(0),
            ',' if depth == 0 => params += 1,
            _ => {}
        }
        empty = false;
    }
    if empty { 0 } else { params + 1 }
}

impl Table {
    /// Returns the method with a name.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Builtin> {
        let named = |builtin: &&Builtin| builtin.sig.strip_prefix(name).is_some_and(|rest| rest.starts_with('('));
        self.methods.iter().find(named)
    }
}

/// Defines a table: signature, how the receiver is taken, and the function.
macro_rules! methods {
    ($($sig:literal $takes:ident => $run:expr;)*) => {
        &[$($crate::lang::Builtin { sig: $sig, takes: $crate::lang::Takes::$takes, run: $run }),*]
    };
}
use methods;

/// All tables, in the order of the page.
pub(crate) const TABLES: &[&Table] = &[
    &int::INT,
    &int::BOOL,
    &option::OPTION,
    &result::RESULT,
    &option::ORDERING,
    &list::LIST,
    &iter::RANGE,
    &iter::ITER,
    &map::MAP,
    &map::HASH_MAP,
    &map::ENTRY,
    &map::SET,
    &map::HASH_SET,
    &int::STR,
    &option::ANY,
];

/// Returns the tables whose methods integers have, in the order of lookup.
pub(crate) fn tables_of_integers() -> &'static [&'static Table] {
    &[&int::INT, &option::ANY]
}

/// Returns the tables whose methods another type has, in the order of lookup.
pub(crate) fn tables(con: TyCon) -> &'static [&'static Table] {
    match con {
        TyCon::Bool => &[&int::BOOL, &option::ANY],
        TyCon::Option => &[&option::OPTION, &option::ANY],
        TyCon::Result => &[&result::RESULT, &option::ANY],
        TyCon::Ordering => &[&option::ORDERING, &option::ANY],
        TyCon::List | TyCon::Array => &[&list::LIST, &option::ANY],
        TyCon::Range => &[&iter::RANGE, &option::CLONE, &iter::ITER],
        TyCon::RangeFrom => &[&option::CLONE, &iter::ITER],
        TyCon::Iter => &[&iter::ITER, &option::CLONE],
        TyCon::Map => &[&map::MAP, &option::ANY],
        TyCon::HashMap => &[&map::HASH_MAP, &option::CLONE],
        TyCon::Entry => &[&map::ENTRY],
        TyCon::Set => &[&map::SET, &option::ANY],
        TyCon::HashSet => &[&map::HASH_SET, &option::CLONE],
        TyCon::Str => &[&int::STR, &option::ANY],
        TyCon::Fn | TyCon::RangeTo | TyCon::RangeFull | TyCon::Handle(_) => &[&option::CLONE],
        TyCon::Tuple | TyCon::Adt(_) | TyCon::Reverse | TyCon::TryFromIntError | TyCon::Unit => &[&option::ANY],
        TyCon::Program => &[],
    }
}

/// Returns the method that a path of two segments names; `Self` has the methods of every value.
pub(crate) fn method_of(ty: &str, name: &str) -> Option<&'static Builtin> {
    let table = match ty {
        "bool" => &int::BOOL,
        "str" | "String" => &int::STR,
        "Option" => &option::OPTION,
        "Result" => &result::RESULT,
        "Ordering" => &option::ORDERING,
        "Vec" | "VecDeque" => &list::LIST,
        "BTreeMap" => &map::MAP,
        "HashMap" => &map::HASH_MAP,
        "BTreeSet" => &map::SET,
        "HashSet" => &map::HASH_SET,
        "Iterator" | "IntoIterator" => return iter::ITER.find(name),
        "Clone" => return option::CLONE.find(name),
        "Self" | "Ord" | "PartialEq" | "PartialOrd" | "ToString" => return option::ANY.find(name),
        _ if IntTy::from_name(ty).is_some() => &int::INT,
        _ => return None,
    };
    table.find(name).or_else(|| option::ANY.find(name))
}

/// Returns whether a trait of this name may be in the path of a method.
pub(crate) fn is_trait(name: &str) -> bool {
    matches!(name, "Iterator" | "IntoIterator" | "Clone" | "Ord" | "PartialEq" | "PartialOrd" | "ToString")
}

/// Returns whether the evaluator has a type of this name.
pub(crate) fn has_type(name: &str) -> bool {
    const TYPES: [&str; 19] = [
        "Vec",
        "VecDeque",
        "BTreeMap",
        "HashMap",
        "BTreeSet",
        "HashSet",
        "Option",
        "Result",
        "String",
        "Ordering",
        "Range",
        "RangeInclusive",
        "Program",
        "Ranks",
        "Box",
        "Rc",
        "Arc",
        "Reverse",
        "TryFromIntError",
    ];
    TYPES.contains(&name) || IntTy::from_name(name).is_some() || dsl::handle(name).is_some()
}

/// Returns the value of a path of two segments.
pub(crate) fn path_value(ty: &str, name: &str) -> Option<PathValue> {
    if let Some(int) = IntTy::from_name(ty) {
        return match name {
            "MIN" => Some(PathValue::Int(int, int.min())),
            "MAX" => Some(PathValue::Int(int, int.max())),
            "BITS" => Some(PathValue::Bits(int)),
            _ => None,
        };
    }
    match (ty, name) {
        ("Ordering", "Less") => Some(PathValue::Ordering(-1)),
        ("Ordering", "Equal") => Some(PathValue::Ordering(0)),
        ("Ordering", "Greater") => Some(PathValue::Ordering(1)),
        ("Option", "None") => Some(PathValue::None),
        _ => dsl::constant(ty, name),
    }
}
