//! Advances iterators, and creates them from values.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Iter, Shared, unwrapped};
use crate::eval::place::{Place, Projection};
use crate::eval::value::Value;
use crate::eval::{Eval, Interpreter};
use crate::hir::SpanId;

/// What remains to do for the next item, once the iterator's state is no longer borrowed.
enum Job {
    Ready(Option<Value>),
    Overflow(i128),
    Map(Shared, Value),
    Filter(Shared, Value),
    FilterMap(Shared, Value),
    FlatMap(Shared, Option<Value>, Option<Shared>),
    Enumerate(Shared, usize),
    Zip(Shared, Shared),
    Chain(Option<Shared>, Shared),
    Inner(Shared),
    Skip(Shared, usize),
    TakeWhile(Shared, Value),
    SkipWhile(Shared, Value, bool),
    Scan(Shared, Place, Value),
    Cycle(Shared, Box<Iter>),
    Successors(Value, Value),
    Calls(Value, bool),
}

impl Iter {
    /// Advances what can be advanced without calls.
    fn job(&mut self) -> Job {
        let shared = Rc::clone;
        match self {
            Self::Empty => Job::Ready(None),
            Self::List { items, at, end, back } => {
                let index = take_end(at, end, *back);
                Job::Ready(index.map(|index| items[index].clone()))
            }
            Self::Places { place, at, end, back } => {
                let index = take_end(at, end, *back);
                Job::Ready(index.map(|index| Value::Place(Rc::new(place.part(Projection::Index(index))))))
            }
            Self::MapPlaces { place, keys, at, with_keys } => {
                let Some(key) = keys.get(*at).cloned() else { return Job::Ready(None) };
                *at += 1;
                let value = Value::Place(Rc::new(place.part(Projection::Key(key.clone()))));
                Job::Ready(Some(if *with_keys { Value::tuple(vec![key, value]) } else { value }))
            }
            Self::Numbers { next, end: None, step, top, .. } if *next > *top - *step => Job::Overflow(*next),
            Self::Numbers { next, end, step, back, .. } => {
                Job::Ready(take_number(next, end, *step, *back).map(Value::Int))
            }
            Self::Repeat { left: Some(0), .. } => Job::Ready(None),
            Self::Repeat { value, left } => {
                *left = left.map(|left| left - 1);
                Job::Ready(Some(value.deep_clone()))
            }
            Self::Successors { next, f } => match next.take() {
                Some(value) => Job::Successors(value, f.clone()),
                None => Job::Ready(None),
            },
            Self::Calls { f, forever } => Job::Calls(f.clone(), *forever),
            Self::Map { inner, f } => Job::Map(shared(inner), f.clone()),
            Self::Filter { inner, f } => Job::Filter(shared(inner), f.clone()),
            Self::FilterMap { inner, f } => Job::FilterMap(shared(inner), f.clone()),
            Self::FlatMap { inner, f, current } => Job::FlatMap(shared(inner), f.clone(), current.clone()),
            Self::Enumerate { inner, count, back } => {
                let number = if *back {
                    // In reverse, the number of the item is that of the last one left.
                    let left = super::count(inner).unwrap_or(0);
                    count.saturating_add(left).saturating_sub(1)
                } else {
                    *count += 1;
                    *count - 1
                };
                Job::Enumerate(shared(inner), number)
            }
            Self::Zip { a, b } => Job::Zip(shared(a), shared(b)),
            Self::Chain { a, b } => Job::Chain(a.clone(), shared(b)),
            Self::Take { left: 0, .. } => Job::Ready(None),
            Self::Take { inner, left } => {
                *left -= 1;
                Job::Inner(shared(inner))
            }
            Self::Skip { inner, left } => Job::Skip(shared(inner), std::mem::take(left)),
            Self::StepBy { inner, step, first } => {
                let skip = if std::mem::take(first) { 0 } else { *step - 1 };
                Job::Skip(shared(inner), skip)
            }
            Self::TakeWhile { done: true, .. } => Job::Ready(None),
            Self::TakeWhile { inner, f, .. } => Job::TakeWhile(shared(inner), f.clone()),
            Self::SkipWhile { inner, f, started } => Job::SkipWhile(shared(inner), f.clone(), *started),
            Self::MapWhile { inner, f } => Job::Map(shared(inner), f.clone()),
            Self::Scan { inner, state, f } => Job::Scan(shared(inner), state.clone(), f.clone()),
            Self::Cycle { original, current } => Job::Cycle(shared(current), original.clone()),
            Self::Peekable { inner, peeked } => match peeked.take() {
                Some(value) => Job::Ready(value),
                None => Job::Inner(shared(inner)),
            },
            Self::Parts { items, at, size, step, exact } => {
                let left = items.len().saturating_sub(*at);
                if left == 0 || (*exact && left < *size) {
                    return Job::Ready(None);
                }
                let part = items[*at..*at + left.min(*size)].to_vec();
                *at += *step;
                Job::Ready(Some(Value::list(part)))
            }
        }
    }
}

