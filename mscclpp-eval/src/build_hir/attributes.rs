//! Attributes. Attributes that change what is compiled, `#[cfg]` above all, are rejected everywhere: the macro cannot
//! determine their effect.

use super::HirBuilder;

/// Attributes, or the first segments of their paths, that change nothing.
const HARMLESS: [&str; 16] = [
    "allow",
    "expect",
    "warn",
    "deny",
    "forbid",
    "doc",
    "rustfmt",
    "clippy",
    "inline",
    "must_use",
    "derive",
    "default",
    "repr",
    "non_exhaustive",
    "cold",
    "track_caller",
];

impl HirBuilder<'_> {
    /// Rejects attributes that change what is compiled.
    pub(super) fn attributes(&mut self, attrs: &[syn::Attribute]) {
        for attr in attrs {
            let first = attr.path().segments.first().map(|segment| segment.ident.to_string()).unwrap_or_default();
            if !HARMLESS.contains(&first.as_str()) {
                let tok = self.spans.pair(attr.pound_token.span, attr.bracket_token.span.close());
                self.refuse(
                    tok,
                    format!("the attribute `{first}` is not evaluated at compile time"),
                    "remove it; what a collective does must not depend on how it is compiled",
                );
            }
        }
    }
}

macro_rules! attributes_of {
    ($value:expr, $enum:ident: $($variant:ident)*) => {
        match $value {
            $(syn::$enum::$variant(inner) => &inner.attrs,)*
            _ => &[],
        }
    };
}

/// Returns the attributes of an expression.
pub(super) fn of_expr(expr: &syn::Expr) -> &[syn::Attribute] {
    attributes_of!(expr, Expr:
        Array Assign Async Await Binary Block Break Call Cast Closure Const Continue Field ForLoop Group If Index Let Lit
        Loop Macro Match MethodCall Paren Path Range RawAddr Reference Repeat Return Struct Try TryBlock Tuple Unary Unsafe
        While Yield)
}

/// Returns the attributes of a pattern.
pub(super) fn of_pattern(pattern: &syn::Pat) -> &[syn::Attribute] {
    attributes_of!(pattern, Pat:
        Const Guard Ident Lit Macro Or Paren Path Range Reference Rest Slice Struct Tuple TupleStruct Type Wild)
}
