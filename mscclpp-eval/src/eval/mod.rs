//! Evaluation: runs a tree that has been checked and typed, and calls the authoring API as the function itself would.
//!
//! The semantics are those of Rust: overflow, division by zero, an index out of range and a conversion that loses bits
//! end the evaluation with an error at the token, and so does exceeding one of the [`Limits`].

mod adt;
pub(crate) mod arith;
mod call;
mod control;
mod dsl;
mod expr;
pub(crate) mod fmt;
pub(crate) mod iter;
mod pattern;
pub(crate) mod place;
pub(crate) mod value;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use mscclpp_core::diag::{Code, Diagnostic, Site};
use mscclpp_core::dsl::{Program, registry};
use mscclpp_core::origin::{SourceLocation, Variables};

use crate::hir::{Expr, FnId, For, LabelId, Slot, SpanId, Tree, TyCon, TypeExpr, Var};
use crate::types::Types;
use place::Place;
use value::{Closure, Value};

/// Limits of one evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Expressions evaluated; `max_steps` of the attribute.
    pub(crate) steps: u64,
    /// Nested calls.
    pub(crate) depth: u32,
    /// Operations recorded.
    pub(crate) operations: usize,
    /// Elements created in lists and maps.
    pub(crate) elements: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 5_000_000, depth: 200, operations: 4_000_000, elements: 20_000_000 }
    }
}

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A `break` in progress; its value is in [`Interpreter::carried`].
    Break(LabelId),
    /// A `continue` in progress.
    Continue(LabelId),
    /// A `return` in progress; its value is in [`Interpreter::carried`].
    Return,
    /// An error has been reported.
    Failed,
}

/// The result of evaluating something.
pub(crate) type Eval<T = Value> = Result<T, Stop>;

/// The state of an evaluation.
pub(crate) struct Interpreter<'t> {
    tree: &'t Tree,
    types: &'t Types,
    /// The program that is recorded; none when plain code is evaluated in tests.
    program: Option<&'t Program>,
    /// Path of the source file, for origins.
    file: Arc<str>,
    stack: Vec<Value>,
    /// Start of the frame of the running function.
    base: usize,
    /// The captures of the running closure.
    captures: Option<Rc<Closure>>,
    /// The value of a `break` or `return` in progress.
    carried: Value,
    /// Running `for` loops, with the frames that their variables are in.
    loops: Vec<(usize, &'t For)>,
    /// Running `while` loops and `loop`s.
    open_loops: Vec<SpanId>,
    constants: Vec<Option<Value>>,
    limits: Limits,
    steps: u64,
    depth: u32,
    elements: u64,
    /// The error that ended the evaluation.
    error: Option<Diagnostic>,
}

/// Calls the first function of a tree with the arguments after the program. Errors are recorded in the program, if
/// there is one.
///
/// # Errors
/// The error that stopped the evaluation.
#[allow(clippy::result_large_err, reason = "it is returned once per evaluation")]
pub(crate) fn run(
    tree: &Tree,
    types: &Types,
    program: Option<&Program>,
    args: Vec<Value>,
    file: &Arc<str>,
    limits: Limits,
) -> Result<Value, Diagnostic> {
    let mut vm = Interpreter {
        tree,
        types,
        program,
        file: Arc::clone(file),
        stack: Vec::with_capacity(256),
        base: 0,
        captures: None,
        carried: Value::Unit,
        loops: Vec::new(),
        open_loops: Vec::new(),
        constants: vec![None; tree.constants.len()],
        limits,
        steps: 0,
        depth: 0,
        elements: 0,
        error: None,
    };
    let args = program.map(|_| Value::Program).into_iter().chain(args).collect();
    let tok = tree.functions.first().map_or(0, |function| function.tok);
    match vm.call_function(0, args, tok) {
        Ok(value) => Ok(value),
        Err(_) => Err(vm.error.take().unwrap_or_else(|| {
            Diagnostic::new(Code::Internal, crate::report::at(tok), "evaluation stopped without a reason")
        })),
    }
}

impl<'t> Interpreter<'t> {
    /// Records an error; the evaluation ends.
    pub(crate) fn fail(&mut self, code: Code, tok: SpanId, message: impl Into<String>) -> Stop {
        self.fail_with(code, tok, message, None)
    }

