//! Which calls are forwarded: the operations that `MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION` lists.
//!
//! The list's items are separated by commas: `all`, or the name of an operation, each with an optional `>` and a size. An
//! item covers the calls of its operation, and with a size those of more bytes. Case and spaces do not matter; a size is a
//! number of bytes with an optional suffix K, M or G, powers of 1024. The bytes of a call are those of the larger of a rank's
//! input and output, and of a transfer its own, so that all ranks decide alike.

use std::fmt;

use crate::kind::{OPERATIONS, Operation};

/// The calls that are forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// By number of the operation: calls of more bytes are forwarded, or with `None` those of any size.
    forced: [Option<Option<u64>>; OPERATIONS.len()],
}

impl Rules {
    /// Reads a list. Items that are not valid are left out; the second result says why, a text for each.
    pub(crate) fn read(list: &str) -> (Self, Vec<String>) {
        let (mut rules, mut warnings) = (Self::default(), Vec::new());
        let items = list.split(',').map(|item| item.replace(char::is_whitespace, "").to_lowercase());
        for item in items.filter(|item| !item.is_empty()) {
            let (name, size) = item.split_once('>').map_or((&*item, None), |(name, size)| (name, Some(size)));
            let size = match size.map(|size| bytes(size).ok_or(size)) {
                None => None,
                Some(Ok(bytes)) => Some(bytes),
                Some(Err(size)) => {
                    warnings.push(format!("`{item}`: expected a size such as 65536, 64K, 64M or 1G, found `{size}`"));
                    continue;
                }
            };
            let named = |operation: &&(Operation, &str)| name == "all" || name == operation.1;
            let mut is_known = false;
            for (operation, _) in OPERATIONS.iter().filter(named) {
                is_known = true;
                rules.add(*operation, size);
            }
            if !is_known {
                let known: Vec<&str> = OPERATIONS.iter().map(|(_, name)| *name).collect();
                warnings.push(format!("`{name}` is no operation: expected all, {}", known.join(", ")));
            }
        }
        (rules, warnings)
    }

    /// Adds an item: of several ones for an operation, the one that covers most calls counts.
    fn add(&mut self, operation: Operation, size: Option<u64>) {
        let forced = &mut self.forced[operation as usize];
        *forced = Some(match (*forced, size) {
            (None, size) => size,
            (Some(Some(known)), Some(size)) => Some(known.min(size)),
            _ => None,
        });
    }

    /// Returns whether calls of an operation are forwarded at this size.
    pub(crate) fn covers(&self, operation: Operation, bytes: u64) -> bool {
        self.forced[operation as usize].is_some_and(|above| above.is_none_or(|above| bytes > above))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.forced.iter().all(Option::is_none)
    }
}

/// The list that has the same meaning, in the order of the operations; empty for none.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = OPERATIONS.iter().filter_map(|(operation, name)| match self.forced[*operation as usize]? {
            None => Some((*name).to_owned()),
            Some(above) => Some(format!("{name}>{above}")),
        });
        f.write_str(&items.collect::<Vec<_>>().join(","))
    }
}

/// Reads a size.
fn bytes(text: &str) -> Option<u64> {
    let (number, shift) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 10),
        b'm' => (&text[..text.len() - 1], 20),
        b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    // `parse` accepts a sign.
    number.bytes().all(|digit| digit.is_ascii_digit()).then(|| number.parse::<u64>().ok())??.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_operations_in_any_case_with_spaces() {
        for (list, expected) in [
            ("", ""),
            (" , ,", ""),
            ("AllReduce", "allreduce"),
            (" broadcast , ALLGATHER ", "allgather,broadcast"),
            ("allreduce > 64 M", "allreduce>67108864"),
            ("reduce>0,reduce>1k", "reduce>0"),
            ("reduce>1k,reduce", "reduce"),
            ("all", "allreduce,allgather,reducescatter,broadcast,reduce,alltoall,gather,scatter,sendrecv"),
        ] {
            let (rules, warnings) = Rules::read(list);
            assert_eq!((rules.to_string(), warnings), (expected.to_owned(), vec![]), "{list}");
            assert_eq!(Rules::read(&rules.to_string()).0, rules);
        }
    }

    #[test]
    fn calls_of_more_bytes_than_the_size_are_covered() {
        let (rules, _) = Rules::read("all>1G,allreduce>64M,sendrecv");
        let covers = |operation, bytes| rules.covers(operation, bytes);
        assert_eq!([64 << 20, (64 << 20) + 1].map(|bytes| covers(Operation::AllReduce, bytes)), [false, true]);
        assert_eq!([1 << 30, (1 << 30) + 1].map(|bytes| covers(Operation::Gather, bytes)), [false, true]);
        assert!(covers(Operation::SendRecv, 1));
        assert!(!Rules::default().covers(Operation::SendRecv, u64::MAX) && Rules::default().is_empty());
    }

    #[test]
    fn invalid_items_are_left_out_with_the_reason() {
        let (rules, warnings) = Rules::read("allreduce,gossip,reduce>,gather>-1,scatter>9x,alltoall>99999999999g");
        assert_eq!(rules.to_string(), "allreduce");
        assert_eq!(warnings.len(), 5, "{warnings:?}");
        let known =
            "expected all, allreduce, allgather, reducescatter, broadcast, reduce, alltoall, gather, scatter, sendrecv";
        assert_eq!(warnings[0], format!("`gossip` is no operation: {known}"));
        assert!(warnings[2].contains("expected a size such as 65536, 64K, 64M or 1G, found `-1`"));
    }
}
