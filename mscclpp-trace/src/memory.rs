//! What chunks hold over time.

/// What the chunks of all buffers hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Number of ranks.
    pub num_ranks: u32,
    /// The chunks that are shown, by buffer, rank and number.
    pub cells: Vec<Cell>,
    /// What a chunk may hold; the first one is nothing.
    pub contents: Vec<Content>,
    /// Per cell, its content at the start.
    pub initial: Vec<u32>,
    /// What operations have changed, in the order of their execution.
    pub changes: Vec<Change>,
}

/// A chunk of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Name of the buffer: `input`, `output`, `scratch` or `packets`.
    pub buffer: &'static str,
    /// The rank.
    pub rank: u32,
    /// Number of the chunk.
    pub chunk: u32,
}

/// What a chunk holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content {
    /// The ranks whose inputs it contains, in ascending order.
    pub ranks: Vec<u32>,
    /// Whether all of the chunk holds that, the same everywhere.
    pub whole: bool,
    /// Description, such as `input chunk 3 of ranks 0 to 3`.
    pub text: String,
}

/// A change of a chunk at the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Number of the operation's slice.
    pub slice: u32,
    /// Number of the cell.
    pub cell: u32,
    /// Number of the content from then on.
    pub content: u32,
}

impl Content {
    /// Returns its ranks as text: `0-3 6`.
    pub fn rank_ranges(&self) -> String {
        let text = |(first, last): &(u32, u32)| match last - first {
            0 => first.to_string(),
            1 => format!("{first} {last}"),
            _ => format!("{first}-{last}"),
        };
        ranges_of(&self.ranks).iter().map(text).collect::<Vec<_>>().join(" ")
    }
}

/// Returns the runs of ascending numbers, each with its first and last one.
pub(crate) fn ranges_of(numbers: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_formatted_as_ranges() {
        let text = |ranks: &[u32]| Content { ranks: ranks.to_vec(), ..Content::default() }.rank_ranges();
        let expected = ["", "5", "1 2", "0-3 6", "0 2-4"].map(str::to_owned);
        assert_eq!([text(&[]), text(&[5]), text(&[1, 2]), text(&[0, 1, 2, 3, 6]), text(&[0, 2, 3, 4])], expected);
    }
}
