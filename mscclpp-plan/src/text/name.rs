//! Names of plans and tags: bare words, or strings in quotes.

use std::fmt::{self, Display, Formatter};

/// A name as it is written: bare if it is a word, otherwise in quotes.
pub(super) struct Name<'a>(pub(super) &'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        if chars.next().is_some_and(starts_word) && chars.all(continues_word) {
            return f.write_str(self.0);
        }
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                // Everything that an editor or a terminal interprets as the end of a line or a command.
                c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// Returns whether a word may begin with a character.
pub(super) const fn starts_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Returns whether a word may continue with a character.
pub(super) const fn continues_word(c: char) -> bool {
    starts_word(c) || c.is_ascii_digit()
}

/// Returns the string after an opening quote, and the length of its text including the closing one; `None` if it is not
/// well formed.
pub(super) fn unquote(text: &str) -> Option<(String, usize)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((out, at + 1)),
            (_, '\n') => return None,
            (_, '\\') => match chars.next()?.1 {
                c @ ('"' | '\\') => out.push(c),
                'u' => {
                    let rest = chars.as_str().strip_prefix('{')?;
                    // At most six hexadecimal digits.
                    let end = rest.bytes().take(7).position(|byte| byte == b'}')?;
                    let digits =
                        rest.get(..end).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
                    out.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                    chars.nth(end + 1)?;
                }
                _ => return None,
            },
            (_, c) => out.push(c),
        }
    }
}