fn take_end(at: &mut usize, end: &mut usize, back: bool) -> Option<usize> {
    if at >= end {
        return None;
    }
    Some(if back {
        *end -= 1;
        *end
    } else {
        *at += 1;
        *at - 1
    })
}

fn take_number(next: &mut i128, end: &mut Option<i128>, step: i128, back: bool) -> Option<i128> {
    match end {
        Some(end) if *next >= *end => None,
        Some(end) if back => {
            let last = *next + (*end - 1 - *next) / step * step;
            *end = last;
            Some(last)
        }
        _ => {
            *next += step;
            Some(*next - step)
        }
    }
}

impl<'t> Interpreter<'t> {
    /// Returns the next item of an iterator.
    pub(crate) fn next(&mut self, iter: &Shared, tok: SpanId) -> Eval<Option<Value>> {
        self.step(tok)?;
        let job = match iter.try_borrow_mut() {
            Ok(mut iter) => iter.job(),
            Err(_) => return Err(self.ill_typed(tok)),
        };
        match job {
            Job::Ready(value) => Ok(value),
            Job::Overflow(number) => {
                let message = format!("this range continues past {number}, the end of its type");
                Err(self.fail(mscclpp_core::diag::Code::Overflow, tok, message))
            }
            Job::Map(inner, f) => {
                let Some(item) = self.next(&inner, tok)? else { return Ok(None) };
                let value = self.call(&f, vec![item], tok)?;
                let while_some = iter.try_borrow().is_ok_and(|iter| matches!(*iter, Iter::MapWhile { .. }));
                Ok(if while_some { unwrapped(value) } else { Some(value) })
            }
            Job::Filter(inner, f) => {
                while let Some(item) = self.next(&inner, tok)? {
                    if self.test(&f, vec![item.clone()], tok)? {
                        return Ok(Some(item));
                    }
                }
                Ok(None)
            }
            Job::FilterMap(inner, f) => {
                while let Some(item) = self.next(&inner, tok)? {
                    if let Some(value) = unwrapped(self.call(&f, vec![item], tok)?) {
                        return Ok(Some(value));
                    }
                }
                Ok(None)
            }
            Job::Inner(inner) => self.next(&inner, tok),
            Job::Skip(inner, count) => {
                for _ in 0..count {
                    if self.next(&inner, tok)?.is_none() {
                        return Ok(None);
                    }
                }
                self.next(&inner, tok)
            }
            Job::Enumerate(inner, number) => {
                let item = self.next(&inner, tok)?;
                Ok(item.map(|item| Value::tuple(vec![Value::Int(number as i128), item])))
            }
            Job::Zip(a, b) => {
                let Some(a) = self.next(&a, tok)? else { return Ok(None) };
                let b = self.next(&b, tok)?;
                Ok(b.map(|b| Value::tuple(vec![a, b])))
            }
            Job::Chain(a, b) => {
                if let Some(a) = a {
                    if let Some(item) = self.next(&a, tok)? {
                        return Ok(Some(item));
                    }
                    if let Ok(mut iter) = iter.try_borrow_mut()
                        && let Iter::Chain { a, .. } = &mut *iter
                    {
                        *a = None;
                    }
                }
                self.next(&b, tok)
            }
            job => self.next_of_stateful(iter, job, tok),
        }
    }

