//! Signatures of the language's functions as written in [`lang`](crate::lang): `map(fn(T) -> U) -> Iter<U>`.
//!
//! Single capitals are type parameters, `Self` is the receiver, `Unsigned` and `Signed` its counterparts. `Each<T>`
//! accepts anything that can be iterated over as `T`, `Collect<T>` becomes anything that can be collected from `T`,
//! `Try<T>` is an `Option` or a `Result` of `T`, the same wherever a signature names it, and `Default<T>` is a `T` that
//! may be the default.

use smallvec::SmallVec;

use super::Relation;
use super::store::{Store, Ty};
use crate::hir::{IntTy, TyCon};

/// A signature with a type for each part.
pub(crate) struct Sig {
    /// Parameters, without the receiver.
    pub(crate) params: SmallVec<[Ty; 3]>,
    /// The result.
    pub(crate) result: Ty,
    /// The relations between collections and their items.
    pub(super) related: SmallVec<[(Relation, Ty, Ty); 1]>,
    /// The type whose default it may create.
    pub(super) default: Option<Ty>,
}

/// Reads a signature. The receiver's type is unified with `receiver`; `None` if it does not fit.
pub(crate) fn instantiate(store: &mut Store, sig: &str, header: Option<(&str, Ty)>) -> Option<Sig> {
    let mut out = Sig { params: SmallVec::new(), result: Ty::default(), related: SmallVec::new(), default: None };
    let mut names = Names { list: SmallVec::new(), receiver: header.map(|(_, receiver)| receiver) };
    if let Some((pattern, receiver)) = header {
        let pattern = Reader { text: pattern, store, names: &mut names, out: &mut out }.ty();
        if !store.unify(pattern, receiver) {
            return None;
        }
    }
    let (sig, bound) = sig.split_once(" where ").map_or((sig, None), |(sig, bound)| (sig, Some(bound)));
    if let Some((name, ty)) = bound.and_then(|bound| bound.split_once(" = ")) {
        let mut reader = Reader { text: name, store, names: &mut names, out: &mut out };
        let param = reader.ty();
        reader.text = ty;
        let ty = reader.ty();
        if !store.unify(param, ty) {
            return None;
        }
    }
    let open = sig.find('(').unwrap_or(sig.len());
    let mut reader = Reader { text: &sig[open..], store, names: &mut names, out: &mut out };
    let params = reader.list(')');
    let result = if reader.eat("->") { reader.ty() } else { reader.store.plain(TyCon::Unit) };
    out.params = params;
    out.result = result;
    Some(out)
}

/// Type parameters that have occurred.
struct Names {
    list: SmallVec<[(u8, Ty); 4]>,
    receiver: Option<Ty>,
}

struct Reader<'a> {
    text: &'a str,
    store: &'a mut Store,
    names: &'a mut Names,
    out: &'a mut Sig,
}

impl Reader<'_> {
    fn eat(&mut self, token: &str) -> bool {
        let trimmed = self.text.trim_start();
        let rest = trimmed.strip_prefix(token);
        self.text = rest.unwrap_or(trimmed);
        rest.is_some()
    }

    fn name(&mut self) -> &str {
        let text = self.text.trim_start();
        let end = text.find(|char: char| !char.is_alphanumeric()).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        self.text = rest;
        name
    }

    /// Reads the types up to the closing bracket `close`.
    fn list(&mut self, close: char) -> SmallVec<[Ty; 3]> {
        let mut chars = self.text.trim_start().chars();
        chars.next();
        self.text = chars.as_str();
        let mut list = SmallVec::new();
        let mut end = [0; 4];
        let close = close.encode_utf8(&mut end);
        while !self.eat(close) && !self.text.is_empty() {
            list.push(self.ty());
            self.eat(",");
        }
        list
    }

    fn ty(&mut self) -> Ty {
        if self.text.trim_start().starts_with('(') {
            let parts = self.list(')');
            let con = if parts.is_empty() { TyCon::Unit } else { TyCon::Tuple };
            return self.store.con(con, parts);
        }
        let name = self.name().to_owned();
        if name == "fn" {
            let mut parts = self.list(')');
            let result = if self.eat("->") { self.ty() } else { self.store.plain(TyCon::Unit) };
            parts.push(result);
            return self.store.con(TyCon::Fn, parts);
        }
        let args = if self.text.starts_with('<') { self.list('>') } else { SmallVec::new() };
        match name.as_str() {
            "Self" => self.names.receiver.unwrap_or_else(|| self.store.var()),
            "Unsigned" | "Signed" => {
                let int = self.names.receiver.and_then(|receiver| self.store.int_of(receiver)).unwrap_or(IntTy::I32);
                self.store.int(if name == "Signed" { int.to_signed() } else { int.unsigned() })
            }
            "Each" => self.related(Relation::Each, &args),
            "Collect" => self.related(Relation::Collect, &args),
            "Try" => self.related(Relation::Try, &args),
            "Default" => {
                let ty = args.first().copied().unwrap_or_else(|| self.store.var());
                self.out.default = Some(ty);
                ty
            }
            name => match (IntTy::from_name(name), TyCon::from_name(name)) {
                (Some(int), _) => self.store.int(int),
                (_, Some(con)) => self.store.con(con, args),
                _ => self.param(name.as_bytes().first().copied().unwrap_or_default()),
            },
        }
    }

    fn related(&mut self, relation: Relation, args: &[Ty]) -> Ty {
        let known = self.out.related.iter().find(|(other, ..)| relation == Relation::Try && *other == relation);
        if let Some((_, known, _)) = known {
            return *known;
        }
        let collection = self.store.var();
        self.out.related.extend(args.first().map(|item| (relation, collection, *item)));
        collection
    }

    fn param(&mut self, name: u8) -> Ty {
        if let Some((_, ty)) = self.names.list.iter().find(|(other, _)| *other == name) {
            return *ty;
        }
        let ty = self.store.var();
        self.names.list.push((name, ty));
        ty
    }
}

#[cfg(test)]
mod tests {
    use super::instantiate;
    use crate::hir::{IntTy, TyCon};
    use crate::types::store::Store;

    #[test]
    fn parameters_are_shared_between_receiver_arguments_and_result() {
        let mut store = Store::default();
        let int = store.int(IntTy::Usize);
        let receiver = store.con(TyCon::Iter, [int]);
        let sig = instantiate(&mut store, "map(fn(T) -> U) -> Iter<(T, U)>", Some(("Iter<T>", receiver))).unwrap();
        assert_eq!(sig.params.len(), 1);
        assert_eq!(store.show(sig.params[0], &[]), "fn(usize) -> _");
        assert_eq!(store.show(sig.result, &[]), "Iter<(usize, _)>");
    }

    #[test]
    fn a_bound_shapes_the_parameter() {
        let mut store = Store::default();
        let item = store.var();
        let receiver = store.con(TyCon::Iter, [item]);
        let sig = instantiate(
            &mut store,
            "unzip() -> (Collect<A>, Collect<B>) where T = (A, B)",
            Some(("Iter<T>", receiver)),
        );
        let sig = sig.unwrap();
        assert_eq!(store.show(item, &[]), "(_, _)");
        assert_eq!((sig.params.len(), sig.related.len()), (0, 2));
        assert!(instantiate(&mut store, "len() -> usize", Some(("List<T>", receiver))).is_none());
    }
}
