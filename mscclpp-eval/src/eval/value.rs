//! Values. They are small and cheap to clone: large values are shared, and copied when they are changed while shared,
//! so that a clone is an independent value, as in Rust.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use mscclpp_core::dsl::registry as dsl;

use super::iter::Iter;
use super::place::Place;
use crate::hir::{AdtId, ClosureId, FnId, NodeId, PathFnId, Shape};

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// `()`
    Unit,
    /// A boolean.
    Bool(bool),
    /// An integer; inference knows its type.
    Int(i128),
    /// A string.
    Str(Rc<str>),
    /// `std::cmp::Ordering`
    Ordering(Ordering),
    /// A tuple.
    Tuple(Rc<Vec<Value>>),
    /// A `Vec`, array or slice.
    List(Rc<Vec<Value>>),
    /// A map.
    Map(Rc<BTreeMap<Value, Value>>),
    /// A set.
    Set(Rc<BTreeSet<Value>>),
    /// `None`
    None,
    /// `Some(…)`
    Some(Rc<Value>),
    /// `Ok(…)`
    Ok(Rc<Value>),
    /// `Err(…)`
    Err(Rc<Value>),
    /// `std::cmp::Reverse(…)`
    Reverse(Rc<Value>),
    /// `std::num::TryFromIntError`
    TryFromIntError,
    /// A struct or enum of the user.
    Adt(Rc<AdtValue>),
    /// A range.
    Range(Rc<Range>),
    /// An iterator, shared by the code that advances it.
    Iter(Rc<RefCell<Iter>>),
    /// An entry of a map.
    Entry(Rc<(Place, Value)>),
    /// A closure.
    Closure(Rc<Closure>),
    /// A function.
    Function(FnId),
    /// A function of the language, and the node that names it.
    PathFn(PathFnId, NodeId),
    /// The variant of a struct or enum as a function of its fields.
    Constructor(AdtId, u32),
    /// `&mut`
    Place(Rc<Place>),
    /// The content of a variable that is also referred to from elsewhere. Only found in slots.
    Cell(Rc<RefCell<Value>>),
    /// The program.
    Program,
    /// A handle or enum of the authoring API.
    Handle(Rc<dsl::Value>),
}

/// A value of a struct or enum.
#[derive(Clone, Debug)]
pub(crate) struct AdtValue {
    /// The name of its variant and of its fields.
    pub(crate) shape: Arc<Shape>,
    /// Its discriminant; 0 for a struct.
    pub(crate) discriminant: i128,
    /// Its fields in order of declaration.
    pub(crate) fields: Vec<Value>,
}

impl PartialEq for AdtValue {
    fn eq(&self, other: &Self) -> bool {
        self.discriminant == other.discriminant && self.fields == other.fields
    }
}

impl Eq for AdtValue {}

impl PartialOrd for AdtValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AdtValue {
    fn cmp(&self, other: &Self) -> Ordering {
        self.discriminant.cmp(&other.discriminant).then_with(|| self.fields.cmp(&other.fields))
    }
}

/// A range as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Its start, if it has one.
    pub(crate) start: Option<i128>,
    /// Its end, if it has one.
    pub(crate) end: Option<i128>,
    /// Whether the range includes its end.
    pub(crate) inclusive: bool,
    /// The largest number of its type.
    pub(crate) top: i128,
}

impl Range {
    /// Returns the number after the last one.
    pub(crate) fn stop(&self) -> Option<i128> {
        self.end.map(|end| end + i128::from(self.inclusive))
    }

    /// Returns how many numbers the range has, if it ends.
    pub(crate) fn count(&self) -> Option<i128> {
        Some((self.stop()? - self.start?).max(0))
    }
}

/// A closure with what it has captured.
#[derive(Debug)]
pub(crate) struct Closure {
    /// Its code.
    pub(crate) id: ClosureId,
    /// The variables it refers to, or its own copies of them.
    pub(crate) captures: Vec<Rc<RefCell<Value>>>,
}

