//! What must hold once everything is known.

use super::store::Node;
use super::{Check, Infer, Target, Types};
use crate::ast::Con;

impl Infer<'_> {
    /// Settles what is left and hands out what evaluation needs.
    pub(super) fn finish(mut self) -> Types {
        self.solve();
        let quiet = self.failed;
        for pending in std::mem::take(&mut self.pending) {
            if !quiet {
                let what = if pending.collect { "what this is collected into" } else { "what this goes over" };
                self.error(pending.tok, format!("{what} is not known here, so no plan was built"));
            }
        }
        for check in std::mem::take(&mut self.checks) {
            self.check(&check);
        }
        for (id, index, ty) in std::mem::take(&mut self.made) {
            let con = self.store.parts(ty).map(|(con, _)| con);
            if let Target::Builtin(_, made) = &mut self.targets[id as usize] {
                made[index] = con;
            }
        }
        let ints = self.types.iter().map(|ty| self.store.int_of(*ty)).collect();
        Types { ints, targets: self.targets }
    }

    fn check(&mut self, check: &Check) {
        match *check {
            Check::Arithmetic { ty, tok, symbol, bools } => {
                let fine = self.store.is_int(ty)
                    || matches!(self.store.parts(ty), Some((Con::Bool, _)) if bools)
                    || (self.failed && self.store.is_var(ty));
                if !fine {
                    let shown = self.store.show(ty, &self.tree.structs);
                    let message = format!("`{symbol}` on `{shown}` is not evaluated at compile time");
                    self.refuse(tok, message, "compute with integers");
                }
            }
            Check::Cast { from, to, tok } => {
                let fine = |ty| self.store.is_int(ty) || matches!(self.store.parts(ty), Some((Con::Bool, _)));
                if !fine(from) || !self.store.is_int(to) {
                    let (from, to) =
                        (self.store.show(from, &self.tree.structs), self.store.show(to, &self.tree.structs));
                    let message = format!("the conversion from `{from}` to `{to}` is not evaluated at compile time");
                    self.refuse(tok, message, "convert between integers, or from `bool` to an integer");
                }
            }
            Check::Int { ty, tok } => {
                if !(self.store.is_int(ty) || self.failed && matches!(self.store.node(ty), Node::Var)) {
                    let shown = self.store.show(ty, &self.tree.structs);
                    self.error(tok, format!("expected an integer, found `{shown}`, so no plan was built"));
                }
            }
        }
    }
}
