//! Patterns.

use mscclpp_core::diag::Code;

use super::scope::Item;
use super::{HirBuilder, Outside, attributes};
use crate::hir::{AdtId, Expr, ExprKind, Pattern, PatternKind, RangeEnd, Slot, SpanId};

/// The variables that a pattern has bound so far.
type Names = Vec<(String, Slot)>;

impl HirBuilder<'_> {
    /// Lowers a pattern; its variables are visible from here on.
    pub(super) fn pattern(&mut self, pattern: &syn::Pat) -> Pattern {
        let mut names = Vec::new();
        self.pattern_in(pattern, &mut names)
    }

    /// Lowers a pattern. `names` are the variables that this pattern has bound so far: the alternatives of `a | b` bind the same ones.
    fn pattern_in(&mut self, pattern: &syn::Pat, names: &mut Names) -> Pattern {
        let tok = self.spans.tokens(pattern);
        self.attributes(attributes::of_pattern(pattern));
        self.nested(
            tok,
            |this| this.pat(PatternKind::Wild, tok),
            |this| {
                let kind = this.pattern_kind(pattern, tok, names);
                this.pat(kind, tok)
            },
        )
    }

    fn pattern_kind(&mut self, pattern: &syn::Pat, tok: SpanId, names: &mut Names) -> PatternKind {
        match pattern {
            syn::Pat::Wild(_) | syn::Pat::Rest(_) => PatternKind::Wild,
            syn::Pat::Paren(inner) => self.pattern_in(&inner.pat, names).kind,
            syn::Pat::Reference(inner) => self.pattern_in(&inner.pat, names).kind,
            syn::Pat::Type(inner) => self.pattern_in(&inner.pat, names).kind,
            syn::Pat::Ident(inner) => self.binding(inner, tok, names),
            syn::Pat::Lit(inner) => PatternKind::Value(self.literal(&inner.lit, tok)),
            syn::Pat::Range(inner) => {
                let end = match inner.limits {
                    syn::RangeLimits::HalfOpen(_) => RangeEnd::Exclusive,
                    syn::RangeLimits::Closed(_) => RangeEnd::Inclusive,
                };
                let mut bound = |bound: &Option<Box<syn::Expr>>| bound.as_ref().map(|bound| self.expression(bound));
                PatternKind::Range(bound(&inner.start), bound(&inner.end), end)
            }
            syn::Pat::Tuple(inner) if inner.elems.is_empty() => PatternKind::Value(self.expr(ExprKind::Unit, tok)),
            syn::Pat::Tuple(inner) => {
                let (before, after) = self.with_rest(inner.elems.iter(), names);
                PatternKind::Tuple(before, after.map(|(_, after)| after))
            }
            syn::Pat::Slice(inner) => {
                let (before, after) = self.with_rest(inner.elems.iter(), names);
                PatternKind::List(before, after)
            }
            syn::Pat::Or(inner) => {
                PatternKind::Or(inner.cases.iter().map(|case| self.pattern_in(case, names)).collect())
            }
            syn::Pat::Path(inner) => {
                let value = self.path(&inner.path);
                self.value_pattern(value)
            }
            syn::Pat::TupleStruct(inner) => self.tuple_struct(inner, tok, names),
            syn::Pat::Struct(inner) => self.struct_pattern(inner, tok, names),
            syn::Pat::Const(inner) => {
                let value = self.block(&inner.block, None);
                PatternKind::Value(value)
            }
            _ => {
                self.refuse(tok, "this pattern is not evaluated at compile time", crate::report::AT_RUN_TIME);
                PatternKind::Wild
            }
        }
    }

    fn value_pattern(&mut self, value: Expr) -> PatternKind {
        match &value.kind {
            ExprKind::Path(crate::hir::PathValue::None) => PatternKind::None,
            ExprKind::Struct(id, variant, fields, None) if fields.is_empty() => {
                PatternKind::Struct(*id, *variant, Vec::new())
            }
            _ => PatternKind::Value(value),
        }
    }

    fn binding(&mut self, pattern: &syn::PatIdent, tok: SpanId, names: &mut Names) -> PatternKind {
        let name = pattern.ident.to_string();
        if pattern.by_ref.is_some() && pattern.mutability.is_some() {
            let help = "match on `&mut` of the value: its parts are `&mut` then";
            self.refuse(tok, "`ref mut` is not evaluated at compile time", help);
        }
        let plain = pattern.by_ref.is_none() && pattern.mutability.is_none() && pattern.subpat.is_none();
        // A name refers to a constant or variant of that name if there is one; functions are not patterns.
        let constant = |scope: usize| !matches!(self.scopes[scope].values.get(&name), Some(Item::Fn(..)));
        if plain && self.find_item(&name).is_some_and(constant) {
            let kind = self.item_expr(&name, pattern.ident.span()).unwrap_or(ExprKind::Error);
            let value = self.expr(kind, tok);
            return self.value_pattern(value);
        }
        if plain
            && let Some(id) = self.adt_named(&name)
            && !self.adts[id as usize].is_enum
        {
            return PatternKind::Struct(id, 0, Vec::new());
        }
        if plain && name == "None" {
            return PatternKind::None;
        }
        if name.chars().next().is_some_and(char::is_uppercase) {
            // rustc may have a constant of this name; a variable of the name would match everything.
            self.outside(tok, &name, Outside::Value);
            return PatternKind::Wild;
        }
        let slot = match names.iter().find(|(other, _)| *other == name) {
            Some((_, slot)) => *slot,
            None => {
                let slot = self.declare(name.clone());
                names.push((name, slot));
                slot
            }
        };
        let inner = pattern.subpat.as_ref().map(|(_, inner)| Box::new(self.pattern_in(inner, names)));
        PatternKind::Bind(slot, inner)
    }

    /// Lowers the patterns before and after a `..`, with the variable of `name @ ..`.
    #[allow(clippy::type_complexity, reason = "it is what `PatternKind::List` holds")]
    fn with_rest<'a>(
        &mut self,
        elems: impl Iterator<Item = &'a syn::Pat>,
        names: &mut Names,
    ) -> (Vec<Pattern>, Option<(Option<Slot>, Vec<Pattern>)>) {
        let mut before = Vec::new();
        let mut after = None;
        for elem in elems {
            let rest = match elem {
                syn::Pat::Rest(_) => Some(None),
                syn::Pat::Ident(ident) if matches!(&ident.subpat, Some((_, inner)) if matches!(**inner, syn::Pat::Rest(_))) =>
                {
                    let name = ident.ident.to_string();
                    let slot = match names.iter().find(|(other, _)| *other == name) {
                        Some((_, slot)) => *slot,
                        None => self.declare(name.clone()),
                    };
                    names.push((name, slot));
                    Some(Some(slot))
                }
                _ => None,
            };
            match (rest, &mut after) {
                (Some(slot), after) => *after = Some((slot, Vec::new())),
                (None, Some((_, after))) => after.push(self.pattern_in(elem, names)),
                (None, None) => before.push(self.pattern_in(elem, names)),
            }
        }
        (before, after)
    }

    fn tuple_struct(&mut self, pattern: &syn::PatTupleStruct, tok: SpanId, names: &mut Names) -> PatternKind {
        if let Some((id, variant)) = self.constructor(&pattern.path) {
            let (before, after) = self.with_rest(pattern.elems.iter(), names);
            let after = after.map_or_else(Vec::new, |(_, after)| after);
            let count = self.num_fields(id, variant);
            let first_after = count.saturating_sub(after.len());
            let fields = before.into_iter().enumerate();
            let fields = fields.chain(after.into_iter().enumerate().map(|(i, p)| (i + first_after, p)));
            let fields: Vec<_> = fields.map(|(index, pattern)| (index as u32, pattern)).collect();
            if fields.iter().any(|(index, _)| *index as usize >= count) {
                self.type_error(tok, &format!("this pattern does not fit {count} fields"));
            }
            return PatternKind::Struct(id, variant, fields);
        }
        let name = pattern.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        let one = (pattern.elems.len() == 1).then(|| pattern.elems.first()).flatten();
        match (name.as_str(), one) {
            ("Some", Some(inner)) => PatternKind::Some(Box::new(self.pattern_in(inner, names))),
            ("Ok", Some(inner)) => PatternKind::Ok(Box::new(self.pattern_in(inner, names))),
            ("Err", Some(inner)) => PatternKind::Err(Box::new(self.pattern_in(inner, names))),
            ("Reverse", Some(inner)) => PatternKind::Reverse(Box::new(self.pattern_in(inner, names))),
            ("Some" | "Ok" | "Err" | "Reverse", None) => {
                self.type_error(tok, &format!("`{name}` has one field"));
                PatternKind::Wild
            }
            _ => {
                self.outside_path(tok, &pattern.path);
                // Its variables are declared, so that the error is the only one.
                pattern.elems.iter().for_each(|elem| drop(self.pattern_in(elem, names)));
                PatternKind::Wild
            }
        }
    }

    fn struct_pattern(&mut self, pattern: &syn::PatStruct, tok: SpanId, names: &mut Names) -> PatternKind {
        let Some((id, variant)) = self.constructor(&pattern.path) else {
            self.outside_path(tok, &pattern.path);
            pattern.fields.iter().for_each(|field| drop(self.pattern_in(&field.pat, names)));
            return PatternKind::Wild;
        };
        let fields = pattern.fields.iter().filter_map(|field| {
            self.attributes(&field.attrs);
            let index = self.field_number(id, variant, &field.member)?;
            Some((index, self.pattern_in(&field.pat, names)))
        });
        PatternKind::Struct(id, variant, fields.collect())
    }

    /// Rejects the path of a struct or variant that the macro cannot see.
    pub(super) fn outside_path(&mut self, tok: SpanId, path: &syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.outside(tok, &names.join("::"), Outside::Type);
    }

    fn num_fields(&self, id: AdtId, variant: u32) -> usize {
        self.adts[id as usize].variants.get(variant as usize).map_or(0, |variant| variant.types.len())
    }

    /// Returns the number of a field. The error for an unknown field is short; rustc reports it in detail.
    pub(super) fn field_number(&mut self, id: AdtId, variant: u32, member: &syn::Member) -> Option<u32> {
        let (name, span) = match member {
            syn::Member::Named(ident) => (ident.to_string(), ident.span()),
            syn::Member::Unnamed(index) => (index.index.to_string(), index.span),
        };
        let variant = self.adts[id as usize].variants.get(variant as usize);
        let index = variant.and_then(|variant| variant.shape.fields.position(&name));
        if index.is_none() {
            let tok = self.tok(span);
            drop(self.report.error(Code::TypeError, tok, format!("there is no field `{name}`")));
        }
        index.map(|index| index as u32)
    }
}
