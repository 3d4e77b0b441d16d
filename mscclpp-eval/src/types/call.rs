//! Types of calls: which function a method call refers to, its arguments and its result.

use mscclpp_core::dsl::registry::{self, Kind, Method};

use super::sig::{self, Sig};
use super::store::{Node, Ty};
use super::{Check, Infer, Relation, Target};
use crate::hir::{Expr, ExprKind, IntTy, MethodCall, PathFnId, SpanId, TyCon};
use crate::lang::{self, Builtin, PATHS, Takes};
use crate::report::AT_RUN_TIME;

impl Infer<'_> {
    /// Infers an argument or other value whose type is known.
    pub(super) fn arg(&mut self, value: &Expr, expected: Ty) {
        let found = match &value.kind {
            ExprKind::Closure(id) => {
                let ty = self.closure(*id, Some(expected), value.tok);
                self.record(value.id, ty)
            }
            _ => self.expr(value),
        };
        self.coerce(found, expected, value.tok);
    }

    /// Infers arguments: closures last, when the types of their parameters are known.
    pub(super) fn args(&mut self, args: &[Expr], params: &[Ty], tok: SpanId) {
        if args.len() != params.len() {
            self.error(tok, format!("expected {} arguments, found {}", params.len(), args.len()));
        }
        let is_closure = |arg: &Expr| matches!(arg.kind, ExprKind::Closure(_));
        for closures in [false, true] {
            for (arg, param) in args.iter().zip(params) {
                if is_closure(arg) == closures {
                    self.arg(arg, *param);
                }
            }
            self.solve();
        }
    }

    pub(super) fn call_value(&mut self, callee: &Expr, args: &[Expr], tok: SpanId) -> Ty {
        let ty = self.expr(callee);
        let params: Vec<Ty> = args.iter().map(|_| self.store.var()).collect();
        let output = self.store.var();
        let function = self.store.con(TyCon::Fn, params.iter().copied().chain([output]));
        self.unify(ty, function, callee.tok);
        self.args(args, &params, tok);
        output
    }

    pub(super) fn call_path(&mut self, function: PathFnId, args: &[Expr], expr: &Expr) -> Ty {
        match sig::instantiate(&mut self.store, PATHS[function as usize].sig, None) {
            Some(sig) => self.apply(&sig, args, expr),
            None => self.store.var(),
        }
    }

    /// Returns the type of a function of the language as a value.
    pub(super) fn path_fn(&mut self, function: PathFnId, expr: &Expr) -> Ty {
        let Some(sig) = sig::instantiate(&mut self.store, PATHS[function as usize].sig, None) else {
            return self.store.var();
        };
        self.require(&sig, expr);
        self.store.con(TyCon::Fn, sig.params.iter().copied().chain([sig.result]))
    }

    /// Records what a signature requires of its types.
    fn require(&mut self, sig: &Sig, expr: &Expr) {
        let tok = expr.tok;
        for (relation, collection, item) in sig.related.iter().copied() {
            self.pending.push(super::Pending { collection, item, tok, relation });
        }
        self.wanted.extend(sig.default.map(|ty| (expr.id, ty, tok)));
    }

    /// Checks arguments against a signature; returns the type of the result.
    fn apply(&mut self, sig: &Sig, args: &[Expr], expr: &Expr) -> Ty {
        self.require(sig, expr);
        let collected = sig.related.iter().filter(|(relation, ..)| *relation != Relation::Each);
        self.made.extend(collected.enumerate().map(|(index, (_, collection, _))| (expr.id, index, *collection)));
        self.args(args, &sig.params, expr.tok);
        sig.result
    }

    pub(super) fn method(&mut self, expr: &Expr, call: &MethodCall) -> Ty {
        let receiver = self.expr(&call.receiver);
        let receiver = self.known(receiver);
        match self.store.parts(receiver) {
            Some((TyCon::Program, _)) if &*call.name == "pipeline" => self.pipeline(expr, call),
            Some((TyCon::Program, _)) => self.dsl_method("Program", expr, call),
            Some((TyCon::Handle(name), _)) if registry::method(name, &call.name).is_some() => {
                self.dsl_method(name, expr, call)
            }
            Some((TyCon::Adt(id), _)) => {
                let methods = &self.tree.adts[id as usize].methods;
                match methods.iter().find(|(name, _)| *name == call.name) {
                    Some((_, function)) => {
                        self.targets[expr.id as usize] = Target::Function(*function);
                        let signature = self.functions[*function as usize].clone();
                        if let Some((first, params)) = signature.params.split_first() {
                            self.unify(receiver, *first, call.receiver.tok);
                            self.args(&call.args, params, expr.tok);
                        }
                        signature.output
                    }
                    None => self.language_method(expr, call, receiver),
                }
            }
            Some((TyCon::List, args)) => match self.list_of_handles(args[0], &call.name) {
                Some(name) => self.dsl_method(&name, expr, call),
                None => self.language_method(expr, call, receiver),
            },
            _ => self.language_method(expr, call, receiver),
        }
    }

    /// The registry's name of a list of handles that has a method.
    fn list_of_handles(&self, item: Ty, method: &str) -> Option<String> {
        let (TyCon::Handle(name), _) = self.store.parts(item)? else { return None };
        let list = format!("[{name}]");
        registry::method(&list, method).map(|_| list)
    }

    fn language_method(&mut self, expr: &Expr, call: &MethodCall, receiver: Ty) -> Ty {
        if self.store.is_var(receiver) {
            if !self.failed {
                let message = format!("the type that `{}` is called on is not known here", call.name);
                self.error(call.receiver.tok, message);
            }
            return self.untyped_call(call);
        }
        if call.args.is_empty() && matches!(&*call.name, "into" | "try_into") {
            return self.into(expr, call, receiver);
        }
        let tables = match self.store.node(receiver) {
            Node::Int(_) | Node::IntVar => lang::tables_of_integers(),
            Node::TyCon(con, _) => lang::tables(*con),
            Node::Var | Node::Link(_) => &[],
        };
        for table in tables {
            let Some(builtin) = table.find(&call.name) else { continue };
            let on = self.receiver_for(table, receiver, call, builtin);
            let Some(sig) = sig::instantiate(&mut self.store, builtin.sig, Some((table.header, on))) else { continue };
            self.targets[expr.id as usize] = Target::Builtin(builtin, [None; 2]);
            let result = self.apply(&sig, &call.args, expr);
            if matches!(&*call.name, "sum" | "product") {
                self.checks.push(Check::Total { ty: result, tok: expr.tok });
            }
            if let Some(turbofish) = &call.turbofish {
                // Of other methods the first type argument is not the result.
                if !["collect", "sum", "product", "fold"].contains(&&*call.name) {
                    let message = format!("type arguments of `{}` are not evaluated at compile time", call.name);
                    self.refuse(expr.tok, message, "leave them out, and write the type at a variable or a parameter");
                    return result;
                }
                let written = self.store.written(turbofish);
                self.unify(written, result, expr.tok);
            }
            return result;
        }
        self.unknown_method(expr, call, receiver);
        self.untyped_call(call)
    }

    /// Returns the result type of `into` of any type, or `try_into` of an integer.
    fn into(&mut self, expr: &Expr, call: &MethodCall, from: Ty) -> Ty {
        let to = self.store.var();
        if &*call.name == "into" {
            self.checks.push(Check::Into { node: expr.id, from, to, tok: expr.tok });
            return to;
        }
        self.checks.push(Check::Cast { from, to, tok: expr.tok, by_as: false });
        self.tries.push((expr.id, to));
        self.conversion_result(to)
    }

    /// Returns the type that a table's methods are called on: a range is an iterator as well.
    fn receiver_for(&mut self, table: &lang::Table, receiver: Ty, call: &MethodCall, builtin: &Builtin) -> Ty {
        let Some((TyCon::Range | TyCon::RangeFrom, parts)) = self.store.parts(receiver) else { return receiver };
        if !table.header.starts_with("Iter") {
            return receiver;
        }
        let place = matches!(
            call.receiver.kind,
            ExprKind::Var(_) | ExprKind::Field(..) | ExprKind::Index(..) | ExprKind::Deref(_)
        );
        if builtin.takes == Takes::Advanced && place {
            let message = format!("`{}` would advance the range that is kept here, which is not evaluated", call.name);
            self.refuse(
                call.receiver.tok,
                message,
                "make the range where it is used, or turn it into an iterator with `.map(|i| i)`",
            );
        }
        self.store.con(TyCon::Iter, parts)
    }

    /// Infers the arguments of an unknown call, so that their own errors are found.
    fn untyped_call(&mut self, call: &MethodCall) -> Ty {
        for arg in &call.args {
            let ty = self.store.var();
            self.arg(arg, ty);
        }
        self.store.var()
    }

    fn unknown_method(&mut self, expr: &Expr, call: &MethodCall, receiver: Ty) {
        let shown = self.store.show(receiver, &self.tree.adts);
        let handle = matches!(self.store.parts(receiver), Some((TyCon::Handle(_) | TyCon::Program | TyCon::Adt(_), _)));
        if handle {
            // rustc determines whether there is such a method, and lists the alternatives.
            self.error(expr.tok, format!("`{}` of `{shown}` is not evaluated at compile time", call.name));
        } else {
            let message = format!("`{}` of `{shown}` is not evaluated at compile time", call.name);
            self.refuse(
                expr.tok,
                message,
                &format!("`mscclpp explain --subset` lists the methods that are; {AT_RUN_TIME}"),
            );
        }
    }

    fn pipeline(&mut self, expr: &Expr, call: &MethodCall) -> Ty {
        self.targets[expr.id as usize] = Target::Pipeline;
        let (unit, chunks, output) = (self.store.int(IntTy::U64), self.usize(), self.store.var());
        let body = self.store.con(TyCon::Fn, [output]);
        self.args(&call.args, &[unit, chunks, body], expr.tok);
        output
    }

    fn dsl_method(&mut self, ty: &str, expr: &Expr, call: &MethodCall) -> Ty {
        let Some(method) = registry::method(ty, &call.name) else {
            self.error(expr.tok, format!("`{}` of `{ty}` is not evaluated at compile time", call.name));
            return self.untyped_call(call);
        };
        self.targets[expr.id as usize] = Target::Dsl(method);
        let params: Vec<Ty> = method.params.iter().map(|param| self.kind_type(param.kind)).collect();
        self.args(&call.args, &params, expr.tok);
        self.returned(method)
    }

    /// Returns the type of a parameter of the authoring API; a variable if several types are possible.
    fn kind_type(&mut self, kind: Kind) -> Ty {
        match kind {
            Kind::usize => self.usize(),
            Kind::i64 => self.store.int(IntTy::I64),
            Kind::BufferKind => self.store.plain(TyCon::Handle("BufferKind")),
            Kind::BlockSync => self.store.plain(TyCon::Handle("BlockSync")),
            Kind::ReduceOp => self.store.plain(TyCon::Handle("ReduceOp")),
            Kind::AnyChunk | Kind::PacketChunk => self.store.plain(TyCon::Handle("Chunk")),
            // Traits with several implementations: a literal is an `i32` there unless something else determines its
            // type.
            _ => self.store.var(),
        }
    }

    /// Returns the type that a function of the authoring API returns.
    fn returned(&mut self, method: &Method) -> Ty {
        let returns = method.returns.trim();
        if let Some(item) = returns.strip_prefix("Vec<") {
            let item = self.returned_type(item);
            return self.store.con(TyCon::List, [item]);
        }
        self.returned_type(returns)
    }

    /// A type as a function of the authoring API names it.
    fn returned_type(&mut self, name: &str) -> Ty {
        let name: String = name.chars().take_while(char::is_ascii_alphanumeric).collect();
        match (name.as_str(), IntTy::from_name(&name)) {
            ("", _) => self.unit(),
            (_, Some(int)) => self.store.int(int),
            ("bool", _) => self.bool(),
            ("Ranks", _) => {
                let rank = self.store.plain(TyCon::Handle("Rank"));
                self.store.con(TyCon::Iter, [rank])
            }
            (name, _) => match lang::dsl::handle(name) {
                Some(name) => self.store.plain(TyCon::Handle(name)),
                None => self.store.var(),
            },
        }
    }
}
