//! Blocks, branches, loops and assertions.

use mscclpp_core::diag::Code;

use super::pattern::Choices;
use super::value::Value;
use super::{Eval, Interpreter, Stop};
use crate::hir::{Arm, Expr, ExprKind, For, FormatPart, LabelId, Message, PatternKind, SpanId, Stmt};

impl<'t> Interpreter<'t> {
    pub(super) fn control(&mut self, expr: &'t Expr) -> Eval {
        match &expr.kind {
            ExprKind::Let(pattern, value) => {
                let value = self.eval(value)?;
                Ok(Value::Bool(self.bind(pattern, value)?))
            }
            ExprKind::Match(value, arms) => self.match_arms(value, arms, expr.tok),
            ExprKind::Loop(label, body) => {
                self.open_loops.push(expr.tok);
                let result = self.endless(*label, body, expr.tok);
                self.open_loops.pop();
                result
            }
            ExprKind::While(label, condition, body) => {
                self.open_loops.push(expr.tok);
                let result = self.while_loop(*label, condition, body, expr.tok);
                self.open_loops.pop();
                result
            }
            ExprKind::For(inner) => {
                let depth = self.loops.len();
                let result = self.for_loop(inner, expr.tok);
                self.loops.truncate(depth);
                result
            }
            ExprKind::Break(label, value) => {
                self.carried = match value {
                    Some(value) => self.eval(value)?,
                    None => Value::Unit,
                };
                Err(Stop::Break(*label))
            }
            ExprKind::Continue(label) => Err(Stop::Continue(*label)),
            ExprKind::Return(value) => {
                self.carried = match value {
                    Some(value) => self.eval(value)?,
                    None => Value::Unit,
                };
                Err(Stop::Return)
            }
            ExprKind::Try(value) => match self.eval(value)?.load() {
                Value::Some(value) => Ok((*value).clone()),
                Value::Ok(value) => Ok((*value).clone()),
                stop @ (Value::None | Value::Err(_)) => {
                    self.carried = stop;
                    Err(Stop::Return)
                }
                _ => Err(self.ill_typed(expr.tok)),
            },
            ExprKind::Assert(condition, message) => {
                if self.truth(condition)? {
                    return Ok(Value::Unit);
                }
                let text = match message {
                    Some(message) => self.text(message)?,
                    None => "this assertion does not hold".to_owned(),
                };
                Err(self.panic(expr.tok, text))
            }
            ExprKind::AssertEq(equal, left, right, message) => {
                let (left, right) = (self.eval(left)?.load(), self.eval(right)?.load());
                if (left == right) == *equal {
                    return Ok(Value::Unit);
                }
                let text = match message {
                    Some(message) => format!("{}: ", self.text(message)?),
                    None => String::new(),
                };
                let (left, right) = (super::fmt::debug(&left), super::fmt::debug(&right));
                let what = if *equal { "differ" } else { "are equal" };
                Err(self.panic(expr.tok, format!("{text}both sides {what}: left is {left}, right is {right}")))
            }
            ExprKind::Panic(message) => {
                let text = self.text(message)?;
                Err(self.panic(expr.tok, text))
            }
            ExprKind::Format(message) => Ok(Value::Str(self.text(message)?.into())),
            _ => Err(self.ill_typed(expr.tok)),
        }
    }

    pub(super) fn panic(&mut self, tok: SpanId, text: String) -> Stop {
        self.fail(Code::Panicked, tok, text)
    }

    /// Returns the text of a message.
    fn text(&mut self, message: &'t Message) -> Eval<String> {
        let mut text = String::new();
        for piece in &message.pieces {
            match piece {
                FormatPart::Text(plain) => text.push_str(plain),
                FormatPart::Value(value, debug) => {
                    let value = self.eval(value)?.load();
                    text.push_str(&if *debug { super::fmt::debug(&value) } else { super::fmt::display(&value) });
                }
            }
        }
        Ok(text)
    }

    pub(super) fn block(&mut self, stmts: &'t [Stmt], value: Option<&'t Expr>, label: Option<LabelId>) -> Eval {
        match (self.statements(stmts, value), label) {
            (Err(Stop::Break(target)), Some(label)) if target == label => {
                Ok(std::mem::replace(&mut self.carried, Value::Unit))
            }
            (result, _) => result,
        }
    }

