//! Expressions.

use std::rc::Rc;

use mscclpp_core::diag::Code;

use super::place::{Place, Projection};
use super::value::{Closure, Range, Value};
use super::{Eval, Interpreter};
use crate::hir::{Assignee, CmpOp, ConstId, Expr, ExprKind, PathValue, RangeEnd, SpanId};
use crate::types::Target;

impl<'t> Interpreter<'t> {
    /// Evaluates an expression.
    pub(super) fn eval(&mut self, expr: &'t Expr) -> Eval {
        self.step(expr.tok)?;
        match &expr.kind {
            ExprKind::Int(value, _) => Ok(Value::Int(self.literal(*value, expr)?)),
            ExprKind::Var(var) => Ok(self.taken(self.variable(*var))),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, expr),
            ExprKind::Method(call) => self.method(expr, call),
            ExprKind::Block(stmts, value, label) => self.block(stmts, value.as_deref(), *label),
            ExprKind::Bool(value) => Ok(Value::Bool(*value)),
            ExprKind::Unit => Ok(Value::Unit),
            ExprKind::Compare(op, left, right) => self.compare(*op, left, right),
            ExprKind::If(condition, then, otherwise) => self.if_else(condition, then, otherwise.as_deref()),
            ExprKind::Index(base, index) => self.index(base, index, expr.tok),
            ExprKind::Deref(value) => {
                let value = self.eval(value)?;
                Ok(match value {
                    Value::Place(place) => place.get(),
                    value => value,
                })
            }
            ExprKind::Typed(value, _) => self.eval(value),
            ExprKind::Field(base, _) => self.field(base, expr),
            ExprKind::Tuple(list) => Ok(Value::tuple(self.each(list)?)),
            _ => self.rest(expr),
        }
    }

    fn rest(&mut self, expr: &'t Expr) -> Eval {
        match &expr.kind {
            ExprKind::List(list, _) => {
                self.allocate(list.len(), expr.tok)?;
                Ok(Value::list(self.each(list)?))
            }
            ExprKind::Repeat(value, count, _) => self.repeat(value, count),
            ExprKind::Range(start, end, kind) => self.range(start.as_deref(), end.as_deref(), *kind),
            ExprKind::Str(text) => Ok(Value::Str(Rc::from(&**text))),
            ExprKind::Constant(id) => self.constant(*id),
            ExprKind::Path(value) => Ok(self.path_value(value)),
            ExprKind::Function(id) => Ok(Value::Function(*id)),
            ExprKind::PathFn(function) => Ok(Value::PathFn(*function, expr.id)),
            ExprKind::Struct(id, variant, fields, rest) => {
                self.make_adt(*id, *variant, fields, rest.as_deref(), expr.tok)
            }
            ExprKind::Constructor(id, variant) => Ok(Value::Constructor(*id, *variant)),
            ExprKind::Neg(value) => self.neg(value, expr),
            ExprKind::Not(value) => self.not(value, expr),
            ExprKind::RefMut(value) => Ok(Value::Place(Rc::new(self.place(value)?))),
            ExprKind::Logic(and, left, right) => {
                let left = self.truth(left)?;
                Ok(Value::Bool(if left == *and { self.truth(right)? } else { left }))
            }
            ExprKind::Cast(value, ty) => self.cast(value, ty, expr),
            ExprKind::Convert(value, int, fallible) => self.convert(value, *int, *fallible, expr.tok),
            ExprKind::Assign(place, value) => {
                let value = self.eval(value)?;
                self.assign(place, value)?;
                Ok(Value::Unit)
            }
            ExprKind::AssignPattern(target, value) => {
                let value = self.eval(value)?;
                self.assign_pattern(target, value)?;
                Ok(Value::Unit)
            }
            ExprKind::AssignOp(op, place, value) => self.assign_op(*op, place, value, expr),
            ExprKind::Call(id, args) => {
                let args = self.each(args)?;
                self.call_function(*id, args, expr.tok)
            }
            ExprKind::CallValue(callee, args) => {
                let callee = match &callee.kind {
                    ExprKind::Var(var) => self.variable(*var),
                    _ => self.eval(callee)?,
                };
                let args = self.each(args)?;
                self.call(&callee, args, expr.tok)
            }
            ExprKind::CallPath(function, args) => {
                let args = self.each(args)?;
                self.call_path(*function, expr.id, args, expr.tok)
            }
            ExprKind::Closure(id) => {
                let tree = self.tree;
                let code = &tree.closures[*id as usize];
                let captures = code.captures.iter().map(|var| {
                    if code.by_value {
                        // An independent copy: what it captures has moved, or is `Copy`.
                        Rc::new(std::cell::RefCell::new(self.variable(*var)))
                    } else {
                        self.cell(*var)
                    }
                });
                Ok(Value::Closure(Rc::new(Closure { id: *id, captures: captures.collect() })))
            }
            _ => self.control(expr),
        }
    }

    /// Returns a value that leaves its variable. A closure with its own variables keeps them: either it has moved, or
    /// this is a copy with an independent state.
    fn taken(&self, value: Value) -> Value {
        match value {
            Value::Closure(closure) if self.tree.closures[closure.id as usize].by_value => {
                let own = |cell: &Rc<std::cell::RefCell<Value>>| {
                    let value = cell.try_borrow().map_or(Value::Unit, |value| value.clone());
                    Rc::new(std::cell::RefCell::new(value))
                };
                let captures = closure.captures.iter().map(own).collect();
                Value::Closure(Rc::new(Closure { id: closure.id, captures }))
            }
            value => value,
        }
    }

    /// Evaluates expressions in order.
    pub(super) fn each(&mut self, list: &'t [Expr]) -> Eval<Vec<Value>> {
        let mut values = Vec::with_capacity(list.len());
        for expr in list {
            values.push(self.eval(expr)?);
        }
        Ok(values)
    }

    /// Evaluates a condition.
    pub(super) fn truth(&mut self, expr: &'t Expr) -> Eval<bool> {
        match self.eval(expr)?.load() {
            Value::Bool(value) => Ok(value),
            _ => Err(self.ill_typed(expr.tok)),
        }
    }

    /// Evaluates an integer.
    pub(super) fn integer(&mut self, expr: &'t Expr) -> Eval<i128> {
        match self.eval(expr)?.load() {
            Value::Int(value) => Ok(value),
            _ => Err(self.ill_typed(expr.tok)),
        }
    }

    fn compare(&mut self, op: CmpOp, left: &'t Expr, right: &'t Expr) -> Eval {
        let (left, right) = (self.eval(left)?, self.eval(right)?);
        Ok(Value::Bool(match op {
            CmpOp::Eq => left == right,
            CmpOp::Ne => left != right,
            CmpOp::Lt => left < right,
            CmpOp::Le => left <= right,
            CmpOp::Gt => left > right,
            CmpOp::Ge => left >= right,
        }))
    }

    fn path_value(&mut self, value: &PathValue) -> Value {
        match value {
            PathValue::Int(_, value) => Value::Int(*value),
            PathValue::Bits(int) => Value::Int(i128::from(int.bits())),
            PathValue::None => Value::None,
            PathValue::Ordering(order) => Value::Ordering(order.cmp(&0)),
            PathValue::Dsl(ty, name) => {
                mscclpp_core::dsl::registry::constant(ty, name).map_or(Value::Unit, Value::handle)
            }
        }
    }

    pub(super) fn constant(&mut self, id: ConstId) -> Eval {
        if let Some(value) = &self.constants[id as usize] {
            return Ok(value.clone());
        }
        let tree = self.tree;
        let constant = &tree.constants[id as usize];
        // Loop variables around the use do not belong to the constant.
        let loops = std::mem::take(&mut self.loops);
        let frame = self.enter(constant.slots, None, constant.value.tok)?;
        let value = self.eval(&constant.value);
        self.leave(frame);
        self.loops = loops;
        let value = value?;
        self.constants[id as usize] = Some(value.clone());
        Ok(value)
    }

    fn repeat(&mut self, value: &'t Expr, count: &'t Expr) -> Eval {
        let item = self.eval(value)?;
        let count = self.integer(count)?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.allocate(count, value.tok)?;
        Ok(Value::list((0..count).map(|_| item.deep_clone()).collect()))
    }

    fn range(&mut self, start: Option<&'t Expr>, end: Option<&'t Expr>, kind: RangeEnd) -> Eval {
        let top = start.or(end).map_or(i128::MAX, |bound| self.types.int(bound.id).max());
        let start = start.map(|start| self.integer(start)).transpose()?;
        let end = end.map(|end| self.integer(end)).transpose()?;
        Ok(Value::Range(Rc::new(Range { start, end, inclusive: kind == RangeEnd::Inclusive, top })))
    }

    fn field(&mut self, base: &'t Expr, expr: &'t Expr) -> Eval {
        let Target::Field(index) = self.types.target(expr.id) else { return Err(self.ill_typed(expr.tok)) };
        let found = match self.eval(base)?.load() {
            Value::Tuple(items) => items.get(index as usize).cloned(),
            Value::Adt(value) => value.fields.get(index as usize).cloned(),
            Value::Reverse(inner) => Some((*inner).clone()),
            Value::Range(range) => if index == 0 { range.start } else { range.end }.map(Value::Int),
            _ => None,
        };
        match found {
            Some(value) => Ok(value),
            None => Err(self.ill_typed(expr.tok)),
        }
    }

    fn index(&mut self, base: &'t Expr, index: &'t Expr, tok: SpanId) -> Eval {
        let base = self.eval(base)?.load();
        let index = self.eval(index)?.load();
        match (base, index) {
            (Value::List(items), Value::Int(index)) => {
                match usize::try_from(index).ok().and_then(|index| items.get(index)) {
                    Some(item) => Ok(item.clone()),
                    None => Err(self.out_of_range(index, items.len(), tok)),
                }
            }
            (Value::List(items), Value::Range(range)) => {
                let (start, len) = self.slice_bounds(&range, items.len(), tok)?;
                self.allocate(len, tok)?;
                Ok(Value::list(items[start..start + len].to_vec()))
            }
            (Value::Map(map), key) => match map.get(&key) {
                Some(value) => Ok(value.clone()),
                None => Err(self.no_such_key(&key, tok)),
            },
            _ => Err(self.ill_typed(tok)),
        }
    }

    fn no_such_key(&mut self, key: &Value, tok: SpanId) -> super::Stop {
        let message = format!("the map has no key {}", super::fmt::debug(key));
        self.fail_with(Code::NoSuchElement, tok, message, Some("`get` returns an `Option` instead"))
    }

    /// Reports an index that is out of range.
    pub(crate) fn out_of_range(&mut self, index: i128, len: usize, tok: SpanId) -> super::Stop {
        self.fail(Code::NoSuchElement, tok, format!("index {index} is out of range for a list of {len}"))
    }

    /// Returns start and length of a slice.
    pub(crate) fn slice_bounds(&mut self, range: &Range, len: usize, tok: SpanId) -> Eval<(usize, usize)> {
        let start = range.start.unwrap_or(0);
        let stop = range.stop().unwrap_or(len as i128);
        if start > stop {
            let message = format!("the slice starts at {start}, after its end {stop}");
            return Err(self.fail(Code::NoSuchElement, tok, message));
        }
        if stop > len as i128 {
            return Err(self.fail(
                Code::NoSuchElement,
                tok,
                format!("the slice ends at {stop}, and the list has {len} elements"),
            ));
        }
        Ok((start as usize, (stop - start) as usize))
    }

    /// Returns the place of an expression; a value without one gets a new place.
    pub(super) fn place(&mut self, expr: &'t Expr) -> Eval<Place> {
        match &expr.kind {
            ExprKind::Var(var) => Ok(Place::of_cell(self.cell(*var))),
            ExprKind::Deref(inner) => {
                let place = self.place(inner)?;
                Ok(match place.get() {
                    Value::Place(next) => (*next).clone(),
                    _ => place,
                })
            }
            ExprKind::Field(base, _) => {
                let base = self.place(base)?.follow();
                match self.types.target(expr.id) {
                    Target::Field(index) => Ok(base.part(Projection::Field(index))),
                    _ => Err(self.ill_typed(expr.tok)),
                }
            }
            ExprKind::Index(base, index) => {
                let base = self.place(base)?.follow();
                let index = self.eval(index)?.load();
                let step = match (base.get(), index) {
                    (Value::List(items), Value::Int(index)) => {
                        match usize::try_from(index).ok().filter(|index| *index < items.len()) {
                            Some(index) => Projection::Index(index),
                            None => return Err(self.out_of_range(index, items.len(), expr.tok)),
                        }
                    }
                    (Value::List(items), Value::Range(range)) => {
                        let (start, len) = self.slice_bounds(&range, items.len(), expr.tok)?;
                        Projection::Slice(start, len)
                    }
                    (Value::Map(map), key) if map.contains_key(&key) => Projection::Key(key),
                    (Value::Map(_), key) => return Err(self.no_such_key(&key, expr.tok)),
                    _ => return Err(self.ill_typed(expr.tok)),
                };
                Ok(base.part(step))
            }
            ExprKind::RefMut(inner) | ExprKind::Typed(inner, _) => self.place(inner),
            _ => Ok(match self.eval(expr)? {
                Value::Place(place) => (*place).clone(),
                value => Place::of_value(value),
            }),
        }
    }

    pub(super) fn assign(&mut self, target: &'t Expr, value: Value) -> Eval<()> {
        if let ExprKind::Var(var) = &target.kind {
            self.assign_variable(*var, value);
            return Ok(());
        }
        let place = self.place(target)?;
        self.change(&place, target.tok, |old| *old = value)
    }

    fn assign_pattern(&mut self, target: &'t Assignee, value: Value) -> Eval<()> {
        match (target, value.load()) {
            (Assignee::Ignore, _) => Ok(()),
            (Assignee::Place(place), value) => self.assign(place, value),
            (Assignee::Tuple(parts, tok), Value::Tuple(items)) | (Assignee::List(parts, tok), Value::List(items)) => {
                if parts.len() != items.len() {
                    return Err(self.ill_typed(*tok));
                }
                parts.iter().zip(items.iter()).try_for_each(|(part, item)| self.assign_pattern(part, item.clone()))
            }
            (Assignee::Tuple(_, tok) | Assignee::List(_, tok), _) => Err(self.ill_typed(*tok)),
        }
    }
}
