//! Ranks, durations and values as messages show them.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::rank_info::RankInfo;

/// Maximum length of a value that an error repeats, in characters.
const MAX_VALUE_CHARS: usize = 80;

/// A duration formatted for messages: `250 ms`, `30.0 s`.
pub(super) struct Seconds(pub(super) Duration);

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            ms @ 0..1000 => write!(f, "{ms} ms"),
            _ => write!(f, "{:.1} s", self.0.as_secs_f64()),
        }
    }
}

/// Ranks formatted for messages: `rank 2`, `ranks 1, 2 and 5`.
pub(super) struct Ranks<'a>(pub(super) &'a [u32]);

impl Display for Ranks<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        /// Maximum number of listed ranks; longer lists end in a count.
        const MAX_LISTED_RANKS: usize = 16;
        match self.0 {
            [] => f.write_str("no rank"),
            [one] => write!(f, "rank {one}"),
            [most @ .., last] if most.len() < MAX_LISTED_RANKS => {
                write!(f, "ranks ")?;
                list(f, most)?;
                write!(f, " and {last}")
            }
            all => {
                write!(f, "ranks ")?;
                list(f, &all[..MAX_LISTED_RANKS])?;
                write!(f, " and {} more", all.len() - MAX_LISTED_RANKS)
            }
        }
    }
}

/// The ranks that excluded a rank.
pub(super) struct By<'a>(pub(super) &'a [u32]);

impl Display for By<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("the other ranks") } else { Ranks(self.0).fmt(f) }
    }
}

/// Members formatted for messages.
pub(super) struct Members<'a>(pub(super) &'a [RankInfo]);

impl Display for Members<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        /// Maximum number of members with process and host; longer lists have ranks only.
        const MAX_NAMED_MEMBERS: usize = 4;
        if self.0.len() > MAX_NAMED_MEMBERS {
            let ranks: Vec<u32> = self.0.iter().map(|member| member.rank).collect();
            return Ranks(&ranks).fmt(f);
        }
        list(f, self.0)
    }
}

/// The rank that waits for another one, or all ranks.
pub(super) struct Waiter(pub(super) Option<u32>);

impl Display for Waiter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(rank) => write!(f, "rank {rank} waits"),
            None => f.write_str("all ranks wait"),
        }
    }
}

/// The ranks that waited for others.
pub(super) struct Waiting<'a>(pub(super) &'a [u32]);

impl Display for Waiting<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, "; {} waited for it", Ranks(self.0))
    }
}

/// The last call of ranks that are late.
pub(super) struct LastCall<'a>(pub(super) &'a Option<String>);

impl Display for LastCall<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |call| write!(f, "; the last call before is {call}"))
    }
}

/// The rejected connections.
pub(super) struct Rejections<'a>(pub(super) &'a [String]);

impl Display for Rejections<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() {
            write!(f, "; rejected connections: ")?;
            list(f, self.0)?;
        }
        Ok(())
    }
}

fn list<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(f, "{separator}{item}")?;
    }
    Ok(())
}

/// Returns the beginning of a long text, with control characters escaped.
pub(crate) fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_VALUE_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_VALUE_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_lists_are_formatted_with_and() {
        let text = |ranks: &[u32]| Ranks(ranks).to_string();
        assert_eq!(text(&[2]), "rank 2");
        assert_eq!(text(&[1, 2, 5]), "ranks 1, 2 and 5");
        let many: Vec<u32> = (0..100).collect();
        assert!(text(&many).ends_with("15 and 84 more"), "{}", text(&many));
    }
}
