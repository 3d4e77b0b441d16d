//! Forwards the output of ranks, line by line, prefixed with the rank.

use std::io::{self, BufRead, BufReader, Read, Write};

/// Maximum bytes of a line that are written at once, so that a program that never ends its line fills no memory.
const PIECE: u64 = 64 << 10;

/// Copies `from` to `to` until `from` ends. `on_panic` is called for lines that say that the main thread of a Rust program panics.
///
/// # Errors
/// Those of `to`; `from` is then not read any further.
pub(super) fn copy(rank: u32, from: impl Read, mut to: impl Write, on_panic: impl Fn()) -> io::Result<()> {
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
        if is_panic(line.strip_prefix(prefix.as_bytes()).unwrap_or(&[])) {
            on_panic();
        }
        whole = line.last() == Some(&b'\n');
        // In one call, so that the lines of several ranks are not mixed.
        to.write_all(&line)?;
        if whole {
            to.flush()?;
        }
    }
}

/// Returns whether a line is the first one of such a message: `thread 'main' (4711) panicked at src/main.rs:3:5:`.
fn is_panic(line: &[u8]) -> bool {
    let rest = line.strip_prefix(b"thread 'main' ").and_then(|rest| std::str::from_utf8(rest).ok());
    rest.is_some_and(|rest| {
        rest.trim_start_matches(|c: char| "()".contains(c) || c.is_ascii_digit())
            .trim_start()
            .starts_with("panicked at ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        copy(3, text, &mut out, || panic!("{}", String::from_utf8_lossy(text))).unwrap();
        out
    }

    #[test]
    fn panic_of_the_main_thread_is_noticed() {
        let count = |text: &str| {
            let count = std::cell::Cell::new(0);
            copy(3, text.as_bytes(), io::sink(), || count.set(count.get() + 1)).unwrap();
            count.get()
        };
        assert_eq!(count("x\n\nthread 'main' (4711) panicked at src/main.rs:3:5:\nno\n"), 1);
        assert_eq!(count("thread 'main' panicked at src/main.rs:3:5:\n"), 1);
        assert_eq!(count("it says: thread 'main' panicked at x\nthread 'io' panicked at x\nthread 'main' ends\n"), 0);
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
