//! Patterns.

use std::rc::Rc;

use super::place::{Place, Projection};
use super::value::Value;
use super::{Eval, Interpreter};
use crate::hir::{Pattern, PatternKind, RangeEnd, Slot};

impl<'t> Interpreter<'t> {
    /// Matches a value with a pattern and binds its variables; returns whether it matches. A `&mut` binds its parts as
    /// `&mut`.
    pub(super) fn bind(&mut self, pattern: &'t Pattern, value: Value) -> Eval<bool> {
        match &pattern.kind {
            PatternKind::Wild => Ok(true),
            PatternKind::Bind(slot, None) => {
                self.define(*slot, value);
                Ok(true)
            }
            PatternKind::Bind(slot, Some(inner)) => {
                let matches = self.bind(inner, value.clone())?;
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
                for case in cases {
                    if self.bind(case, value.clone())? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => self.destructure(pattern, value),
        }
    }

    fn destructure(&mut self, pattern: &'t Pattern, value: Value) -> Eval<bool> {
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
                    if !self.bind(pattern, part(Projection::Field(index as u32), item))? {
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
                    if !self.bind(pattern, part(Projection::Field(*index), item))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (PatternKind::List(before, rest), Value::List(items)) => {
                self.bind_list(before, rest.as_ref(), &items, place.as_ref())
            }
            (PatternKind::Some(inner), Value::Some(value))
            | (PatternKind::Ok(inner), Value::Ok(value))
            | (PatternKind::Err(inner), Value::Err(value)) => {
                self.bind(inner, part(Projection::Payload, (*value).clone()))
            }
            (PatternKind::Reverse(inner), Value::Reverse(value)) => {
                self.bind(inner, part(Projection::Field(0), (*value).clone()))
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
            if !self.bind(pattern, item)? {
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
