//! The values of arguments: literals and arithmetic on them, words, lists.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use mscclpp_core::check::parse_allow;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Ident, Token};

use super::{KINDS, Param, parse_as, suggest};
use crate::eval::arith::compute;
use crate::hir::{BinOp, IntTy, SpanId};
use crate::report::Report;
use crate::spans::Spans;

/// An argument as given.
pub(super) struct Given {
    pub(super) name: String,
    pub(super) tok: SpanId,
    value: Form,
}

enum Form {
    /// `name`
    Flag,
    /// `name = value`
    Value(syn::Expr),
    /// `name(…)`
    List(TokenStream),
}

impl syn::parse::Parse for Form {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            // `crate` is not an expression, but it starts a path.
            Ok(Self::Value(input.parse()?))
        } else if input.peek(syn::token::Paren) {
            let content;
            syn::parenthesized!(content in input);
            Ok(Self::List(content.parse()?))
        } else {
            Ok(Self::Flag)
        }
    }
}

/// Reads values; errors go to the report.
pub(super) struct Reader<'a> {
    pub(super) spans: &'a mut Spans,
    pub(super) report: &'a mut Report,
}

impl Reader<'_> {
    fn bad<T>(&mut self, tok: SpanId, message: String, help: &str) -> Option<T> {
        self.report.error(Code::BadAttribute, tok, message).help(help);
        None
    }

    fn tok(&mut self, tokens: &impl ToTokens) -> SpanId {
        self.spans.tokens(tokens)
    }

    /// Reads arguments, separated by commas, each given once.
    pub(super) fn arguments(&mut self, tokens: TokenStream) -> Option<Vec<Given>> {
        let parser = |input: ParseStream<'_>| {
            let mut list = Vec::new();
            while !input.is_empty() {
                let name = Ident::parse_any(input)?;
                let start = input.cursor();
                let value: Form = input.parse()?;
                let last = if matches!(value, Form::Flag) { name.span() } else { last_span(start, input) };
                list.push((name, last, value));
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(list)
        };
        match parse_as(tokens, parser) {
            Ok(list) => {
                let mut given: Vec<Given> = Vec::new();
                for (name, last, value) in list {
                    let (tok, name) = (self.spans.pair(name.span(), last), name.to_string());
                    if given.iter().any(|other| other.name == name) {
                        drop(self.report.error(Code::BadAttribute, tok, format!("`{name}` is given twice")));
                    } else {
                        given.push(Given { name, tok, value });
                    }
                }
                Some(given)
            }
            Err(error) => {
                let tok = self.spans.one(error.span());
                let help = "arguments look like `AllGather, ranks = [2, 4], in_place, params(n = [1, 2])`";
                self.bad(tok, format!("the arguments of `#[collective]` cannot be read: {error}"), help)
            }
        }
    }

    /// Reads the kind of the collective.
    pub(super) fn kind(&mut self, given: &Given) -> Option<CollectiveKind> {
        let list = match &given.value {
            Form::Flag => None,
            Form::List(list) => Some(list.clone()),
            Form::Value(_) => {
                let message = format!("the first argument is `{}`, not the kind of the collective", given.name);
                return self.bad(given.tok, message, &format!("begin with one of {}", KINDS.join(", ")));
            }
        };
        let plain = match given.name.as_str() {
            "AllReduce" => Some(CollectiveKind::AllReduce),
            "AllGather" => Some(CollectiveKind::AllGather),
            "ReduceScatter" => Some(CollectiveKind::ReduceScatter),
            "AllToAll" => Some(CollectiveKind::AllToAll),
            "AllToAllV" => Some(CollectiveKind::AllToAllV),
            "SendRecv" => Some(CollectiveKind::SendRecv),
            "Broadcast" => Some(CollectiveKind::Broadcast),
            "Reduce" => Some(CollectiveKind::Reduce),
            _ => None,
        };
        match (plain, list) {
            (Some(kind), None) => Some(kind),
            (Some(_), Some(_)) => {
                let message = format!("`{}` takes nothing in parentheses", given.name);
                self.bad(given.tok, message, "its chunk counts follow from `ranks` and `chunk_factor`")
            }
            (None, Some(list)) if given.name == "Custom" || given.name == "Test" => {
                let (input, output) = self.chunks(given, list)?;
                Some(if given.name == "Custom" {
                    CollectiveKind::Custom { input, output }
                } else {
                    CollectiveKind::Test { input, output }
                })
            }
            (None, None) if given.name == "Custom" || given.name == "Test" => {
                let message = format!("`{}` does not say how many chunks input and output have", given.name);
                self.bad(given.tok, message, &format!("write `{}(input = 4, output = 8)`", given.name))
            }
            _ => {
                let message = format!("there is no kind of collective `{}`", given.name);
                let help = format!("{}the kinds are {}", suggest(&given.name, &KINDS), KINDS.join(", "));
                self.bad(given.tok, message, &help)
            }
        }
    }

    /// Reads `input = 4, output = 8`.
    fn chunks(&mut self, given: &Given, list: TokenStream) -> Option<(u32, u32)> {
        let (mut input, mut output) = (None, None);
        for inner in self.arguments(list)? {
            let value = self.int(&inner, 0..=i128::from(u32::MAX)).map(|value| value as u32);
            match inner.name.as_str() {
                "input" => input = value,
                "output" => output = value,
                other => {
                    let message = format!("`{}` has no argument `{other}`", given.name);
                    return self.bad(inner.tok, message, "it has `input` and `output`, in chunks");
                }
            }
        }
        match (input, output) {
            (Some(input), Some(output)) => Some((input, output)),
            _ => {
                let message = format!("`{}` needs the chunks of input and output", given.name);
                self.bad(given.tok, message, &format!("write `{}(input = 4, output = 8)`", given.name))
            }
        }
    }

    /// Reads an integer of a range.
    pub(super) fn int(&mut self, given: &Given, range: RangeInclusive<i128>) -> Option<i128> {
        match &given.value {
            Form::Value(value) => self.number(&given.name, value, &range),
            _ => {
                self.bad(given.tok, format!("`{0}` needs a number", given.name), &format!("write `{} = 1`", given.name))
            }
        }
    }

    fn number(&mut self, name: &str, value: &syn::Expr, range: &RangeInclusive<i128>) -> Option<i128> {
        let tok = self.tok(value);
        let Some(number) = evaluate(value) else {
            let help = "arguments of the attribute are literals, like `8` or `1 << 20`: the macro cannot see constants";
            return self.bad(tok, format!("`{name}` is not a number that can be read here"), help);
        };
        if !range.contains(&number) {
            let message = format!("`{name}` is {number}, expected {} to {}", range.start(), range.end());
            return self.bad(tok, message, &format!("choose a number from {} to {}", range.start(), range.end()));
        }
        Some(number)
    }

    /// Reads one integer, a list of them, or a range.
    pub(super) fn ints(&mut self, given: &Given, range: RangeInclusive<i128>) -> Vec<i128> {
        let Form::Value(value) = &given.value else {
            let message = format!("`{}` needs numbers", given.name);
            self.bad::<()>(given.tok, message, &format!("write `{0} = 8` or `{0} = [2, 4, 8]`", given.name));
            return Vec::new();
        };
        let numbers = match value {
            syn::Expr::Array(list) => {
                list.elems.iter().filter_map(|elem| self.number(&given.name, elem, &range)).collect()
            }
            syn::Expr::Range(_) => match self.range(given, *range.end() as u64) {
                Some((first, last)) if last - first < super::MAX_PLANS as u64 => {
                    (i128::from(first).max(*range.start())..=i128::from(last)).collect()
                }
                Some(_) => {
                    self.bad::<()>(given.tok, format!("`{}` has too many values", given.name), "give fewer");
                    return Vec::new();
                }
                None => return Vec::new(),
            },
            value => self.number(&given.name, value, &range).into_iter().collect::<Vec<_>>(),
        };
        for (index, number) in numbers.iter().enumerate() {
            if numbers[..index].contains(number) {
                self.bad::<()>(
                    given.tok,
                    format!("`{}` has the value {number} twice", given.name),
                    "remove the duplicate value",
                );
                break;
            }
        }
        // A value that is not a number has already been reported.
        let empty = match value {
            syn::Expr::Array(list) => list.elems.is_empty(),
            syn::Expr::Range(_) => numbers.is_empty(),
            _ => false,
        };
        if empty {
            self.bad::<()>(given.tok, format!("`{}` has no value", given.name), "give at least one");
        }
        numbers
    }

    /// Reads first and last number of a range; open ends are 0 and `most`.
    pub(super) fn range(&mut self, given: &Given, most: u64) -> Option<(u64, u64)> {
        let Form::Value(syn::Expr::Range(range)) = &given.value else {
            let message = format!("`{}` needs a range", given.name);
            return self.bad(given.tok, message, &format!("write `{} = 1 << 20..=48 << 30`", given.name));
        };
        let numbers = 0..=i128::from(most);
        let mut bound = |bound: &Option<Box<syn::Expr>>| match bound {
            Some(bound) => self.number(&given.name, bound, &numbers).map(Some),
            None => Some(None),
        };
        let (first, last) = (bound(&range.start)?.unwrap_or(0), bound(&range.end)?);
        let last = match (last, &range.limits) {
            (None, _) => i128::from(most),
            (Some(last), syn::RangeLimits::Closed(_)) => last,
            (Some(last), syn::RangeLimits::HalfOpen(_)) => last - 1,
        };
        if first > last {
            return self.bad(
                given.tok,
                format!("`{}` ends before it starts", given.name),
                "write the smaller number first",
            );
        }
        Some((first as u64, last as u64))
    }

    /// Reads a flag: given alone, or as `name = true`.
    pub(super) fn flag(&mut self, given: &Given) -> Option<bool> {
        match &given.value {
            Form::Flag => Some(true),
            Form::Value(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Bool(value), .. })) => Some(value.value),
            _ => {
                let message = format!("`{}` is on or off", given.name);
                self.bad(given.tok, message, &format!("write `{0}` or `{0} = false`", given.name))
            }
        }
    }

    /// Reads one of several words; returns its position.
    pub(super) fn word(&mut self, given: &Given, words: &[&str]) -> Option<usize> {
        let found = match &given.value {
            Form::Value(syn::Expr::Path(path)) => path.path.get_ident().map(ToString::to_string),
            _ => None,
        };
        let index = found.and_then(|found| words.iter().position(|word| *word == found));
        index.or_else(|| {
            let message = format!("`{}` is one of {}", given.name, words.join(", "));
            self.bad(given.tok, message, &format!("write `{} = {}`", given.name, words[0]))
        })
    }

    /// Reads a string that is a valid name.
    pub(super) fn text(&mut self, given: &Given) -> Option<String> {
        match &given.value {
            Form::Value(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. })) if !text.value().is_empty() => {
                Some(text.value())
            }
            _ => {
                let message = format!("`{}` needs a string that is not empty", given.name);
                self.bad(given.tok, message, &format!("write `{} = \"ring\"`", given.name))
            }
        }
    }

    /// Reads a path.
    pub(super) fn path(&mut self, given: &Given) -> Option<TokenStream> {
        match &given.value {
            Form::Value(syn::Expr::Path(path)) => Some(path.to_token_stream()),
            _ => self.bad(given.tok, "`crate` needs a path".to_owned(), "write `crate = ::mscclpp`"),
        }
    }

    /// Reads `tags = ["a", "b"]` or `tags(a = 1, b = 2)`.
    pub(super) fn tags(&mut self, given: &Given) -> BTreeMap<String, i64> {
        let mut tags = BTreeMap::new();
        let help = "write `tags = [\"nvls\"]` or `tags(nvls = 1)`";
        match &given.value {
            Form::Value(syn::Expr::Array(list)) => {
                for elem in &list.elems {
                    match elem {
                        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => {
                            if tags.insert(text.value(), 1).is_some() {
                                let tok = self.tok(text);
                                drop(self.report.error(
                                    Code::BadAttribute,
                                    tok,
                                    format!("`{}` is given twice", text.value()),
                                ));
                            }
                        }
                        other => {
                            let tok = self.tok(other);
                            self.bad::<()>(tok, "a tag is a string".to_owned(), help);
                        }
                    }
                }
            }
            Form::List(list) => {
                for inner in self.arguments(list.clone()).unwrap_or_default() {
                    let value = self.int(&inner, i128::from(i64::MIN)..=i128::from(i64::MAX));
                    tags.extend(value.map(|value| (inner.name.clone(), value as i64)));
                }
            }
            _ => drop(self.bad::<()>(given.tok, "`tags` is a list".to_owned(), help)),
        }
        tags
    }

    /// Reads codes by slug (with `_` for `-`) or number.
    pub(super) fn codes(&mut self, given: &Given) -> Vec<Code> {
        let Form::List(list) = &given.value else {
            self.bad::<()>(given.tok, "`allow` is a list".to_owned(), "write `allow(unmatched_wait)`");
            return Vec::new();
        };
        let mut codes = Vec::new();
        for inner in self.arguments(list.clone()).unwrap_or_default() {
            match parse_allow(&inner.name) {
                Ok(code) => codes.push(code),
                Err(why) => drop(self.bad::<()>(inner.tok, why.message, &why.help)),
            }
        }
        codes
    }

    /// Reads `name = value` or `name = [value, …]`, repeated.
    pub(super) fn params(&mut self, given: &Given) -> Vec<Param> {
        let Form::List(list) = &given.value else {
            self.bad::<()>(given.tok, "`params` is a list".to_owned(), "write `params(tbg = [1, 2, 4])`");
            return Vec::new();
        };
        let mut params = Vec::new();
        for inner in self.arguments(list.clone()).unwrap_or_default() {
            let values = match bools(&inner.value) {
                Some(values) => values,
                None => self.ints(&inner, i128::from(i64::MIN)..=i128::from(u64::MAX)),
            };
            params.push(Param { name: inner.name, values, tok: inner.tok });
        }
        params
    }
}

