//! Limits the nesting depth of tokens. Parsing recurses over them on the compiler's stack, so tokens that nest too deep
//! are rejected before parsing.

use proc_macro2::{Span, TokenStream, TokenTree};

/// Stack that parsing may use, of the 8 MiB that compilers and editors provide.
const BUDGET_KIB: usize = 4096;
/// Stack that parsing uses for a delimiter, without optimization; measured.
const DELIMITER_KIB: usize = 32;
/// Stack that parsing uses for an operator or keyword, which may precede an operand that is parsed by recursion.
const PREFIX_KIB: usize = 8;

/// Returns the first token that is nested too deep.
pub(crate) fn too_deep(tokens: &TokenStream) -> Option<Span> {
    beyond(tokens.clone(), 0)
}

fn beyond(tokens: TokenStream, outer: usize) -> Option<Span> {
    // The stack that the tokens since the last separator may use, if each of them is nested in the one before.
    let mut here = outer;
    for token in tokens {
        if here > BUDGET_KIB {
            return Some(token.span());
        }
        match token {
            TokenTree::Group(group) => {
                if let Some(span) = beyond(group.stream(), here + DELIMITER_KIB) {
                    return Some(span);
                }
                if group.delimiter() == proc_macro2::Delimiter::Brace {
                    here = outer;
                }
            }
            TokenTree::Punct(punct) if matches!(punct.as_char(), ',' | ';') => here = outer,
            TokenTree::Punct(_) => here += PREFIX_KIB,
            TokenTree::Ident(ident) if ident == "return" || ident == "break" || ident == "move" => here += PREFIX_KIB,
            TokenTree::Ident(_) | TokenTree::Literal(_) => {}
        }
    }
    None
}
