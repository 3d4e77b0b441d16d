//! Calls of methods and of functions of the language.

use super::place::Place;
use super::value::Value;
use super::{Eval, Interpreter};
use crate::hir::{Expr, IntTy, MethodCall, NodeId, PathFnId, SpanId};
use crate::lang::{Call, PATHS, Takes};
use crate::types::{Conversion, Target};

impl<'t> Interpreter<'t> {
    pub(super) fn method(&mut self, expr: &'t Expr, call: &'t MethodCall) -> Eval {
        match self.types.target(expr.id) {
            Target::Dsl(method) => self.dsl_method(method, expr, call),
            Target::Builtin(builtin, made) => {
                let (receiver, place) = if builtin.takes == Takes::Place {
                    (Value::Unit, self.place(&call.receiver)?.follow())
                } else {
                    (self.eval(&call.receiver)?.load(), Place::of_value(Value::Unit))
                };
                let mut call = Call {
                    receiver,
                    place,
                    args: self.each(&call.args)?,
                    int: self.types.int(call.receiver.id),
                    result: self.types.int(expr.id),
                    made,
                    node: expr.id,
                    tok: expr.tok,
                };
                (builtin.run)(self, &mut call)
            }
            Target::Function(id) => {
                let changes = self.tree.functions[id as usize].changes_self;
                let receiver = if changes {
                    Value::Place(std::rc::Rc::new(self.place(&call.receiver)?.follow()))
                } else {
                    self.eval(&call.receiver)?.load()
                };
                let mut args = vec![receiver];
                for arg in &call.args {
                    args.push(self.eval(arg)?);
                }
                self.call_function(id, args, expr.tok)
            }
            Target::Pipeline => self.pipeline(expr, call),
            Target::Convert(conversion) => match conversion {
                Conversion::Same => self.eval(&call.receiver),
                Conversion::Some => Ok(Value::some(self.eval(&call.receiver)?)),
                Conversion::Int(int) => self.convert(&call.receiver, int, false, expr.tok),
                Conversion::TryInt(int) => self.convert(&call.receiver, int, true, expr.tok),
            },
            Target::None | Target::Field(_) => Err(self.ill_typed(expr.tok)),
        }
    }

    /// Calls a function of the language that is named at a node.
    pub(super) fn call_path(&mut self, function: PathFnId, node: NodeId, args: Vec<Value>, tok: SpanId) -> Eval {
        let (int, result) = (IntTy::default(), IntTy::default());
        let place = Place::of_value(Value::Unit);
        (PATHS[function as usize].run)(
            self,
            &mut Call { receiver: Value::Unit, place, args, int, result, made: [None; 2], node, tok },
        )
    }
}
