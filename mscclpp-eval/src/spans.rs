//! Token numbers and their spans.

use proc_macro2::Span;
use quote::ToTokens;

use crate::hir::SpanId;

/// First and last span of every position that a message may point at, by token number.
#[derive(Default)]
pub(crate) struct Spans {
    list: Vec<(Span, Span)>,
}

impl Spans {
    /// Adds the position of one token.
    pub(crate) fn one(&mut self, span: Span) -> SpanId {
        self.pair(span, span)
    }

    /// Adds a position from one token to another.
    pub(crate) fn pair(&mut self, first: Span, last: Span) -> SpanId {
        self.list.push((first, last));
        (self.list.len() - 1) as SpanId
    }

    /// Adds the position from the start of one to the end of another.
    pub(crate) fn join(&mut self, first: SpanId, last: SpanId) -> SpanId {
        let (first, last) = (self.get(first).0, self.get(last).1);
        self.pair(first, last)
    }

    /// Adds the position of some tokens, in time linear in their number.
    pub(crate) fn tokens(&mut self, tokens: &impl ToTokens) -> SpanId {
        let mut spans = tokens.to_token_stream().into_iter().map(|token| token.span());
        let first = spans.next().unwrap_or_else(Span::call_site);
        let last = spans.last().unwrap_or(first);
        self.pair(first, last)
    }

    /// Returns first and last span of a position; the macro's call for an unknown one.
    pub(crate) fn get(&self, tok: SpanId) -> (Span, Span) {
        self.list.get(tok as usize).copied().unwrap_or_else(|| (Span::call_site(), Span::call_site()))
    }
}