    fn statements(&mut self, stmts: &'t [Stmt], value: Option<&'t Expr>) -> Eval {
        for stmt in stmts {
            match stmt {
                Stmt::Expr(expr) => drop(self.eval(expr)?),
                Stmt::Let(stmt) => match &stmt.value {
                    None => {
                        if let PatternKind::Bind(slot, None) = &stmt.pattern.kind {
                            self.define(*slot, Value::Unit);
                        }
                    }
                    Some(value) => {
                        let value = self.eval(value)?;
                        let value = self.coerced(value, &stmt.ty, stmt.pattern.tok)?;
                        if !self.bind(&stmt.pattern, value)? {
                            match &stmt.otherwise {
                                Some(otherwise) => drop(self.eval(otherwise)?),
                                None => return Err(self.ill_typed(stmt.pattern.tok)),
                            }
                        }
                    }
                },
            }
        }
        match value {
            Some(value) => self.eval(value),
            None => Ok(Value::Unit),
        }
    }

    pub(super) fn if_else(&mut self, condition: &'t Expr, then: &'t Expr, otherwise: Option<&'t Expr>) -> Eval {
        if self.truth(condition)? {
            return self.eval(then);
        }
        match otherwise {
            Some(otherwise) => self.eval(otherwise),
            None => Ok(Value::Unit),
        }
    }

    fn match_arms(&mut self, value: &'t Expr, arms: &'t [Arm], tok: SpanId) -> Eval {
        let value = self.eval(value)?;
        for arm in arms {
            let Some(guard) = &arm.guard else {
                if self.bind(&arm.pattern, value.clone())? {
                    return self.eval(&arm.body);
                }
                continue;
            };
            // A guard decides on each alternative of `|` that matches, until it holds for one.
            let mut choices = Choices::default();
            loop {
                if self.bind_with(&arm.pattern, value.clone(), Some(&mut choices))? && self.truth(guard)? {
                    return self.eval(&arm.body);
                }
                if !choices.advance() {
                    break;
                }
                self.step(tok)?;
            }
        }
        // rustc ensures that one arm matches.
        Err(self.ill_typed(tok))
    }

    fn endless(&mut self, label: LabelId, body: &'t Expr, tok: SpanId) -> Eval {
        loop {
            self.step(tok)?;
            if let Some(result) = self.iteration(label, body)? {
                return Ok(result);
            }
        }
    }

    fn while_loop(&mut self, label: LabelId, condition: &'t Expr, body: &'t Expr, tok: SpanId) -> Eval {
        while self.truth(condition)? {
            self.step(tok)?;
            if self.iteration(label, body)?.is_some() {
                break;
            }
        }
        Ok(Value::Unit)
    }

    /// Runs one iteration of a loop; returns the value of the loop if it ends here.
    fn iteration(&mut self, label: LabelId, body: &'t Expr) -> Eval<Option<Value>> {
        match self.eval(body) {
            Ok(_) => Ok(None),
            Err(Stop::Continue(target)) if target == label => Ok(None),
            Err(Stop::Break(target)) if target == label => Ok(Some(std::mem::replace(&mut self.carried, Value::Unit))),
            Err(stop) => Err(stop),
        }
    }

    fn for_loop(&mut self, inner: &'t For, tok: SpanId) -> Eval {
        if let ExprKind::Range(Some(start), Some(end), kind) = &inner.over.kind {
            // The most common loops; they need no iterator.
            let (start, end) = (self.integer(start)?, self.integer(end)?);
            let stop = end + i128::from(*kind == crate::hir::RangeEnd::Inclusive);
            self.loops.push((self.base, inner));
            let mut next = start;
            while next < stop {
                if self.for_item(inner, Value::Int(next), tok)? {
                    break;
                }
                next += 1;
            }
            return Ok(Value::Unit);
        }
        let over = self.eval(&inner.over)?;
        let iter = self.make_iter(over, inner.over.tok)?;
        self.loops.push((self.base, inner));
        while let Some(item) = self.next(&iter, inner.over.tok)? {
            if self.for_item(inner, item, tok)? {
                break;
            }
        }
        Ok(Value::Unit)
    }

    /// Runs a loop's body for an item; returns whether the loop ends.
    fn for_item(&mut self, inner: &'t For, item: Value, tok: SpanId) -> Eval<bool> {
        self.step(tok)?;
        if !self.bind(&inner.pattern, item)? {
            return Err(self.ill_typed(inner.pattern.tok));
        }
        Ok(self.iteration(inner.label, &inner.body)?.is_some())
    }
}
