//! Finding the end of a JSON value without reading it.
//!
//! The scanner takes valid JSON for granted: on anything else it ends early or finds nothing, and whoever asked reads the
//! text in full to say what is wrong.

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

    /// The next byte that is not white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at)?, b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Steps over `byte` if it is next.
    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// The next key of an object and the colon behind it. `None` for one with escapes.
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

    /// Steps over a value and returns it.
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

/// Length of the string at the beginning.
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

/// Length of the object or array at the beginning.
///
/// Works on blocks of 64 bytes, as bit masks of quotes and brackets: a prefix sum over the quotes says which brackets stand
/// in strings, and only in a block where the depth can reach 0 are they looked at one by one.
fn container(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0_i64;
    // All ones while inside a string.
    let mut in_string = 0_u64;
    // Whether the first byte of the block is escaped.
    let mut escaped = false;
    let mut start = 0;
    while start < bytes.len() {
        let masks = match bytes.get(start..).and_then(|rest| rest.first_chunk::<64>()) {
            Some(block) => Masks::of(block),
            None => {
                let mut block = [b' '; 64];
                block[..bytes.len() - start].copy_from_slice(&bytes[start..]);
                Masks::of(&block)
            }
        };
        let quotes = masks.quotes & !escapes(masks.backslashes, &mut escaped);
        let strings = prefix_xor(quotes) ^ in_string;
        in_string = ((strings as i64) >> 63) as u64;
        let (opens, closes) = (masks.opens & !strings, masks.closes & !strings);
        let balance = i64::from(opens.count_ones()) - i64::from(closes.count_ones());
        if depth - i64::from(closes.count_ones()) <= 0 {
            let mut left = opens | closes;
            while left != 0 {
                let bit = left.trailing_zeros();
                depth += if opens >> bit & 1 == 1 { 1 } else { -1 };
                if depth == 0 {
                    return Some(start + bit as usize + 1).filter(|end| *end <= bytes.len());
                }
                left &= left - 1;
            }
        } else {
            depth += balance;
        }
        start += 64;
    }
    None
}

/// One bit for each byte of a block.
struct Masks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
}

const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;

impl Masks {
    #[inline]
    fn of(block: &[u8; 64]) -> Self {
        let mut masks = Self { quotes: 0, backslashes: 0, opens: 0, closes: 0 };
        for (i, word) in block.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            // `[` and `{`, `]` and `}` differ in one bit, which is set here.
            let bracket = word | 0x2020_2020_2020_2020;
            masks.quotes |= equal(word, b'"') << (8 * i);
            masks.backslashes |= equal(word, b'\\') << (8 * i);
            masks.opens |= equal(bracket, b'{') << (8 * i);
            masks.closes |= equal(bracket, b'}') << (8 * i);
        }
        masks
    }
}

/// One bit for each byte of a word that equals `byte`, lowest first.
#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    let other = word ^ u64::from_ne_bytes([byte; 8]);
    // The highest bit of each byte that is zero; the sum cannot carry into the next byte.
    let zero = !((other & LOW).wrapping_add(LOW) | other | LOW);
    // Moves the eight highest bits next to each other.
    (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// Bit `i` is the sum of bits 0 to `i`, modulo 2.
#[inline]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Which bytes are escaped by a backslash in front of them.
#[inline]
fn escapes(backslashes: u64, escaped: &mut bool) -> u64 {
    if backslashes == 0 {
        return u64::from(std::mem::take(escaped));
    }
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

    /// The same, one byte after the other.
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
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn blocks_agree_with_bytes(tail in r#"([\[\]{}:, 0]|"([\[\]{}x]|\\["\\n]){0,9}"){0,99}"#) {
            let text = format!("[{tail}");
            prop_assert_eq!(container(text.as_bytes()), plain_container(text.as_bytes()));
        }

        #[test]
        fn bits_are_bytes(word in any::<u64>(), byte in any::<u8>(), at in 0..8_usize) {
            let mut bytes = word.to_le_bytes();
            bytes[at] = byte;
            let expected = (0..8).filter(|i| bytes[*i] == byte).fold(0, |bits, i| bits | 1 << i);
            prop_assert_eq!(equal(u64::from_le_bytes(bytes), byte), expected);
        }
    }
}
