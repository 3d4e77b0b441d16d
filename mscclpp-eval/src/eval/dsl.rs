//! Calls of the authoring API: the same functions that native code calls.

use std::rc::Rc;
use std::sync::Arc;

use mscclpp_core::diag::Code;
use mscclpp_core::dsl::registry::{self as dsl, Method, RangeValue};
use mscclpp_core::origin::SourceLocation;
use smallvec::SmallVec;

use super::value::Value;
use super::{Eval, Interpreter};
use crate::hir::{Expr, MethodCall, SpanId};
use crate::report::AT_RUN_TIME;

impl<'t> Interpreter<'t> {
    pub(super) fn dsl_method(&mut self, method: &Method, expr: &'t Expr, call: &'t MethodCall) -> Eval {
        let receiver = self.eval(&call.receiver)?;
        let receiver = self.encode(receiver, call.receiver.tok)?;
        let mut args: SmallVec<[dsl::Value; 4]> = SmallVec::new();
        for arg in &call.args {
            let value = self.eval(arg)?;
            args.push(self.encode(value, arg.tok)?);
        }
        self.set_place(expr.tok, call);
        let Some(program) = self.program else { return Err(self.ill_typed(expr.tok)) };
        let value = match (method.call)(program, &receiver, &args) {
            Ok(value) => value,
            Err(error) => {
                let message = format!("{}: {error}", call.name);
                return Err(self.fail(Code::TypeError, expr.tok, message));
            }
        };
        if program.num_operations() > self.limits.operations {
            let message = format!("more than {} operations are recorded", self.limits.operations);
            let help = format!("check that the loop ends; {AT_RUN_TIME}");
            return Err(self.fail_with(Code::TooManySteps, expr.tok, message, Some(&help)));
        }
        let value = self.decode(value);
        if method.returns == "Ranks<'_>" { self.iterate(value, expr.tok) } else { Ok(value) }
    }

    pub(super) fn pipeline(&mut self, expr: &'t Expr, call: &'t MethodCall) -> Eval {
        let [unit, chunks, body] = call.args.as_slice() else { return Err(self.ill_typed(expr.tok)) };
        let unit = self.integer(unit)?;
        let chunks = self.integer(chunks)?;
        let body = self.eval(body)?;
        let (Some(program), Ok(unit), Ok(chunks)) = (self.program, u64::try_from(unit), usize::try_from(chunks)) else {
            return Err(self.ill_typed(expr.tok));
        };
        self.set_place(expr.tok, call);
        program.begin_pipeline(unit, chunks);
        let value = self.call(&body, Vec::new(), expr.tok);
        program.end_pipeline();
        value
    }

    /// Sets the recorder's source location for the next call.
    fn set_place(&self, tok: SpanId, call: &MethodCall) {
        if let Some(program) = self.program {
            program.set_location(Some(SourceLocation {
                file: Arc::clone(&self.file),
                line: call.line,
                column: call.column,
                variables: self.loop_variables(),
                token: tok,
                arguments: call.whole_args.clone(),
            }));
        }
    }

    /// Converts a value to one of the authoring API.
    fn encode(&mut self, value: Value, tok: SpanId) -> Eval<dsl::Value> {
        Ok(match value {
            Value::Handle(handle) => (*handle).clone(),
            Value::Int(int) => dsl::Value::Int(int),
            Value::Bool(bool) => dsl::Value::Bool(bool),
            Value::Unit | Value::Program => dsl::Value::Unit,
            Value::Range(range) => dsl::Value::Range(RangeValue { start: range.start, end: range.stop() }),
            Value::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items.iter() {
                    list.push(self.encode(item.clone(), tok)?);
                }
                dsl::Value::List(Rc::new(list))
            }
            Value::Iter(iter) => {
                let items = self.drain(&iter, tok)?;
                self.encode(Value::list(items), tok)?
            }
            Value::Place(place) => self.encode(place.get(), tok)?,
            _ => return Err(self.ill_typed(tok)),
        })
    }

    fn decode(&self, value: dsl::Value) -> Value {
        match value {
            dsl::Value::Unit => Value::Unit,
            dsl::Value::Int(int) => Value::Int(int),
            dsl::Value::Bool(bool) => Value::Bool(bool),
            dsl::Value::List(list) => Value::list(list.iter().map(|value| self.decode(value.clone())).collect()),
            handle => Value::handle(handle),
        }
    }
}
