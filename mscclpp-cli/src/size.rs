//! Sizes on the command line: an integer with an optional suffix in powers of 1024.

use std::num::IntErrorKind;

use thiserror::Error;

/// Suffixes with the powers of two that they represent.
const SUFFIXES: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum SizeError {
    /// An empty text.
    #[error("expected a size such as 4096, 64K or 1M, found nothing")]
    Empty,
    /// A minus sign.
    #[error("expected a size of at least 0, found a negative number")]
    Negative,
    /// A decimal point or an exponent.
    #[error("expected an integer such as 1536 or 1536K, found a fraction")]
    Fraction,
    /// No digit at the start.
    #[error("expected digits with an optional suffix K, M, G or T, found no digit")]
    NoDigits,
    /// Characters after the digits that are no suffix.
    #[error("unknown suffix `{0}`; expected K, M, G or T (powers of 1024, also written KiB, MiB, GiB, TiB) or none")]
    Suffix(String),
    /// More than 64 bits.
    #[error("expected a size of at most 2^64 - 1")]
    TooLarge,
}

/// Reads a size: `0`, `4096`, `64K`, `1m`, `2GiB`.
///
/// # Errors
/// [`SizeError`], naming the unexpected part. Never panics.
pub(crate) fn parse(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    match (number.is_empty(), suffix.chars().next()) {
        (true, None) => return Err(SizeError::Empty),
        (true, Some('-')) => return Err(SizeError::Negative),
        (_, Some('.' | ',')) => return Err(SizeError::Fraction),
        (true, Some(_)) => return Err(SizeError::NoDigits),
        (false, _) => {}
    }
    let shift = shift(suffix).ok_or_else(|| SizeError::Suffix(suffix.chars().take(16).collect()))?;
    let number: u64 = number.parse().map_err(|e: std::num::ParseIntError| match e.kind() {
        IntErrorKind::PosOverflow => SizeError::TooLarge,
        _ => SizeError::NoDigits,
    })?;
    number.checked_mul(1 << shift).ok_or(SizeError::TooLarge)
}

/// Returns the power of two of a suffix: none, a letter, or a letter and `iB`; upper or lower case.
fn shift(suffix: &str) -> Option<u32> {
    let mut chars = suffix.chars();
    let Some(letter) = chars.next() else { return Some(0) };
    let rest = chars.as_str();
    let (_, shift) = SUFFIXES.into_iter().find(|(c, _)| c.eq_ignore_ascii_case(&letter))?;
    (rest.is_empty() || rest.eq_ignore_ascii_case("ib")).then_some(shift)
}

/// Formats a size for reading: exact where a suffix divides it (`1 MiB`), else rounded down to two decimals.
pub(crate) fn human(bytes: u64) -> String {
    let Some((letter, shift)) = SUFFIXES.into_iter().rev().find(|(_, shift)| bytes >> shift > 0) else {
        return format!("{bytes} B");
    };
    let unit = 1u64 << shift;
    let hundredths = (u128::from(bytes % unit) * 100) >> shift;
    match (bytes % unit, hundredths) {
        (0, _) => format!("{} {letter}iB", bytes / unit),
        _ => format!("{}.{hundredths:02} {letter}iB", bytes / unit),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn suffixes_are_powers_of_1024() {
        for (text, value) in [
            ("0", 0),
            ("1", 1),
            ("007", 7),
            ("1k", 1 << 10),
            ("1K", 1 << 10),
            ("3M", 3 << 20),
            ("2GiB", 2 << 30),
            (" 1T ", 1 << 40),
            ("1099511627776", 1 << 40),
            ("18446744073709551615", u64::MAX),
            ("16777215T", 16777215 << 40),
        ] {
            assert_eq!(parse(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn invalid_text_is_reported() {
        for (text, error) in [
            ("", SizeError::Empty),
            ("   ", SizeError::Empty),
            ("-1", SizeError::Negative),
            ("-", SizeError::Negative),
            ("1.5M", SizeError::Fraction),
            (".5", SizeError::Fraction),
            ("1,000", SizeError::Fraction),
            ("K", SizeError::NoDigits),
            ("+1", SizeError::NoDigits),
            ("1e6", SizeError::Suffix("e6".into())),
            ("1 M", SizeError::Suffix(" M".into())),
            ("1KB", SizeError::Suffix("KB".into())),
            ("0x10", SizeError::Suffix("x10".into())),
            ("1µ", SizeError::Suffix("µ".into())),
            ("18446744073709551616", SizeError::TooLarge),
            ("16777216T", SizeError::TooLarge),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn sizes_are_formatted_with_units() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.50 KiB"),
            (1 << 40, "1 TiB"),
            ((1 << 20) - 1, "1023.99 KiB"),
            (u64::MAX, "16777215.99 TiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_size_or_an_error(text in ".{0,24}") {
            let _ = parse(&text);
        }

        #[test]
        fn every_number_round_trips(value: u64) {
            prop_assert_eq!(parse(&value.to_string()), Ok(value));
        }
    }
}
