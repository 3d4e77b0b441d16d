//! The tokens of a JSON text.
//!
//! Reads what plan files consist of: short strings without escapes, integers, punctuation. `serde_json` reads
//! everything rarer.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::context::quoted;

/// The text is not JSON; [`Lexer::problem`] returns the reason.
#[derive(Debug)]
pub(super) struct Stop;

/// A number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

/// A position in a text.
#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    problem: String,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0, problem: String::new() }
    }

    /// Returns what is wrong with the text, after a [`Stop`].
    pub(super) fn problem(&self) -> &str {
        &self.problem
    }

    /// Records what was expected at the current position.
    #[cold]
    fn stop(&mut self, expected: &str) -> Stop {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = before.len() - before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1) + 1;
        self.problem = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            None => format!("the text ends at line {line} column {column}, expected {expected}"),
            Some(found) => format!("expected {expected} at line {line} column {column}, found {found:?}"),
        };
        Stop
    }

    /// Returns the next byte that is not white space.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<u8, Stop> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(self.stop("more text")),
            }
        }
    }

    /// Skips a punctuation mark.
    #[inline]
    pub(super) fn expect(&mut self, mark: u8) -> Result<(), Stop> {
        if self.peek()? != mark {
            return Err(self.no_mark(mark));
        }
        self.at += 1;
        Ok(())
    }

    /// Skips the beginning of a list. Returns true if the list has elements; otherwise skips its end as well.
    #[inline]
    pub(super) fn open(&mut self, start: u8, end: u8) -> Result<bool, Stop> {
        self.expect(start)?;
        let empty = self.peek()? == end;
        self.at += usize::from(empty);
        Ok(!empty)
    }

    /// Skips the next string if it is `wanted`, a text without escapes.
    #[inline]
    pub(super) fn take_string(&mut self, wanted: &str) -> bool {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let found = rest.strip_prefix(b"\"").and_then(|rest| rest.strip_prefix(wanted.as_bytes()));
        let found = found.is_some_and(|rest| rest.starts_with(b"\""));
        if found {
            self.at += wanted.len() + 2;
        }
        found
    }

    /// Skips the separator after an element. Returns true for a comma, false for the end of the list.
    #[inline]
    pub(super) fn more(&mut self, end: u8) -> Result<bool, Stop> {
        let found = self.peek()?;
        if found != b',' && found != end {
            return Err(self.no_end(end));
        }
        self.at += 1;
        Ok(found == b',')
    }

    #[cold]
    fn no_mark(&mut self, mark: u8) -> Stop {
        self.stop(&format!("{:?}", char::from(mark)))
    }

    #[cold]
    fn no_end(&mut self, end: u8) -> Stop {
        self.stop(&format!("',' or {:?}", char::from(end)))
    }

    /// Records that no value starts here.
    #[cold]
    pub(super) fn no_value(&mut self) -> Stop {
        self.stop("a value")
    }

    /// Checks that only white space is left.
    pub(super) fn end(&mut self) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        let blank = rest.len() - rest.trim_start_matches([' ', '\n', '\r', '\t']).len();
        self.at += blank;
        if self.at == self.text.len() { Ok(()) } else { Err(self.stop("the end of the text")) }
    }

    /// Returns the next string, borrowed from the text if it has no escapes.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Cow<'t, str>, Stop> {
        self.expect(b'"')?;
        let start = self.at;
        let at = start + plain(&self.text.as_bytes()[start..]);
        if self.text.as_bytes().get(at) != Some(&b'"') {
            self.at = start - 1;
            return self.rare::<String>("a string").map(Cow::Owned);
        }
        self.at = at + 1;
        Ok(Cow::Borrowed(&self.text[start..at]))
    }

    /// Returns the next number.
    #[inline]
    pub(super) fn number(&mut self) -> Result<Number, Stop> {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        let mut value = 0_u64;
        // Eighteen digits never overflow.
        while at - self.at < 18
            && let Some(digit @ b'0'..=b'9') = bytes.get(at)
        {
            value = value * 10 + u64::from(digit - b'0');
            at += 1;
        }
        let leading_zero = bytes[self.at] == b'0' && at - self.at > 1;
        if at == self.at || leading_zero || matches!(bytes.get(at), Some(b'0'..=b'9' | b'.' | b'e' | b'E')) {
            return self.rare_number();
        }
        self.at = at;
        Ok(Number::Unsigned(value))
    }

    #[cold]
    fn rare_number(&mut self) -> Result<Number, Stop> {
        let number: serde_json::Number = self.rare("a number of any size up to 1.8e308")?;
        Ok(match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => Number::Unsigned(value),
            (_, Some(value)) => Number::Signed(value),
            _ => Number::Float(number.as_f64().unwrap_or(f64::NAN)),
        })
    }

    /// Reads `true`, `false`, or `null`, for which it returns `None`.
    pub(super) fn word(&mut self) -> Result<Option<bool>, Stop> {
        for (word, value) in [("true", Some(true)), ("false", Some(false)), ("null", None)] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.no_value())
    }

    /// Skips the next value.
    pub(super) fn skip(&mut self) -> Result<(), Stop> {
        self.rare::<IgnoredAny>("a value").map(|_| ())
    }

    /// Reads the next value with `serde_json`.
    #[cold]
    fn rare<T: serde::de::DeserializeOwned>(&mut self, expected: &str) -> Result<T, Stop> {
        let rest = &self.text[self.at..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<T>();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(error)) if error.is_eof() => {
                self.at = self.text.len();
                Err(self.stop(expected))
            }
            _ => {
                let shown = rest.split(['\n', ',', ']', '}']).next().unwrap_or_default();
                let stop = self.stop(expected);
                self.problem = format!("{}: {}", self.problem, quoted(shown));
                Err(stop)
            }
        }
    }
}

/// Returns the length of the text before the first quote, backslash or control character.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // Marks, in its highest bit, the first byte that is smaller than `limit`, a number up to 128; later bytes may be
    // marked as well.
    let below = |word: u64, limit: u8| word.wrapping_sub(LOW * u64::from(limit)) & !word & HIGH;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = below(word ^ (LOW * u64::from(b'"')), 1);
        let backslash = below(word ^ (LOW * u64::from(b'\\')), 1);
        let found = quote | backslash | below(word, b' ');
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = &bytes[at.min(bytes.len())..];
    at + rest.iter().position(|byte| matches!(byte, 0..b' ' | b'"' | b'\\')).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_agree_with_bytes(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'"'), b'a'..=b'z'], 0..40)) {
            let expected = bytes.iter().position(|byte| matches!(byte, 0..b' ' | b'"' | b'\\')).unwrap_or(bytes.len());
            prop_assert_eq!(super::plain(&bytes), expected);
        }
    }
}