    fn next_of_stateful(&mut self, iter: &Shared, job: Job, tok: SpanId) -> Eval<Option<Value>> {
        match job {
            Job::FlatMap(inner, f, mut current) => loop {
                if let Some(current) = &current
                    && let Some(item) = self.next(current, tok)?
                {
                    return Ok(Some(item));
                }
                let Some(item) = self.next(&inner, tok)? else { return Ok(None) };
                let many = match &f {
                    Some(f) => self.call(f, vec![item], tok)?,
                    None => item,
                };
                let next = self.make_iter(many, tok)?;
                if let Ok(mut iter) = iter.try_borrow_mut()
                    && let Iter::FlatMap { current, .. } = &mut *iter
                {
                    *current = Some(Rc::clone(&next));
                }
                current = Some(next);
            },
            Job::TakeWhile(inner, f) => {
                let Some(item) = self.next(&inner, tok)? else { return Ok(None) };
                if self.test(&f, vec![item.clone()], tok)? {
                    return Ok(Some(item));
                }
                if let Ok(mut iter) = iter.try_borrow_mut()
                    && let Iter::TakeWhile { done, .. } = &mut *iter
                {
                    *done = true;
                }
                Ok(None)
            }
            Job::SkipWhile(inner, f, started) => {
                while let Some(item) = self.next(&inner, tok)? {
                    if started || !self.test(&f, vec![item.clone()], tok)? {
                        if let Ok(mut iter) = iter.try_borrow_mut()
                            && let Iter::SkipWhile { started, .. } = &mut *iter
                        {
                            *started = true;
                        }
                        return Ok(Some(item));
                    }
                }
                Ok(None)
            }
            Job::Scan(inner, state, f) => {
                let Some(item) = self.next(&inner, tok)? else { return Ok(None) };
                Ok(unwrapped(self.call(&f, vec![Value::Place(Rc::new(state)), item], tok)?))
            }
            Job::Cycle(current, original) => {
                if let Some(item) = self.next(&current, tok)? {
                    return Ok(Some(item));
                }
                let fresh = Rc::new(RefCell::new(original.deep_clone()));
                if let Ok(mut iter) = iter.try_borrow_mut()
                    && let Iter::Cycle { current, .. } = &mut *iter
                {
                    *current = Rc::clone(&fresh);
                }
                self.next(&fresh, tok)
            }
            Job::Calls(f, forever) => {
                let value = self.call(&f, Vec::new(), tok)?;
                Ok(if forever { Some(value) } else { unwrapped(value) })
            }
            Job::Successors(value, f) => {
                let next = unwrapped(self.call(&f, vec![value.clone()], tok)?);
                if let Ok(mut iter) = iter.try_borrow_mut()
                    && let Iter::Successors { next: slot, .. } = &mut *iter
                {
                    *slot = next;
                }
                Ok(Some(value))
            }
            _ => Err(self.ill_typed(tok)),
        }
    }

    /// Calls a predicate.
    pub(crate) fn test(&mut self, f: &Value, args: Vec<Value>, tok: SpanId) -> Eval<bool> {
        match self.call(f, args, tok)?.load() {
            Value::Bool(value) => Ok(value),
            _ => Err(self.ill_typed(tok)),
        }
    }

    /// Returns the iterator of a `for` loop over a value.
    pub(crate) fn make_iter(&mut self, value: Value, tok: SpanId) -> Eval<Shared> {
        let iter = match value {
            Value::Iter(iter) => return Ok(iter),
            Value::List(items) => Iter::over(items),
            Value::Range(range) => {
                let Some(start) = range.start else { return Err(self.ill_typed(tok)) };
                Iter::Numbers { next: start, end: range.stop(), step: 1, top: range.top, back: false }
            }
            Value::Map(map) => {
                self.allocate(map.len(), tok)?;
                let pairs = map.iter().map(|(key, value)| Value::tuple(vec![key.clone(), value.clone()]));
                Iter::over(Rc::new(pairs.collect()))
            }
            Value::Set(set) => {
                self.allocate(set.len(), tok)?;
                Iter::over(Rc::new(set.iter().cloned().collect()))
            }
            Value::Some(value) | Value::Ok(value) => Iter::over(Rc::new(vec![(*value).clone()])),
            Value::None | Value::Err(_) => Iter::Empty,
            Value::Place(place) => return self.make_place_iter(&(*place).clone().follow(), tok),
            _ => return Err(self.ill_typed(tok)),
        };
        Ok(Rc::new(RefCell::new(iter)))
    }

    /// Returns the iterator of a `for` loop over a `&mut`: places, unless the value is an iterator.
    fn make_place_iter(&mut self, place: &Place, tok: SpanId) -> Eval<Shared> {
        let iter = match place.get() {
            Value::Iter(iter) => return Ok(iter),
            value => self.places_of(place, &value, tok)?,
        };
        Ok(Rc::new(RefCell::new(iter)))
    }

    /// Returns the parts of a value as places.
    pub(crate) fn places_of(&mut self, place: &Place, value: &Value, tok: SpanId) -> Eval<Iter> {
        Ok(match value {
            Value::List(items) => Iter::Places { place: place.clone(), at: 0, end: items.len(), back: false },
            Value::Map(map) => {
                self.allocate(map.len(), tok)?;
                let keys = Rc::new(map.keys().cloned().collect());
                Iter::MapPlaces { place: place.clone(), keys, at: 0, with_keys: true }
            }
            Value::Some(_) | Value::Ok(_) => {
                Iter::over(Rc::new(vec![Value::Place(Rc::new(place.part(Projection::Payload)))]))
            }
            Value::None | Value::Err(_) => Iter::Empty,
            _ => return Err(self.ill_typed(tok)),
        })
    }

    /// Returns the iterator over a value as a value.
    pub(crate) fn iterate(&mut self, value: Value, tok: SpanId) -> Eval {
        Ok(Value::Iter(self.make_iter(value, tok)?))
    }

    /// Returns all remaining items.
    pub(crate) fn drain(&mut self, iter: &Shared, tok: SpanId) -> Eval<Vec<Value>> {
        let mut items = Vec::new();
        while let Some(item) = self.next(iter, tok)? {
            self.allocate(1, tok)?;
            items.push(item);
        }
        Ok(items)
    }
}