/// Returns `true`, `false` or a list of them as 1 and 0.
fn bools(value: &Form) -> Option<Vec<i128>> {
    let bool = |expr: &syn::Expr| match expr {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Bool(value), .. }) => Some(i128::from(value.value)),
        _ => None,
    };
    match value {
        Form::Value(syn::Expr::Array(list)) if !list.elems.is_empty() => list.elems.iter().map(bool).collect(),
        Form::Value(value) => Some(vec![bool(value)?]),
        _ => None,
    }
}

/// Returns the value of literals and arithmetic; `None` for anything else.
fn evaluate(expr: &syn::Expr) -> Option<i128> {
    match expr {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(lit), .. }) => lit.base10_parse().ok(),
        syn::Expr::Paren(inner) => evaluate(&inner.expr),
        syn::Expr::Group(inner) => evaluate(&inner.expr),
        syn::Expr::Unary(syn::ExprUnary { op: syn::UnOp::Neg(_), expr, .. }) => evaluate(expr).map(|value| -value),
        syn::Expr::Binary(inner) => {
            let op = match inner.op {
                syn::BinOp::Add(_) => BinOp::Add,
                syn::BinOp::Sub(_) => BinOp::Sub,
                syn::BinOp::Mul(_) => BinOp::Mul,
                syn::BinOp::Div(_) => BinOp::Div,
                // In 64 bits, more than any argument needs.
                syn::BinOp::Shl(_) => {
                    let (value, bits) = (evaluate(&inner.left)?, u32::try_from(evaluate(&inner.right)?).ok()?);
                    return 1_i128.checked_shl(bits).filter(|_| bits < 64)?.checked_mul(value);
                }
                _ => return None,
            };
            let (a, b) = (evaluate(&inner.left)?, evaluate(&inner.right)?);
            let int = if a < 0 || b < 0 || op == BinOp::Sub { IntTy::I64 } else { IntTy::U64 };
            compute(op, a, b, int).ok()
        }
        _ => None,
    }
}

/// Returns the span of the token before the current position of `input`, which began at `start`.
fn last_span(start: syn::buffer::Cursor<'_>, input: ParseStream<'_>) -> Span {
    let mut cursor = start;
    let end = input.cursor();
    let mut last = start.span();
    while cursor != end {
        match cursor.token_tree() {
            Some((token, next)) => {
                last = token.span();
                cursor = next;
            }
            None => break,
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::evaluate;

    #[test]
    fn arithmetic_on_literals() {
        let value = |text| evaluate(&syn::parse_str(text).unwrap());
        assert_eq!(value("48 << 30"), Some(48 << 30));
        assert_eq!(value("(1 + 2) * 3 - 4 / 2"), Some(7));
        assert_eq!(value("-5"), Some(-5));
        assert_eq!(value("0xff_u64"), Some(255));
        assert_eq!(value("1 << 200"), None);
        assert_eq!(value("1 / 0"), None);
        assert_eq!(value("N"), None);
    }
}
