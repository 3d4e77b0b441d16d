//! Iterators. They are lazy, so that closures run in the same order as natively.

mod advance;
mod reversed;

use std::cell::RefCell;
use std::rc::Rc;

use super::place::Place;
use super::value::Value;

/// A shared iterator.
pub(crate) type Shared = Rc<RefCell<Iter>>;

/// The state of an iterator.
#[derive(Clone, Debug)]
pub(crate) enum Iter {
    /// Exhausted.
    Empty,
    /// The elements `at..end` of a list, from either end.
    List {
        items: Rc<Vec<Value>>,
        at: usize,
        end: usize,
        back: bool,
    },
    /// The elements as `&mut`.
    Places {
        place: Place,
        at: usize,
        end: usize,
        back: bool,
    },
    /// The keys of a map, each with the place of its value: `iter_mut`, and `values_mut` without the keys.
    MapPlaces {
        place: Place,
        keys: Rc<Vec<Value>>,
        at: usize,
        with_keys: bool,
    },
    /// Numbers. Without an end they continue until they would leave their type, after `top`.
    Numbers {
        next: i128,
        end: Option<i128>,
        step: i128,
        top: i128,
        back: bool,
    },
    /// One value, repeated forever or `left` times.
    Repeat {
        value: Value,
        left: Option<usize>,
    },
    Successors {
        next: Option<Value>,
        f: Value,
    },
    /// What a function returns in successive calls: the items themselves, or until it returns `None`.
    Calls {
        f: Value,
        forever: bool,
    },
    Map {
        inner: Shared,
        f: Value,
    },
    Filter {
        inner: Shared,
        f: Value,
    },
    FilterMap {
        inner: Shared,
        f: Value,
    },
    FlatMap {
        inner: Shared,
        f: Option<Value>,
        current: Option<Shared>,
    },
    /// With numbers counted up, or in reverse, down from the number of remaining items.
    Enumerate {
        inner: Shared,
        count: usize,
        back: bool,
    },
    Zip {
        a: Shared,
        b: Shared,
    },
    Chain {
        a: Option<Shared>,
        b: Shared,
    },
    Take {
        inner: Shared,
        left: usize,
    },
    Skip {
        inner: Shared,
        left: usize,
    },
    StepBy {
        inner: Shared,
        step: usize,
        first: bool,
    },
    TakeWhile {
        inner: Shared,
        f: Value,
        done: bool,
    },
    SkipWhile {
        inner: Shared,
        f: Value,
        started: bool,
    },
    MapWhile {
        inner: Shared,
        f: Value,
    },
    Scan {
        inner: Shared,
        state: Place,
        f: Value,
    },
    Cycle {
        original: Box<Iter>,
        current: Shared,
    },
    Peekable {
        inner: Shared,
        peeked: Option<Option<Value>>,
    },
    /// Windows (step 1) or chunks (step `size`) of a list.
    Parts {
        items: Rc<Vec<Value>>,
        at: usize,
        size: usize,
        step: usize,
        exact: bool,
    },
}

impl Iter {
    /// Returns an iterator over all elements of a list.
    pub(crate) fn over(items: Rc<Vec<Value>>) -> Self {
        let end = items.len();
        Self::List { items, at: 0, end, back: false }
    }

    /// Returns a copy that advances independently.
    pub(crate) fn deep_clone(&self) -> Self {
        let copy = |inner: &Shared| {
            let inner = inner.try_borrow().map_or(Self::Empty, |inner| inner.deep_clone());
            Rc::new(RefCell::new(inner))
        };
        let mut clone = self.clone();
        match &mut clone {
            Self::Map { inner, .. }
            | Self::Filter { inner, .. }
            | Self::FilterMap { inner, .. }
            | Self::Enumerate { inner, .. }
            | Self::Take { inner, .. }
            | Self::Skip { inner, .. }
            | Self::StepBy { inner, .. }
            | Self::TakeWhile { inner, .. }
            | Self::SkipWhile { inner, .. }
            | Self::MapWhile { inner, .. }
            | Self::Peekable { inner, .. } => *inner = copy(inner),
            Self::Scan { inner, state, .. } => {
                *inner = copy(inner);
                *state = Place::of_value(state.get());
            }
            Self::FlatMap { inner, current, .. } => {
                *inner = copy(inner);
                *current = current.as_ref().map(copy);
            }
            Self::Zip { a, b } => (*a, *b) = (copy(a), copy(b)),
            Self::Chain { a, b } => (*a, *b) = (a.as_ref().map(copy), copy(b)),
            Self::Cycle { current, .. } => *current = copy(current),
            _ => {}
        }
        clone
    }

    /// Returns the number of remaining items, if it is known without running anything.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Self::Empty => Some(0),
            Self::List { at, end, .. } | Self::Places { at, end, .. } => Some(end - at),
            Self::MapPlaces { keys, at, .. } => Some(keys.len() - at),
            Self::Numbers { next, end, step, .. } => {
                let span = ((*end)? - next).max(0);
                usize::try_from((span + step - 1) / step).ok()
            }
            Self::Repeat { left, .. } => *left,
            Self::Map { inner, .. } | Self::Enumerate { inner, .. } => count(inner),
            Self::Zip { a, b } => Some(count(a)?.min(count(b)?)),
            Self::Chain { a: None, b } => count(b),
            Self::Chain { a: Some(a), b } => count(a)?.checked_add(count(b)?),
            Self::Take { inner, left } => Some(count(inner)?.min(*left)),
            Self::Skip { inner, left } => Some(count(inner)?.saturating_sub(*left)),
            Self::StepBy { inner, step, first: true } => Some(count(inner)?.div_ceil(*step)),
            Self::StepBy { inner, step, first: false } => Some(count(inner)? / step),
            Self::Peekable { inner, peeked: None } => count(inner),
            Self::Peekable { inner, peeked: Some(Some(_)) } => Some(count(inner)? + 1),
            Self::Peekable { peeked: Some(None), .. } => Some(0),
            Self::Parts { items, at, size, step, exact } => {
                let left = items.len().saturating_sub(*at);
                Some(match (step, exact) {
                    (1, true) => (left + 1).saturating_sub(*size),
                    (_, true) => left / size,
                    (_, false) => left.div_ceil(*size),
                })
            }
            _ => None,
        }
    }
}

/// Returns [`Iter::len`] of a shared iterator.
fn count(inner: &Shared) -> Option<usize> {
    inner.try_borrow().ok()?.len()
}

/// Returns the content of an option.
pub(crate) fn unwrapped(value: Value) -> Option<Value> {
    match value {
        Value::Some(value) => Some((*value).clone()),
        _ => None,
    }
}
