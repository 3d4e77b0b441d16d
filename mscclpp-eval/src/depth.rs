//! How deep tokens nest. Parsing recurses over them on the compiler's stack, so what is too deep is refused before.

use proc_macro2::{Span, TokenStream, TokenTree};

/// Stack that parsing may take, of the 8 MiB that compilers and editors give.
const BUDGET_KIB: usize = 4096;
/// Stack that parsing takes for a delimiter, without optimisation; measured.
const DELIMITER_KIB: usize = 32;
/// The same for an operator or keyword, which may stand before an operand that is parsed by recursion.
const PREFIX_KIB: usize = 8;

/// The first token that is too deep to be parsed.
pub(crate) fn too_deep(tokens: &TokenStream) -> Option<Span> {
    beyond(tokens.clone(), 0)
}

fn beyond(tokens: TokenStream, outer: usize) -> Option<Span> {
    // What the tokens since the last separator may take, should each of them be within the one before.
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