impl Value {
    /// Creates a list.
    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(Rc::new(items))
    }

    /// Creates a tuple.
    pub(crate) fn tuple(items: Vec<Self>) -> Self {
        Self::Tuple(Rc::new(items))
    }

    /// Creates `Some(value)`.
    pub(crate) fn some(value: Self) -> Self {
        Self::Some(Rc::new(value))
    }

    /// Creates `Ok(value)`.
    pub(crate) fn ok(value: Self) -> Self {
        Self::Ok(Rc::new(value))
    }

    /// Creates `Err(value)`.
    pub(crate) fn err(value: Self) -> Self {
        Self::Err(Rc::new(value))
    }

    /// Creates an option.
    pub(crate) fn option(value: Option<Self>) -> Self {
        value.map_or(Self::None, Self::some)
    }

    /// Creates an iterator.
    pub(crate) fn iter(iter: Iter) -> Self {
        Self::Iter(Rc::new(RefCell::new(iter)))
    }

    /// Creates a handle of the authoring API.
    pub(crate) fn handle(value: dsl::Value) -> Self {
        Self::Handle(Rc::new(value))
    }

    /// Returns the value that a `&mut` refers to, and any other value unchanged.
    pub(crate) fn load(self) -> Self {
        match self {
            Self::Place(place) => place.get().load(),
            value => value,
        }
    }

    /// Returns a clone that shares no mutable state: iterators advance.
    pub(crate) fn deep_clone(&self) -> Self {
        match self {
            Self::Iter(iter) => iter.try_borrow().map_or(Self::Unit, |iter| Self::iter(iter.deep_clone())),
            Self::Tuple(items) if items.iter().any(Self::has_state) => {
                Self::tuple(items.iter().map(Self::deep_clone).collect())
            }
            Self::List(items) if items.first().is_some_and(Self::has_state) => {
                Self::list(items.iter().map(Self::deep_clone).collect())
            }
            Self::Some(value) if value.has_state() => Self::some(value.deep_clone()),
            Self::Ok(value) if value.has_state() => Self::ok(value.deep_clone()),
            Self::Err(value) if value.has_state() => Self::err(value.deep_clone()),
            Self::Adt(value) if value.fields.iter().any(Self::has_state) => {
                let fields = value.fields.iter().map(Self::deep_clone).collect();
                let shape = Arc::clone(&value.shape);
                Self::Adt(Rc::new(AdtValue { shape, discriminant: value.discriminant, fields }))
            }
            value => value.clone(),
        }
    }

    /// Returns whether the value contains an iterator. The items of a list have one type, so checking one of them
    /// suffices.
    fn has_state(&self) -> bool {
        match self {
            Self::Iter(_) => true,
            Self::Tuple(items) => items.iter().any(Self::has_state),
            Self::List(items) => items.first().is_some_and(Self::has_state),
            Self::Some(value) | Self::Ok(value) | Self::Err(value) => value.has_state(),
            Self::Adt(value) => value.fields.iter().any(Self::has_state),
            _ => false,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Unit => 0,
            Self::Bool(_) => 1,
            Self::Int(_) => 2,
            Self::Str(_) => 3,
            Self::Ordering(_) => 4,
            Self::Tuple(_) => 5,
            Self::List(_) => 6,
            Self::Map(_) => 7,
            Self::Set(_) => 8,
            Self::None => 9,
            Self::Some(_) => 10,
            Self::Range(_) => 11,
            Self::Handle(_) => 12,
            Self::Ok(_) => 13,
            Self::Err(_) => 14,
            _ => 15,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Handle(a), Self::Handle(b)) => a == b,
            (Self::Range(a), Self::Range(b)) => a == b,
            (Self::Place(_), _) | (_, Self::Place(_)) => self.clone().load() == other.clone().load(),
            (Self::Tuple(a), Self::Tuple(b)) | (Self::List(a), Self::List(b)) => a == b,
            (Self::Map(a), Self::Map(b)) => a == b,
            (Self::Set(a), Self::Set(b)) => a == b,
            (Self::Some(a), Self::Some(b)) | (Self::Ok(a), Self::Ok(b)) | (Self::Err(a), Self::Err(b)) => a == b,
            (Self::Adt(a), Self::Adt(b)) => a == b,
            _ => self.cmp(other) == Ordering::Equal,
        }
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order that Rust derives. Values without one are equal here; rustc refuses to compare them.
impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Str(a), Self::Str(b)) => a.cmp(b),
            (Self::Ordering(a), Self::Ordering(b)) => a.cmp(b),
            (Self::Tuple(a), Self::Tuple(b)) | (Self::List(a), Self::List(b)) => a.cmp(b),
            (Self::Map(a), Self::Map(b)) => a.cmp(b),
            (Self::Set(a), Self::Set(b)) => a.cmp(b),
            (Self::Some(a), Self::Some(b)) | (Self::Ok(a), Self::Ok(b)) | (Self::Err(a), Self::Err(b)) => a.cmp(b),
            (Self::Adt(a), Self::Adt(b)) => a.cmp(b),
            (Self::Reverse(a), Self::Reverse(b)) => b.cmp(a),
            (Self::Place(_), _) | (_, Self::Place(_)) => self.clone().load().cmp(&other.clone().load()),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}
