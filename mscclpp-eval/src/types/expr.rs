//! Types of expressions.

use super::store::Ty;
use super::{Check, Infer, Target};
use crate::hir::{
    Assignee, BinOp, ClosureId, CmpOp, Expr, ExprKind, FormatPart, IntTy, Message, PathValue, RangeEnd, TyCon, Var,
};

impl Infer<'_> {
    /// Infers the type of an expression.
    pub(super) fn expr(&mut self, expr: &Expr) -> Ty {
        let ty = self.kind(expr);
        self.record(expr.id, ty)
    }

    fn kind(&mut self, expr: &Expr) -> Ty {
        let tok = expr.tok;
        match &expr.kind {
            ExprKind::Error => self.store.var(),
            ExprKind::Unit => self.unit(),
            ExprKind::Bool(_) => self.bool(),
            ExprKind::Str(_) => self.store.plain(TyCon::Str),
            ExprKind::Int(_, Some(int)) => self.store.int(*int),
            ExprKind::Int(_, None) => self.store.int_var(),
            ExprKind::Var(Var::Local(slot)) => self.slot(*slot),
            ExprKind::Var(Var::Captured(index)) => self.frame().captures[*index as usize],
            ExprKind::Constant(id) => self.constants[*id as usize],
            ExprKind::Path(value) => self.path_value(value),
            ExprKind::Function(id) => {
                let signature = self.functions[*id as usize].clone();
                self.store.con(TyCon::Fn, signature.params.into_iter().chain([signature.output]))
            }
            ExprKind::PathFn(function) => self.path_fn(*function, expr),
            ExprKind::Tuple(list) => {
                let list: Vec<Ty> = list.iter().map(|item| self.expr(item)).collect();
                self.store.con(TyCon::Tuple, list)
            }
            ExprKind::List(list, con) => {
                let item = self.store.var();
                for expr in list {
                    let ty = self.expr(expr);
                    self.unify(ty, item, expr.tok);
                }
                self.store.con(*con, [item])
            }
            ExprKind::Repeat(value, count, con) => {
                let (item, count_ty) = (self.expr(value), self.expr(count));
                let usize = self.usize();
                self.unify(count_ty, usize, count.tok);
                self.store.con(*con, [item])
            }
            ExprKind::Range(start, end, kind) => self.range(start.as_deref(), end.as_deref(), *kind),
            ExprKind::Struct(id, variant, fields, rest) => {
                for (index, value) in fields {
                    if let Some(ty) = self.fields(*id, *variant).get(*index as usize).copied() {
                        self.arg(value, ty);
                    }
                }
                let ty = self.store.plain(TyCon::Adt(*id));
                if let Some(rest) = rest {
                    let found = self.expr(rest);
                    self.unify(found, ty, rest.tok);
                }
                ty
            }
            ExprKind::Constructor(id, variant) => {
                let mut parts = self.fields(*id, *variant).to_vec();
                parts.push(self.store.plain(TyCon::Adt(*id)));
                self.store.con(TyCon::Fn, parts)
            }
            ExprKind::Field(base, name) => self.field(expr, base, name),
            ExprKind::Index(base, index) => self.index(base, index),
            ExprKind::Neg(value) => {
                let ty = self.expr(value);
                self.checks.push(Check::Arithmetic { ty, tok, symbol: "-", bools: false });
                ty
            }
            ExprKind::Not(value) => {
                let ty = self.expr(value);
                self.checks.push(Check::Arithmetic { ty, tok, symbol: "!", bools: true });
                ty
            }
            ExprKind::Deref(value) | ExprKind::RefMut(value) => self.expr(value),
            ExprKind::Typed(value, ty) => {
                let written = self.store.written(ty);
                self.arg(value, written);
                written
            }
            ExprKind::Binary(op, left, right) => self.arithmetic(*op, left, right, tok),
            ExprKind::AssignOp(op, place, value) => {
                self.arithmetic(*op, place, value, tok);
                self.unit()
            }
            ExprKind::Compare(op, left, right) => {
                let (left, right_ty) = (self.expr(left), self.expr(right));
                self.coerce(right_ty, left, right.tok);
                if !matches!(op, CmpOp::Eq | CmpOp::Ne) {
                    self.refuse_order(left, tok);
                }
                self.bool()
            }
            ExprKind::Logic(_, left, right) => {
                let bool = self.bool();
                self.arg(left, bool);
                let diverges = self.diverges;
                self.arg(right, bool);
                self.diverges = diverges;
                bool
            }
            ExprKind::Cast(value, ty) => {
                let (from, to) = (self.expr(value), self.store.written(ty));
                if is_literal(value) && self.store.is_int(to) {
                    // A literal takes the type that it is cast to: `!0 as u64` is `u64::MAX`.
                    self.store.unify(from, to);
                }
                self.checks.push(Check::Cast { from, to, tok, by_as: true });
                to
            }
            ExprKind::Convert(value, int, fallible) => {
                let from = self.expr(value);
                let to = self.store.int(*int);
                self.checks.push(Check::Cast { from, to, tok, by_as: false });
                if *fallible { self.conversion_result(to) } else { to }
            }
            ExprKind::Assign(place, value) => {
                let ty = self.expr(place);
                self.arg(value, ty);
                self.unit()
            }
            ExprKind::AssignPattern(target, value) => {
                let ty = self.expr(value);
                self.assignee(target, ty);
                self.unit()
            }
            _ => self.call_or_control(expr),
        }
    }

    fn call_or_control(&mut self, expr: &Expr) -> Ty {
        match &expr.kind {
            ExprKind::Call(id, args) => {
                let signature = self.functions[*id as usize].clone();
                self.args(args, &signature.params, expr.tok);
                signature.output
            }
            ExprKind::CallValue(callee, args) => self.call_value(callee, args, expr.tok),
            ExprKind::CallPath(function, args) => self.call_path(*function, args, expr),
            ExprKind::Method(call) => self.method(expr, call),
            ExprKind::Closure(id) => self.closure(*id, None, expr.tok),
            ExprKind::Format(message) => {
                self.message(message);
                self.store.plain(TyCon::Str)
            }
            ExprKind::Panic(message) => {
                self.message(message);
                self.diverge()
            }
            ExprKind::Assert(condition, message) => {
                let bool = self.bool();
                self.arg(condition, bool);
                message.iter().for_each(|message| self.message(message));
                self.unit()
            }
            ExprKind::AssertEq(_, left, right, message) => {
                let left = self.expr(left);
                self.arg(right, left);
                message.iter().for_each(|message| self.message(message));
                self.unit()
            }
            _ => self.control(expr),
        }
    }

    /// Returns the result type of a fallible conversion to an integer.
    pub(super) fn conversion_result(&mut self, to: Ty) -> Ty {
        let error = self.store.plain(TyCon::TryFromIntError);
        self.store.con(TyCon::Result, [to, error])
    }

    fn path_value(&mut self, value: &PathValue) -> Ty {
        match value {
            PathValue::Int(int, _) => self.store.int(*int),
            PathValue::Bits(_) => self.store.int(IntTy::U32),
            PathValue::Ordering(_) => self.store.plain(TyCon::Ordering),
            PathValue::Dsl(ty, _) => self.store.plain(TyCon::Handle(ty)),
            PathValue::None => {
                let item = self.store.var();
                self.store.con(TyCon::Option, [item])
            }
        }
    }

    fn range(&mut self, start: Option<&Expr>, end: Option<&Expr>, _kind: RangeEnd) -> Ty {
        let item = self.store.var();
        for bound in [start, end].into_iter().flatten() {
            let ty = self.expr(bound);
            self.unify(ty, item, bound.tok);
            self.checks.push(Check::Int { ty, tok: bound.tok });
        }
        match (start, end) {
            (Some(_), Some(_)) => self.store.con(TyCon::Range, [item]),
            (Some(_), None) => self.store.con(TyCon::RangeFrom, [item]),
            (None, Some(_)) => self.store.con(TyCon::RangeTo, [item]),
            (None, None) => self.store.plain(TyCon::RangeFull),
        }
    }

    fn field(&mut self, expr: &Expr, base: &Expr, name: &str) -> Ty {
        let ty = self.expr(base);
        let ty = self.known(ty);
        let tree = self.tree;
        let found = match self.store.parts(ty) {
            Some((TyCon::Tuple, parts)) => {
                name.parse::<usize>().ok().and_then(|index| Some((index as u32, *parts.get(index)?)))
            }
            Some((TyCon::Adt(id), _)) if !tree.adts[id as usize].is_enum => {
                let variant = tree.adts[id as usize].variants.first();
                let index = variant.and_then(|variant| variant.shape.fields.position(name));
                index.and_then(|index| Some((index as u32, *self.fields(id, 0).get(index)?)))
            }
            Some((TyCon::Reverse, parts)) if name == "0" => Some((0, parts[0])),
            Some((TyCon::Range, parts)) if name == "start" => Some((0, parts[0])),
            Some((TyCon::Range, parts)) if name == "end" => Some((1, parts[0])),
            _ => None,
        };
        match found {
            Some((index, ty)) => {
                self.targets[expr.id as usize] = Target::Field(index);
                ty
            }
            None => {
                if !self.failed {
                    let shown = self.store.show(ty, &tree.adts);
                    self.error(expr.tok, format!("`{shown}` has no field `{name}` here"));
                }
                self.store.var()
            }
        }
    }

    fn index(&mut self, base: &Expr, index: &Expr) -> Ty {
        let (ty, at) = (self.expr(base), self.expr(index));
        let ty = self.known(ty);
        match self.store.parts(ty) {
            Some((TyCon::Map | TyCon::HashMap, parts)) => {
                self.unify(at, parts[0], index.tok);
                parts[1]
            }
            _ => {
                let item = self.store.var();
                let list = self.store.con(TyCon::List, [item]);
                self.unify(ty, list, base.tok);
                let usize = self.usize();
                let at = self.known(at);
                match self.store.parts(at) {
                    Some((TyCon::Range | TyCon::RangeFrom | TyCon::RangeTo, parts)) => {
                        self.unify(parts[0], usize, index.tok);
                        list
                    }
                    Some((TyCon::RangeFull, _)) => list,
                    _ => {
                        self.unify(at, usize, index.tok);
                        item
                    }
                }
            }
        }
    }

    fn arithmetic(&mut self, op: BinOp, left: &Expr, right: &Expr, tok: u32) -> Ty {
        let (left, right_ty) = (self.expr(left), self.expr(right));
        let bools = matches!(op, BinOp::And | BinOp::Or | BinOp::Xor);
        if matches!(op, BinOp::Shl | BinOp::Shr) {
            self.checks.push(Check::Int { ty: right_ty, tok: right.tok });
        } else {
            self.unify(right_ty, left, right.tok);
        }
        self.checks.push(Check::Arithmetic { ty: left, tok, symbol: op.symbol(), bools });
        left
    }

    /// Rejects handles, which have no order.
    fn refuse_order(&mut self, ty: Ty, tok: u32) {
        if let Some((TyCon::Handle(name), _)) = self.store.parts(ty) {
            self.error(tok, format!("`{name}` has no order"));
        }
    }

    fn assignee(&mut self, target: &Assignee, ty: Ty) {
        match target {
            Assignee::Ignore => {}
            Assignee::Place(place) => {
                let found = self.expr(place);
                self.unify(ty, found, place.tok);
            }
            Assignee::Tuple(parts, tok) => {
                let types: Vec<Ty> = parts.iter().map(|_| self.store.var()).collect();
                let tuple = self.store.con(TyCon::Tuple, types.iter().copied());
                self.unify(ty, tuple, *tok);
                parts.iter().zip(types).for_each(|(part, ty)| self.assignee(part, ty));
            }
            Assignee::List(parts, tok) => {
                let item = self.store.var();
                let list = self.store.con(TyCon::List, [item]);
                self.unify(ty, list, *tok);
                parts.iter().for_each(|part| self.assignee(part, item));
            }
        }
    }

    /// Infers a closure; its expected type determines the types of its parameters before its body is inferred.
    pub(super) fn closure(&mut self, id: ClosureId, expected: Option<Ty>, tok: u32) -> Ty {
        let tree = self.tree;
        let closure = &tree.closures[id as usize];
        let captures = closure.captures.iter().map(|var| match var {
            Var::Local(slot) => self.slot(*slot),
            Var::Captured(index) => self.frame().captures[*index as usize],
        });
        let captures = captures.collect();
        let params: Vec<Ty> = closure.params.iter().map(|(_, ty)| self.param(ty)).collect();
        let output = self.store.written(&closure.output);
        let ty = self.store.con(TyCon::Fn, params.iter().copied().chain([output]));
        if let Some(expected) = expected {
            self.unify(ty, expected, tok);
        }
        self.open(closure.slots, captures, output);
        for ((pattern, _), ty) in closure.params.iter().zip(params) {
            self.pattern(pattern, ty);
        }
        self.body(&closure.body, output);
        self.frames.pop();
        ty
    }

    fn message(&mut self, message: &Message) {
        for piece in &message.pieces {
            if let FormatPart::Value(value, _) = piece {
                self.expr(value);
            }
        }
    }
}

/// Returns whether an expression is an integer literal without a suffix, as far as a cast determines its type.
fn is_literal(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Int(_, None) => true,
        ExprKind::Neg(inner) | ExprKind::Not(inner) => is_literal(inner),
        ExprKind::Block(_, Some(inner), _) => is_literal(inner),
        _ => false,
    }
}
