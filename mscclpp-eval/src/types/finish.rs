//! Checks of the final types.

use std::collections::BTreeMap;

use super::store::{Node, Ty};
use super::{Check, Conversion, Infer, Relation, Target, Types};
use crate::hir::{Collected, DEFAULT, SpanId, TyCon, TypeExpr};

impl Infer<'_> {
    /// Resolves the remaining types and returns what evaluation needs.
    pub(super) fn finish(mut self) -> Types {
        self.solve();
        let quiet = self.failed;
        for pending in std::mem::take(&mut self.pending) {
            if !quiet {
                let what = match pending.relation {
                    Relation::Each => "the collection that this iterates over",
                    Relation::Collect => "the collection that this collects into",
                    Relation::Try => "whether this function returns an `Option` or a `Result`",
                };
                self.error(pending.tok, format!("{what} is not known here"));
            }
        }
        for check in std::mem::take(&mut self.checks) {
            self.check(&check);
        }
        for (id, index, ty) in std::mem::take(&mut self.made) {
            let collected = self.collected(ty);
            if let Target::Builtin(_, made) = &mut self.targets[id as usize] {
                made[index] = collected;
            }
        }
        for (id, to) in std::mem::take(&mut self.tries) {
            let int = self.store.int_of(to).unwrap_or_default();
            self.targets[id as usize] = Target::Convert(Conversion::TryInt(int));
        }
        let mut defaults = BTreeMap::new();
        for (id, ty, tok) in std::mem::take(&mut self.wanted) {
            if let Some(found) = self.default_type(ty, tok) {
                defaults.insert(id, found);
            }
        }
        let ints = self.types.iter().map(|ty| self.store.int_of(*ty)).collect();
        Types { ints, targets: self.targets, defaults }
    }

    /// Returns the collection that a type describes.
    fn collected(&self, ty: Ty) -> Option<Collected> {
        let (con, args) = self.store.parts(ty)?;
        match con {
            TyCon::Option | TyCon::Result => {
                let inner = args.first().and_then(|inner| self.store.parts(*inner));
                Some(Collected { stops: Some(con), into: inner.map_or(TyCon::Unit, |(inner, _)| inner) })
            }
            con => Some(Collected { stops: None, into: con }),
        }
    }

    /// Returns a type whose default is requested.
    fn default_type(&mut self, ty: Ty, tok: SpanId) -> Option<TypeExpr> {
        let found = self.store.resolve(ty);
        match &found {
            Some(found) => self.check_default(found, tok),
            None if self.failed => {}
            None => self.error(tok, "the type of this default is not known here".to_owned()),
        }
        found
    }

    fn check_default(&mut self, ty: &TypeExpr, tok: SpanId) {
        match ty {
            TypeExpr::TyCon(TyCon::Array, _) => {
                let message = "the default of an array is not evaluated at compile time".to_owned();
                self.refuse(tok, message, "write it out, as in `[0; 4]`");
            }
            TypeExpr::TyCon(TyCon::Tuple | TyCon::Reverse, parts) => {
                parts.iter().for_each(|part| self.check_default(part, tok));
            }
            TypeExpr::TyCon(TyCon::Adt(id), _) => {
                let adt = &self.tree.adts[*id as usize];
                if !adt.methods.iter().any(|(name, _)| &**name == DEFAULT) {
                    self.error(tok, format!("`{}` has no default", adt.name));
                }
            }
            TypeExpr::TyCon(
                TyCon::Unit
                | TyCon::Bool
                | TyCon::Str
                | TyCon::List
                | TyCon::Option
                | TyCon::Map
                | TyCon::HashMap
                | TyCon::Set
                | TyCon::HashSet,
                _,
            )
            | TypeExpr::Int(_) => {}
            TypeExpr::TyCon(con, _) => {
                self.error(tok, format!("`{}` has no default here", con.name()));
            }
            TypeExpr::Infer | TypeExpr::Each(_) => {}
        }
    }

    fn check(&mut self, check: &Check) {
        match *check {
            Check::Arithmetic { ty, tok, symbol, bools } => {
                let fine = self.store.is_int(ty)
                    || matches!(self.store.parts(ty), Some((TyCon::Bool, _)) if bools)
                    || (self.failed && self.store.is_var(ty));
                if !fine {
                    let shown = self.store.show(ty, &self.tree.adts);
                    let message = format!("`{symbol}` on `{shown}` is not evaluated at compile time");
                    self.refuse(tok, message, "compute with integers");
                }
            }
            Check::Cast { from, to, tok, by_as } => {
                let fine = self.store.is_int(from)
                    || match self.store.parts(from) {
                        Some((TyCon::Bool, _)) => true,
                        Some((TyCon::Adt(id), _)) if by_as => {
                            let adt = &self.tree.adts[id as usize];
                            adt.is_enum && adt.variants.iter().all(|variant| variant.types.is_empty())
                        }
                        _ => false,
                    };
                if !fine || !self.store.is_int(to) {
                    let (from, to) = (self.store.show(from, &self.tree.adts), self.store.show(to, &self.tree.adts));
                    let message = format!("the conversion from `{from}` to `{to}` is not evaluated at compile time");
                    self.refuse(
                        tok,
                        message,
                        "convert between integers, or from `bool` or an enum without fields to an integer",
                    );
                }
            }
            Check::Into { node, from, to, tok } => {
                let conversion = self.conversion(from, to);
                match conversion {
                    Some(conversion) => self.targets[node as usize] = Target::Convert(conversion),
                    None if self.failed => {}
                    None => {
                        let (from, to) = (self.store.show(from, &self.tree.adts), self.store.show(to, &self.tree.adts));
                        let message =
                            format!("the conversion from `{from}` to `{to}` is not evaluated at compile time");
                        self.refuse(tok, message, "convert between integers, or with a function");
                    }
                }
            }
            Check::Total { ty, tok } => {
                if !(self.store.is_int(ty) || self.failed) {
                    let shown = self.store.show(ty, &self.tree.adts);
                    let message = format!("the sum or product of `{shown}` is not evaluated at compile time");
                    self.refuse(tok, message, "add up integers, with `try_fold` where a value may be missing");
                }
            }
            Check::Int { ty, tok } => {
                if !(self.store.is_int(ty) || self.failed && matches!(self.store.node(ty), Node::Var)) {
                    let shown = self.store.show(ty, &self.tree.adts);
                    self.error(tok, format!("expected an integer, found `{shown}`"));
                }
            }
        }
    }

    /// Returns what `into` or `try_into` does, if it is evaluated.
    fn conversion(&mut self, from: Ty, to: Ty) -> Option<Conversion> {
        let is_bool = matches!(self.store.parts(from), Some((TyCon::Bool, _)));
        if self.store.is_int(to) && (self.store.is_int(from) || is_bool) {
            return self.store.int_of(to).map(Conversion::Int);
        }
        match (self.store.parts(from), self.store.parts(to)) {
            (Some((TyCon::List, items)), Some((TyCon::List, into))) => {
                self.store.unify(items[0], into[0]).then_some(Conversion::Same)
            }
            (found, Some((TyCon::Option, into))) if !matches!(found, Some((TyCon::Option, _))) => {
                self.store.unify(from, into[0]).then_some(Conversion::Some)
            }
            _ => self.store.unify(from, to).then_some(Conversion::Same),
        }
    }
}
