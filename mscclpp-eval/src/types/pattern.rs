//! Types of patterns.

use super::Infer;
use super::store::Ty;
use crate::hir::{Pattern, PatternKind, TyCon};

impl Infer<'_> {
    /// Binds the variables of a pattern that a value of type `ty` is matched with.
    pub(super) fn pattern(&mut self, pattern: &Pattern, ty: Ty) {
        self.record_pattern(pattern, ty);
        match &pattern.kind {
            PatternKind::Wild => {}
            PatternKind::Bind(slot, inner) => {
                let slot = self.slot(*slot);
                self.unify(ty, slot, pattern.tok);
                if let Some(inner) = inner {
                    self.pattern(inner, ty);
                }
            }
            PatternKind::Value(value) => {
                let found = self.expr(value);
                self.unify(found, ty, pattern.tok);
            }
            PatternKind::Range(start, end, _) => {
                for bound in [start, end].into_iter().flatten() {
                    let found = self.expr(bound);
                    self.unify(found, ty, bound.tok);
                }
            }
            PatternKind::Tuple(before, after) => self.tuple_pattern(pattern, before, after.as_deref(), ty),
            PatternKind::List(before, rest) => {
                let item = self.store.var();
                let list = self.store.con(TyCon::List, [item]);
                self.unify(ty, list, pattern.tok);
                before.iter().for_each(|pattern| self.pattern(pattern, item));
                if let Some((slot, after)) = rest {
                    if let Some(slot) = slot {
                        let slot = self.slot(*slot);
                        self.unify(list, slot, pattern.tok);
                    }
                    after.iter().for_each(|pattern| self.pattern(pattern, item));
                }
            }
            PatternKind::Some(inner) => self.wrapped(pattern, TyCon::Option, Some((inner, 0)), ty),
            PatternKind::None => self.wrapped(pattern, TyCon::Option, None, ty),
            PatternKind::Ok(inner) => self.wrapped(pattern, TyCon::Result, Some((inner, 0)), ty),
            PatternKind::Err(inner) => self.wrapped(pattern, TyCon::Result, Some((inner, 1)), ty),
            PatternKind::Reverse(inner) => self.wrapped(pattern, TyCon::Reverse, Some((inner, 0)), ty),
            PatternKind::Struct(id, variant, fields) => {
                let found = self.store.plain(TyCon::Adt(*id));
                self.unify(ty, found, pattern.tok);
                for (index, field) in fields {
                    if let Some(ty) = self.fields(*id, *variant).get(*index as usize).copied() {
                        self.pattern(field, ty);
                    }
                }
            }
            PatternKind::Or(cases) => cases.iter().for_each(|case| self.pattern(case, ty)),
        }
    }

    /// Infers a constructor of the language around a pattern for one of its type arguments.
    fn wrapped(&mut self, pattern: &Pattern, con: TyCon, inner: Option<(&Pattern, usize)>, ty: Ty) {
        let items = [self.store.var(), self.store.var()];
        let wrapped = self.store.con(con, items.into_iter().take(if con == TyCon::Result { 2 } else { 1 }));
        self.unify(ty, wrapped, pattern.tok);
        if let Some((inner, index)) = inner {
            self.pattern(inner, items[index]);
        }
    }

    fn tuple_pattern(&mut self, pattern: &Pattern, before: &[Pattern], after: Option<&[Pattern]>, ty: Ty) {
        let known = self.known(ty);
        let parts = match (self.store.parts(known), after) {
            (Some((TyCon::Tuple, parts)), _) => parts,
            (_, None) => {
                let parts: smallvec::SmallVec<[Ty; 2]> = before.iter().map(|_| self.store.var()).collect();
                let tuple = self.store.con(TyCon::Tuple, parts.iter().copied());
                self.unify(ty, tuple, pattern.tok);
                parts
            }
            (_, Some(_)) => {
                self.error(pattern.tok, "the type of this tuple is not known here".to_owned());
                return;
            }
        };
        let trailing = after.unwrap_or_default();
        let fits =
            if after.is_some() { parts.len() >= before.len() + trailing.len() } else { parts.len() == before.len() };
        if !fits {
            let message = format!("this pattern does not fit a tuple of {}", parts.len());
            self.error(pattern.tok, message);
            return;
        }
        let first_trailing = parts.len() - trailing.len();
        before.iter().zip(&parts).for_each(|(pattern, ty)| self.pattern(pattern, *ty));
        trailing.iter().zip(&parts[first_trailing..]).for_each(|(pattern, ty)| self.pattern(pattern, *ty));
    }
}