    /// Records an error with a help text; the evaluation ends.
    pub(crate) fn fail_with(
        &mut self,
        code: Code,
        tok: SpanId,
        message: impl Into<String>,
        help: Option<&str>,
    ) -> Stop {
        if self.error.is_none() {
            let place = SourceLocation { token: tok, variables: self.loop_variables(), ..SourceLocation::default() };
            let mut diagnostic = Diagnostic::new(code, Site::Source(place), message);
            if let Some(help) = help {
                diagnostic = diagnostic.help(help);
            }
            self.error = Some(diagnostic);
        }
        Stop::Failed
    }

    /// Handles code that rustc rejects, so that the result does not matter.
    pub(crate) fn ill_typed(&mut self, tok: SpanId) -> Stop {
        self.fail(Code::TypeError, tok, "the types do not fit here")
    }

    /// Counts a step.
    pub(crate) fn step(&mut self, tok: SpanId) -> Eval<()> {
        self.steps += 1;
        if self.steps > self.limits.steps { Err(self.out_of_steps(tok)) } else { Ok(()) }
    }

    fn out_of_steps(&mut self, tok: SpanId) -> Stop {
        let message = format!("evaluation takes more than {} steps", self.limits.steps);
        // If a loop does not end, it is probably the innermost one without a bound.
        let tok = self.open_loops.last().copied().unwrap_or(tok);
        let help = "if the loop is meant to run this long, raise the limit with \
                    `#[collective(…, max_steps = …)]`";
        self.fail_with(Code::TooManySteps, tok, message, Some(help))
    }

    /// Counts created elements.
    pub(crate) fn allocate(&mut self, count: usize, tok: SpanId) -> Eval<()> {
        self.elements = self.elements.saturating_add(count as u64);
        self.steps = self.steps.saturating_add(count as u64 / 8);
        if self.elements > self.limits.elements {
            let message = format!("more than {} elements are made in lists and maps", self.limits.elements);
            let help = "check that the loop ends; a plan needs no data, only indexes and counts";
            return Err(self.fail_with(Code::TooManyElements, tok, message, Some(help)));
        }
        Ok(())
    }

    /// Returns the loop variables in scope that are numbers or ranks, outermost first.
    fn loop_variables(&self) -> Variables {
        let mut variables = Variables::new();
        for (base, inner) in &self.loops {
            for (name, slot) in &inner.variables {
                let value = match &self.stack[base + *slot as usize] {
                    Value::Cell(cell) => cell.try_borrow().map_or(Value::Unit, |value| value.clone()),
                    value => value.clone(),
                };
                match value {
                    Value::Int(int) => variables.push((Arc::clone(name), int)),
                    Value::Handle(handle) => {
                        if let registry::Value::Rank(rank) = &*handle {
                            variables.push((Arc::clone(name), i128::from(*rank)));
                        }
                    }
                    _ => {}
                }
            }
        }
        variables
    }

    /// Returns the value of a variable.
    fn variable(&self, var: Var) -> Value {
        match var {
            Var::Local(slot) => match &self.stack[self.base + slot as usize] {
                Value::Cell(cell) => cell.try_borrow().map_or(Value::Unit, |value| value.clone()),
                value => value.clone(),
            },
            Var::Captured(index) => self.captured(index).try_borrow().map_or(Value::Unit, |value| value.clone()),
        }
    }

    fn captured(&self, index: u32) -> Rc<RefCell<Value>> {
        let cell = self.captures.as_ref().and_then(|closure| closure.captures.get(index as usize));
        cell.map_or_else(|| Rc::new(RefCell::new(Value::Unit)), Rc::clone)
    }

    /// Returns the cell of a variable, which can be referred to from now on.
    fn cell(&mut self, var: Var) -> Rc<RefCell<Value>> {
        match var {
            Var::Local(slot) => {
                let value = &mut self.stack[self.base + slot as usize];
                if let Value::Cell(cell) = value {
                    return Rc::clone(cell);
                }
                let cell = Rc::new(RefCell::new(std::mem::replace(value, Value::Unit)));
                *value = Value::Cell(Rc::clone(&cell));
                cell
            }
            Var::Captured(index) => self.captured(index),
        }
    }

    /// Creates a variable, replacing an earlier one of the slot.
    fn define(&mut self, slot: Slot, value: Value) {
        self.stack[self.base + slot as usize] = value;
    }

