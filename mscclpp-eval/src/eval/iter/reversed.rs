//! Reverses iterators.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Iter, Shared, count};

impl Iter {
    /// Returns the same items in reverse; `None` where Rust cannot do it, or only by running closures at another time.
    pub(crate) fn reversed(self) -> Option<Self> {
        let flip = |inner: Shared| -> Option<Shared> {
            let inner = inner.try_borrow().ok()?.clone();
            Some(Rc::new(RefCell::new(inner.reversed()?)))
        };
        Some(match self {
            Self::Empty => Self::Empty,
            Self::List { items, at, end, back } => Self::List { items, at, end, back: !back },
            Self::Places { place, at, end, back } => Self::Places { place, at, end, back: !back },
            Self::Numbers { next, end: Some(end), step, top, back } => {
                Self::Numbers { next, end: Some(end), step, top, back: !back }
            }
            Self::Map { inner, f } => Self::Map { inner: flip(inner)?, f },
            Self::Filter { inner, f } => Self::Filter { inner: flip(inner)?, f },
            Self::FilterMap { inner, f } => Self::FilterMap { inner: flip(inner)?, f },
            Self::Enumerate { inner, count, back } => {
                self::count(&inner)?;
                Self::Enumerate { inner: flip(inner)?, count, back: !back }
            }
            Self::Chain { a: Some(a), b } => Self::Chain { a: Some(flip(b)?), b: flip(a)? },
            Self::Chain { a: None, b } => return flip(b)?.try_borrow().ok().map(|b| b.clone()),
            Self::Zip { a, b } => {
                let len = count(&a)?.min(count(&b)?);
                Self::Zip { a: flip(first(a, len)?)?, b: flip(first(b, len)?)? }
            }
            Self::Take { inner, left } => return first(inner, left)?.try_borrow().ok()?.clone().reversed(),
            Self::Skip { inner, left } => {
                let len = count(&inner)?.saturating_sub(left);
                Self::Take { inner: flip(inner)?, left: len }
            }
            Self::Repeat { value, left: Some(left) } => Self::Repeat { value, left: Some(left) },
            _ => return None,
        })
    }
}

/// Returns the first `len` items of a source that runs no closures.
fn first(inner: Shared, len: usize) -> Option<Shared> {
    let inner = inner.try_borrow().ok()?.clone();
    let cut = match inner {
        Iter::List { items, at, end, back } => {
            let len = len.min(end - at);
            if back {
                Iter::List { items, at: end - len, end, back }
            } else {
                Iter::List { items, at, end: at + len, back }
            }
        }
        Iter::Numbers { next, end: Some(end), step: 1, top, back } => {
            let len = i128::try_from(len).ok()?.min((end - next).max(0));
            let (next, end) = if back { (end - len, end) } else { (next, next + len) };
            Iter::Numbers { next, end: Some(end), step: 1, top, back }
        }
        // Other sources cannot be shortened: only one that is no longer than `len` is possible.
        other if other.len()? <= len => other,
        _ => return None,
    };
    Some(Rc::new(RefCell::new(cut)))
}
