//! Finds the end of a JSON value without parsing it.
//!
//! The scanner assumes valid JSON: on anything else it ends early or finds nothing, and the caller then parses the
//! whole text to report what is wrong.

/// A position in a text.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the next byte that is not white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at)?, b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Skips `byte` if it is next.
    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Returns the next key of an object and skips the colon after it. `None` for a key with escapes.
    pub(super) fn key(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let start = self.at;
        let length = self.text.as_bytes()[start..].iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        self.at += length;
        let key = self.text.get(start..self.at)?;
        self.take(b'"')?;
        self.take(b':')?;
        Some(key)
    }

    /// Skips a value and returns it.
    pub(super) fn value(&mut self) -> Option<&'a str> {
        let first = self.peek()?;
        let start = self.at;
        let bytes = &self.text.as_bytes()[start..];
        let length = match first {
            b'{' | b'[' => container(bytes)?,
            b'"' => string(bytes)?,
            _ => bytes.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'))?,
        };
        self.at += length;
        self.text.get(start..self.at)
    }
}

/// Returns the length of the string at the beginning.
fn string(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the length of the object or array at the beginning.
///
/// Works on blocks of 64 bytes, as bit masks of quotes and brackets: a prefix sum over the quotes tells which brackets
/// are in strings, and only in a block where the depth can reach 0 are they inspected individually.
fn container(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0_i64;
    // All ones while inside a string.
    let mut in_string = 0_u64;
    // Whether the first byte of the block is escaped.
    let mut escaped = false;
    let mut start = 0;
    while start < bytes.len() {
        let padded;
        let block = match bytes.get(start..).and_then(|rest| rest.first_chunk::<64>()) {
            Some(block) => block,
            None => {
                let mut block = [b' '; 64];
                block[..bytes.len() - start].copy_from_slice(&bytes[start..]);
                padded = block;
                &padded
            }
        };
        let mut quotes = transpose(mask(block, |byte| byte == b'"'));
        if escaped || block.iter().fold(false, |any, byte| any | (*byte == b'\\')) {
            quotes &= !escapes(transpose(mask(block, |byte| byte == b'\\')), &mut escaped);
        }
        let strings = prefix_xor(quotes) ^ in_string;
        in_string = ((strings as i64) >> 63) as u64;
        // `[` and `{`, `]` and `}` differ in one bit. Counting needs no order, so the strings are transposed instead.
        let outside = !transpose(strings);
        let opens = mask(block, |byte| byte | 0x20 == b'{') & outside;
        let closes = mask(block, |byte| byte | 0x20 == b'}') & outside;
        if depth <= i64::from(closes.count_ones()) {
            let (opens, mut left) = (transpose(opens), transpose(opens | closes));
            while left != 0 {
                let bit = left.trailing_zeros();
                depth += if opens >> bit & 1 == 1 { 1 } else { -1 };
                if depth == 0 {
                    return Some(start + bit as usize + 1);
                }
                left &= left - 1;
            }
        } else {
            depth += i64::from(opens.count_ones()) - i64::from(closes.count_ones());
        }
        start += 64;
    }
    None
}

/// Returns one bit per byte of a block; that of byte `8 k + j` is bit `8 j + k`, the order that is cheapest to produce.
#[inline]
fn mask(block: &[u8; 64], is: impl Fn(u8) -> bool) -> u64 {
    let flags: [u8; 64] = std::array::from_fn(|at| u8::from(is(block[at])));
    let words = flags.as_chunks::<8>().0.iter().enumerate();
    words.fold(0, |bits, (k, word)| bits | u64::from_le_bytes(*word) << k)
}

/// Moves each bit from `8 j + k` to `8 k + j`.
#[inline]
fn transpose(mut bits: u64) -> u64 {
    for (shift, moved) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let swap = (bits ^ (bits >> shift)) & moved;
        bits ^= swap ^ (swap << shift);
    }
    bits
}

/// Returns the prefix sums modulo 2: bit `i` is the sum of bits 0 to `i`.
#[inline]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Returns the bytes that are escaped by a preceding backslash.
#[cold]
fn escapes(backslashes: u64, escaped: &mut bool) -> u64 {
    let mut bits = u64::from(*escaped);
    for bit in 0..63 {
        bits |= (backslashes & !bits & 1 << bit) << 1;
    }
    *escaped = backslashes & !bits & 1 << 63 != 0;
    bits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the result of `container`, computed byte by byte.
    fn plain_container(bytes: &[u8]) -> Option<usize> {
        let (mut depth, mut at) = (0, 0);
        while at < bytes.len() {
            match bytes[at] {
                b'"' => at += string(&bytes[at..])? - 1,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return Some(at);
            }
        }
        None
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn blocks_agree_with_bytes(tail in r#"([\[\]{}:, 0]|"([\[\]{}x]|\\["\\n]){0,9}"){0,99}"#) {
            let text = format!("[{tail}");
            prop_assert_eq!(container(text.as_bytes()), plain_container(text.as_bytes()));
        }

        #[test]
        fn bits_are_bytes(block in prop::collection::vec(0..4_u8, 64)) {
            let block: [u8; 64] = block.try_into().unwrap();
            let expected = (0..64).filter(|at| block[*at] == 1).fold(0, |bits, at| bits | 1 << at);
            prop_assert_eq!(transpose(mask(&block, |byte| byte == 1)), expected);
            prop_assert_eq!(transpose(transpose(expected)), expected);
        }
    }
}