    /// Changes the value of a variable.
    fn assign_variable(&mut self, var: Var, value: Value) {
        let cell = match var {
            Var::Local(slot) => match &mut self.stack[self.base + slot as usize] {
                Value::Cell(cell) => Rc::clone(cell),
                slot => {
                    *slot = value;
                    return;
                }
            },
            Var::Captured(index) => self.captured(index),
        };
        if let Ok(mut cell) = cell.try_borrow_mut() {
            *cell = value;
        }
    }

    /// Changes the value at a place.
    pub(crate) fn change<R>(&mut self, place: &Place, tok: SpanId, change: impl FnOnce(&mut Value) -> R) -> Eval<R> {
        let mut copied = 0;
        let result = place.with(&mut copied, change);
        if copied > 0 {
            self.allocate(copied, tok)?;
        }
        match result {
            Some(result) => Ok(result),
            None => Err(self.ill_typed(tok)),
        }
    }

    /// Calls a function of the user.
    pub(crate) fn call_function(&mut self, id: FnId, args: Vec<Value>, tok: SpanId) -> Eval {
        let tree = self.tree;
        let function = &tree.functions[id as usize];
        let frame = self.enter(function.slots, None, tok)?;
        let result = self.body(&function.params, args, &function.body, &function.output);
        self.leave(frame);
        result
    }

    /// Calls a closure.
    pub(crate) fn call_closure(&mut self, closure: &Rc<Closure>, args: Vec<Value>, tok: SpanId) -> Eval {
        let tree = self.tree;
        let code = &tree.closures[closure.id as usize];
        let frame = self.enter(code.slots, Some(Rc::clone(closure)), tok)?;
        let result = self.body(&code.params, args, &code.body, &code.output);
        self.leave(frame);
        result
    }

    /// Calls a value.
    pub(crate) fn call(&mut self, callee: &Value, args: Vec<Value>, tok: SpanId) -> Eval {
        match callee {
            Value::Closure(closure) => self.call_closure(closure, args, tok),
            Value::Function(id) => self.call_function(*id, args, tok),
            Value::PathFn(function, node) => self.call_path(*function, *node, args, tok),
            Value::Constructor(id, variant) => self.adt(*id, *variant, args, tok),
            Value::Place(place) => {
                let callee = place.get().load();
                self.call(&callee, args, tok)
            }
            _ => Err(self.ill_typed(tok)),
        }
    }

    fn enter(&mut self, slots: u32, captures: Option<Rc<Closure>>, tok: SpanId) -> Eval<Frame> {
        self.step(tok)?;
        if self.depth >= self.limits.depth {
            let message = format!("calls nest more than {} deep", self.limits.depth);
            let help = "does this recursion end? a loop needs no depth";
            return Err(self.fail_with(Code::RecursionLimit, tok, message, Some(help)));
        }
        self.depth += 1;
        let frame = Frame { base: self.base, captures: std::mem::replace(&mut self.captures, captures) };
        self.base = self.stack.len();
        self.stack.resize(self.base + slots as usize, Value::Unit);
        Ok(frame)
    }

    fn leave(&mut self, frame: Frame) {
        self.stack.truncate(self.base);
        self.base = frame.base;
        self.captures = frame.captures;
        self.depth -= 1;
    }

    fn body(
        &mut self,
        params: &'t [(crate::hir::Pattern, TypeExpr)],
        args: Vec<Value>,
        body: &'t Expr,
        output: &'t TypeExpr,
    ) -> Eval {
        for ((pattern, ty), arg) in params.iter().zip(args) {
            let arg = self.coerced(arg, ty, pattern.tok)?;
            if !self.bind(pattern, arg)? {
                return Err(self.ill_typed(pattern.tok));
            }
        }
        let value = match self.eval(body) {
            Err(Stop::Return) => std::mem::replace(&mut self.carried, Value::Unit),
            result => result?,
        };
        self.coerced(value, output, body.tok)
    }

    /// Converts a value to a written type: where an iterator is required, the value becomes one.
    fn coerced(&mut self, value: Value, ty: &TypeExpr, tok: SpanId) -> Eval {
        match ty {
            TypeExpr::Each(_) | TypeExpr::TyCon(TyCon::Iter, _) => self.iterate(value, tok),
            _ => Ok(value),
        }
    }
}

/// The state to which a call returns.
struct Frame {
    base: usize,
    captures: Option<Rc<Closure>>,
}
