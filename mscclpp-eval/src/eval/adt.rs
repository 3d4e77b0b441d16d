//! Values of structs and enums, and default values.

use std::rc::Rc;
use std::sync::Arc;

use super::value::{AdtValue, Value};
use super::{Eval, Interpreter};
use crate::hir::{AdtId, DEFAULT, Expr, NodeId, SpanId, TyCon, TypeExpr};

impl<'t> Interpreter<'t> {
    /// Evaluates `Name { field: value, ..rest }`.
    pub(super) fn make_adt(
        &mut self,
        id: AdtId,
        variant: u32,
        fields: &'t [(u32, Expr)],
        rest: Option<&'t Expr>,
        tok: SpanId,
    ) -> Eval {
        let mut values = Vec::with_capacity(fields.len());
        for (index, value) in fields {
            values.push((*index as usize, self.eval(value)?));
        }
        let mut items = match rest {
            Some(rest) => match self.eval(rest)?.load() {
                Value::Adt(rest) => rest.fields.clone(),
                _ => return Err(self.ill_typed(tok)),
            },
            None => vec![Value::Unit; values.len()],
        };
        for (index, value) in values {
            match items.get_mut(index) {
                Some(item) => *item = value,
                None => return Err(self.ill_typed(tok)),
            }
        }
        self.adt(id, variant, items, tok)
    }

    /// Creates a struct or variant with all of its fields.
    pub(super) fn adt(&mut self, id: AdtId, variant: u32, fields: Vec<Value>, tok: SpanId) -> Eval {
        let tree = self.tree;
        let Some(found) = tree.adts[id as usize].variants.get(variant as usize) else {
            return Err(self.ill_typed(tok));
        };
        if fields.len() != found.types.len() {
            return Err(self.ill_typed(tok));
        }
        let discriminant = self.discriminant(id, variant, tok)?;
        Ok(Value::Adt(Rc::new(AdtValue { shape: Arc::clone(&found.shape), discriminant, fields })))
    }

    /// Returns the discriminant of a variant: the last one written before it, plus one for each variant since.
    fn discriminant(&mut self, id: AdtId, variant: u32, tok: SpanId) -> Eval<i128> {
        let tree = self.tree;
        let variants = tree.adts[id as usize].variants.iter().take(variant as usize + 1).rev();
        for (variant, distance) in variants.zip(0_i128..) {
            if let Some(constant) = variant.discriminant {
                return match self.constant(constant)? {
                    Value::Int(value) => Ok(value + distance),
                    _ => Err(self.ill_typed(tok)),
                };
            }
        }
        Ok(i128::from(variant))
    }

    /// Returns the default of the type that inference found for a node.
    pub(crate) fn default_at(&mut self, node: NodeId, tok: SpanId) -> Eval {
        let types = self.types;
        match types.default(node) {
            Some(ty) => self.default_of(ty, tok),
            None => Err(self.ill_typed(tok)),
        }
    }

    fn default_of(&mut self, ty: &'t TypeExpr, tok: SpanId) -> Eval {
        let TypeExpr::TyCon(con, args) = ty else { return Ok(Value::Int(0)) };
        Ok(match con {
            TyCon::Unit => Value::Unit,
            TyCon::Bool => Value::Bool(false),
            TyCon::Str => Value::Str(Rc::from("")),
            TyCon::List => Value::list(Vec::new()),
            TyCon::Option => Value::None,
            TyCon::Map | TyCon::HashMap => Value::Map(Rc::default()),
            TyCon::Set | TyCon::HashSet => Value::Set(Rc::default()),
            TyCon::Tuple => {
                let parts: Eval<Vec<Value>> = args.iter().map(|part| self.default_of(part, tok)).collect();
                Value::tuple(parts?)
            }
            TyCon::Reverse => {
                let inner = args.first().map_or(Ok(Value::Unit), |inner| self.default_of(inner, tok));
                Value::Reverse(Rc::new(inner?))
            }
            TyCon::Adt(id) => {
                let methods = &self.tree.adts[*id as usize].methods;
                match methods.iter().find(|(name, _)| &**name == DEFAULT) {
                    Some((_, function)) => self.call_function(*function, Vec::new(), tok)?,
                    None => return Err(self.ill_typed(tok)),
                }
            }
            _ => return Err(self.ill_typed(tok)),
        })
    }
}
