//! Places: what `&mut`, assignments and mutating methods refer to.

use std::cell::RefCell;
use std::rc::Rc;

use smallvec::SmallVec;

use super::value::Value;

/// A place: a variable, and the path from it to a part of its value.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    cell: Rc<RefCell<Value>>,
    path: SmallVec<[Projection; 2]>,
}

/// A step from a value to a part of it.
#[derive(Clone, Debug)]
pub(crate) enum Projection {
    /// A field of a tuple, struct or variant.
    Field(u32),
    /// An element of a list.
    Index(usize),
    /// A part of a list: start and length.
    Slice(usize, usize),
    /// The content of a `Some`, `Ok` or `Err`.
    Payload,
    /// The value of a key.
    Key(Value),
}

impl Place {
    /// Returns the place of a whole variable.
    pub(crate) fn of_cell(cell: Rc<RefCell<Value>>) -> Self {
        Self { cell, path: SmallVec::new() }
    }

    /// Returns a place for a value that has none.
    pub(crate) fn of_value(value: Value) -> Self {
        Self::of_cell(Rc::new(RefCell::new(value)))
    }

    /// Returns a part of this place.
    pub(crate) fn part(&self, step: Projection) -> Self {
        let mut path = self.path.clone();
        match (path.last(), &step) {
            (Some(Projection::Slice(start, _)), Projection::Index(index)) => {
                let index = start + index;
                path.pop();
                path.push(Projection::Index(index));
            }
            (Some(Projection::Slice(start, _)), Projection::Slice(inner, len)) => {
                let slice = Projection::Slice(start + inner, *len);
                path.pop();
                path.push(slice);
            }
            _ => path.push(step),
        }
        Self { cell: Rc::clone(&self.cell), path }
    }

    /// Returns the value at the place; `()` if there is none: code that reaches this does not pass the borrow checker.
    pub(crate) fn get(&self) -> Value {
        let mut value = match self.cell.try_borrow() {
            Ok(value) => value.clone(),
            Err(_) => return Value::Unit,
        };
        for step in &self.path {
            value = match (step, value) {
                (Projection::Field(index), Value::Tuple(items)) => part(&items, *index as usize),
                (Projection::Field(index), Value::Adt(value)) => part(&value.fields, *index as usize),
                (Projection::Field(0), Value::Reverse(inner)) => (*inner).clone(),
                (Projection::Index(index), Value::List(items)) => part(&items, *index),
                (Projection::Slice(start, len), Value::List(items)) => {
                    let items = items.get(*start..start.saturating_add(*len)).unwrap_or_default();
                    Value::list(items.to_vec())
                }
                (Projection::Payload, Value::Some(inner) | Value::Ok(inner) | Value::Err(inner)) => (*inner).clone(),
                (Projection::Key(key), Value::Map(map)) => map.get(key).cloned().unwrap_or(Value::Unit),
                _ => Value::Unit,
            };
        }
        value
    }

    /// Returns the place that this one finally refers to: itself, unless it holds a `&mut`.
    pub(crate) fn follow(self) -> Self {
        let mut place = self;
        while let Value::Place(next) = place.get() {
            place = (*next).clone();
        }
        place
    }

    /// Changes the value at the place. `copied` counts the elements that had to be copied because they were shared.
    pub(crate) fn with<R>(&self, copied: &mut usize, change: impl FnOnce(&mut Value) -> R) -> Option<R> {
        let mut value = self.cell.try_borrow_mut().ok()?;
        walk(&mut value, &self.path, copied, change)
    }
}

fn part(items: &[Value], index: usize) -> Value {
    items.get(index).cloned().unwrap_or(Value::Unit)
}

fn walk<R>(
    value: &mut Value,
    path: &[Projection],
    copied: &mut usize,
    change: impl FnOnce(&mut Value) -> R,
) -> Option<R> {
    let Some((step, rest)) = path.split_first() else { return Some(change(value)) };
    match (step, value) {
        (Projection::Field(index), Value::Tuple(items)) => {
            walk(unshared(items, copied).get_mut(*index as usize)?, rest, copied, change)
        }
        (Projection::Field(index), Value::Adt(value)) => {
            walk(Rc::make_mut(value).fields.get_mut(*index as usize)?, rest, copied, change)
        }
        (Projection::Field(0), Value::Reverse(inner)) => walk(Rc::make_mut(inner), rest, copied, change),
        (Projection::Index(index), Value::List(items)) => {
            walk(unshared(items, copied).get_mut(*index)?, rest, copied, change)
        }
        (Projection::Slice(start, len), Value::List(items)) => {
            let items = unshared(items, copied).get_mut(*start..start.checked_add(*len)?)?;
            let mut slice = Value::list(items.to_vec());
            *copied += items.len();
            let result = walk(&mut slice, rest, copied, change)?;
            if let Value::List(slice) = slice {
                items.iter_mut().zip(slice.iter()).for_each(|(item, new)| item.clone_from(new));
            }
            Some(result)
        }
        (Projection::Payload, Value::Some(inner) | Value::Ok(inner) | Value::Err(inner)) => {
            walk(Rc::make_mut(inner), rest, copied, change)
        }
        (Projection::Key(key), Value::Map(map)) => {
            if Rc::strong_count(map) > 1 {
                *copied += map.len();
            }
            walk(Rc::make_mut(map).get_mut(key)?, rest, copied, change)
        }
        _ => None,
    }
}

/// Returns the elements, which are copied first if they are shared.
pub(crate) fn unshared<'a>(items: &'a mut Rc<Vec<Value>>, copied: &mut usize) -> &'a mut Vec<Value> {
    if Rc::strong_count(items) > 1 {
        *copied += items.len();
    }
    Rc::make_mut(items)
}
