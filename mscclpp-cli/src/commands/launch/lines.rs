//! Forwards the output of ranks, line by line, prefixed with the rank.

use std::io::{self, BufRead, BufReader, Read, Write};

/// Maximum bytes of a line that are written at once, so that a program that never ends its line fills no memory.
const PIECE: u64 = 64 << 10;

/// Copies `from` to `to` until `from` ends.
///
/// # Errors
/// Those of `to`; `from` is then not read any further.
pub(super) fn copy(rank: u32, from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let prefix = format!("[{rank}] ");
    let mut line = Vec::new();
    let mut whole = true;
    loop {
        line.clear();
        if whole {
            line.extend_from_slice(prefix.as_bytes());
        }
        // A read error counts as the end.
        let got = from.by_ref().take(PIECE).read_until(b'\n', &mut line).unwrap_or(0);
        if got == 0 {
            if !whole {
                to.write_all(b"\n")?;
            }
            return to.flush();
        }
        whole = line.last() == Some(&b'\n');
        // In one call, so that the lines of several ranks are not mixed.
        to.write_all(&line)?;
        if whole {
            to.flush()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        copy(3, text, &mut out).unwrap();
        out
    }

    #[test]
    fn every_line_has_its_rank_and_a_line_end() {
        assert_eq!(copied(b"a\n\nb"), b"[3] a\n[3] \n[3] b\n");
        assert_eq!(copied(b""), b"");
        assert_eq!(copied(b"\xff\n"), b"[3] \xff\n");
    }

    #[test]
    fn line_without_end_is_written_in_parts() {
        let long = vec![b'x'; 3 * PIECE as usize + 1];
        let out = copied(&long);
        assert_eq!(out.len(), long.len() + "[3] \n".len());
    }
}
