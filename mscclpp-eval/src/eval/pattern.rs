//! Patterns.

use std::rc::Rc;

use super::place::{Place, Projection};
use super::value::Value;
use super::{Eval, Interpreter};
use crate::hir::{Pattern, PatternKind, RangeEnd, Slot};

/// The alternatives to take at each `|` of a pattern, in the order in which they are met, each with the number of
/// alternatives there.
#[derive(Default)]
pub(super) struct Choices {
    taken: Vec<(usize, usize)>,
    met: usize,
}

impl Choices {
    /// Returns the alternative to take at the next `|`, which has `count` of them.
    fn next(&mut self, count: usize) -> usize {
        if self.met == self.taken.len() {
            self.taken.push((0, count));
        }
        self.met += 1;
        self.taken[self.met - 1].0
    }

    /// Selects the next alternatives, for another match from the start; returns whether there are any.
    pub(super) fn advance(&mut self) -> bool {
        self.met = 0;
        while let Some((index, count)) = self.taken.pop() {
            if index + 1 < count {
                self.taken.push((index + 1, count));
                return true;
            }
        }
        false
    }
}

impl<'t> Interpreter<'t> {
    /// Matches a value with a pattern and binds its variables; returns whether it matches. A `&mut` binds its parts as
    /// `&mut`.
    pub(super) fn bind(&mut self, pattern: &'t Pattern, value: Value) -> Eval<bool> {
        self.bind_with(pattern, value, None)
    }

    /// Matches as [`bind`](Self::bind) does, with the first alternatives that match or with those that are given.
    pub(super) fn bind_with(
        &mut self,
        pattern: &'t Pattern,
        value: Value,
        mut choices: Option<&mut Choices>,
    ) -> Eval<bool> {
        match &pattern.kind {
            PatternKind::Wild => Ok(true),
            PatternKind::Bind(slot, None) => {
                self.define(*slot, value);
                Ok(true)
            }
            PatternKind::Bind(slot, Some(inner)) => {
                let matches = self.bind_with(inner, value.clone(), choices)?;
                self.define(*slot, value);
                Ok(matches)
            }
            PatternKind::Value(expected) => {
                let expected = self.eval(expected)?;
                Ok(value == expected)
            }
            PatternKind::Range(start, end, kind) => {
                let Value::Int(value) = value.load() else { return Err(self.ill_typed(pattern.tok)) };
                let start = start.as_ref().map(|start| self.integer(start)).transpose()?;
                let end = end.as_ref().map(|end| self.integer(end)).transpose()?;
                let below = end.is_none_or(|end| value < end || (value == end && *kind == RangeEnd::Inclusive));
                Ok(start.is_none_or(|start| start <= value) && below)
            }
            PatternKind::Or(cases) => {
                if let Some(choices) = &mut choices {
                    let case = choices.next(cases.len());
                    return self.bind_with(&cases[case], value, Some(choices));
                }
                for case in cases {
                    if self.bind(case, value.clone())? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => self.destructure(pattern, value, choices),
        }
    }

    fn destructure(&mut self, pattern: &'t Pattern, value: Value, mut choices: Option<&mut Choices>) -> Eval<bool> {
        let place = match &value {
            Value::Place(place) => Some((**place).clone().follow()),
            _ => None,
        };
        let value = value.load();
        let part = |step: Projection, plain: Value| match &place {
            Some(place) => Value::Place(Rc::new(place.part(step))),
            None => plain,
        };
        match (&pattern.kind, value) {
            (PatternKind::Tuple(before, after), Value::Tuple(items)) => {
                let after = after.as_deref().unwrap_or_default();
                let Some(first_after) = items.len().checked_sub(after.len()) else {
                    return Err(self.ill_typed(pattern.tok));
                };
                let fields = before.iter().zip(0..).chain(after.iter().zip(first_after..));
                for (pattern, index) in fields {
                    let item = items.get(index).cloned().unwrap_or(Value::Unit);
                    if !self.bind_with(pattern, part(Projection::Field(index as u32), item), choices.as_deref_mut())? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (PatternKind::Struct(_, variant, fields), Value::Adt(value)) => {
                if value.shape.index != *variant {
                    return Ok(false);
                }
                for (index, pattern) in fields {
                    let item = value.fields.get(*index as usize).cloned().unwrap_or(Value::Unit);
                    if !self.bind_with(pattern, part(Projection::Field(*index), item), choices.as_deref_mut())? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (PatternKind::List(before, rest), Value::List(items)) => {
                self.bind_list(before, rest.as_ref(), &items, place.as_ref(), choices)
            }
            (PatternKind::Some(inner), Value::Some(value))
            | (PatternKind::Ok(inner), Value::Ok(value))
            | (PatternKind::Err(inner), Value::Err(value)) => {
                self.bind_with(inner, part(Projection::Payload, (*value).clone()), choices)
            }
            (PatternKind::Reverse(inner), Value::Reverse(value)) => {
                self.bind_with(inner, part(Projection::Field(0), (*value).clone()), choices)
            }
            (PatternKind::Some(_), Value::None)
            | (PatternKind::Ok(_), Value::Err(_))
            | (PatternKind::Err(_), Value::Ok(_))
            | (PatternKind::None, Value::Some(_)) => Ok(false),
            (PatternKind::None, Value::None) => Ok(true),
            _ => Err(self.ill_typed(pattern.tok)),
        }
    }

    fn bind_list(
        &mut self,
        before: &'t [Pattern],
        rest: Option<&'t (Option<Slot>, Vec<Pattern>)>,
        items: &Rc<Vec<Value>>,
        place: Option<&Place>,
        mut choices: Option<&mut Choices>,
    ) -> Eval<bool> {
        let after = rest.map_or(&[][..], |(_, after)| after.as_slice());
        let fixed = before.len() + after.len();
        if items.len() < fixed || (rest.is_none() && items.len() != fixed) {
            return Ok(false);
        }
        let first_after = items.len() - after.len();
        for (pattern, index) in before.iter().zip(0..).chain(after.iter().zip(first_after..)) {
            let item = match place {
                Some(place) => Value::Place(Rc::new(place.part(Projection::Index(index)))),
                None => items[index].clone(),
            };
            if !self.bind_with(pattern, item, choices.as_deref_mut())? {
                return Ok(false);
            }
        }
        if let Some((Some(slot), _)) = rest {
            let len = first_after - before.len();
            let value = match place {
                Some(place) => Value::Place(Rc::new(place.part(Projection::Slice(before.len(), len)))),
                None => Value::list(items[before.len()..first_after].to_vec()),
            };
            self.define(*slot, value);
        }
        Ok(true)
    }
}
