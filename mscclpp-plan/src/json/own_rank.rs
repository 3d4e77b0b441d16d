//! Reads one rank: the other ranks are cut out of the text before it is parsed.

use super::ReadOptions;
use super::chunking;
use super::read::{self, Part};
use super::scan::Scanner;
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::{PlanTree, RankPlan};

pub(super) fn read(text: &str, rank: u32) -> Result<PlanTree, Diagnostics> {
    match fast(text, rank) {
        Some(tree) => Ok(tree),
        // Something is unusual or wrong; the full reader reports what and where.
        None => slow(text, rank),
    }
}

fn slow(text: &str, rank: u32) -> Result<PlanTree, Diagnostics> {
    let (mut tree, _) = read::read(text, ReadOptions::default(), Part::Whole)?;
    if rank as usize >= tree.ranks.len() {
        let message = format!("the plan has {} ranks, expected one with rank {rank}", tree.ranks.len());
        return Err(Diagnostic::new(Code::InconsistentValue, Site::Path("gpus".into()), message).into());
    }
    // As in the fast path: they concern ranks that are not present.
    tree.expectations.clear();
    for (other, plan) in tree.ranks.iter_mut().enumerate() {
        if other != rank as usize {
            *plan = RankPlan::default();
        }
    }
    Ok(tree)
}

fn fast(text: &str, rank: u32) -> Option<PlanTree> {
    let outline = Outline::of(text, rank)?;
    let (before, after) = (&text[..outline.start], &text[outline.end..]);
    let short = [before, "[", outline.own, "]", after].concat();
    let part = Part::Rank { rank, of: outline.ranks };
    let (mut tree, _) = read::read(&short, ReadOptions::default(), part).ok()?;
    // The collective's chunking follows from rank 0.
    let implied = |counts| chunking::collective(tree.collective.kind.name(), counts, outline.ranks);
    let own = tree.ranks.first().map(|own| (own.input_chunks, own.output_chunks))?;
    let first = counts(outline.first)?;
    if first != own && implied(own) != implied(first) {
        return None;
    }
    let own = tree.ranks.pop()?;
    tree.ranks.resize_with(outline.ranks as usize, RankPlan::default);
    *tree.ranks.get_mut(rank as usize)? = own;
    Some(tree)
}

/// Maximum number of ranks for which the fast path reads a plan. Beyond, an array of empty objects would cost far more
/// than its bytes.
const MOST_RANKS: u32 = 1 << 16;

/// The positions of the ranks in a file.
struct Outline<'a> {
    /// From the first byte of the array of ranks to the position after its last byte.
    start: usize,
    end: usize,
    ranks: u32,
    /// Rank 0 and the requested rank.
    first: &'a str,
    own: &'a str,
}

impl<'a> Outline<'a> {
    fn of(text: &'a str, rank: u32) -> Option<Self> {
        let mut scan = Scanner::new(text);
        let mut found = None;
        scan.take(b'{')?;
        loop {
            if scan.key()? == "gpus" {
                let outline = Self::ranks(&mut scan, rank)?;
                if found.replace(outline).is_some() {
                    return None;
                }
            } else {
                scan.value()?;
            }
            match scan.peek()? {
                b',' => scan.take(b',')?,
                b'}' => return found,
                _ => return None,
            }
        }
    }

    /// Skips the array of ranks.
    fn ranks(scan: &mut Scanner<'a>, rank: u32) -> Option<Self> {
        scan.peek()?;
        let start = scan.at();
        scan.take(b'[')?;
        let (mut first, mut own) = (None, None);
        for number in 0..MOST_RANKS {
            if scan.peek()? != b'{' {
                return None;
            }
            let value = scan.value()?;
            if number == 0 {
                first = Some(value);
            }
            if number == rank {
                own = Some(value);
            }
            match scan.peek()? {
                b',' => scan.take(b',')?,
                b']' => {
                    scan.take(b']')?;
                    return Some(Self { start, end: scan.at(), ranks: number + 1, first: first?, own: own? });
                }
                _ => return None,
            }
        }
        None
    }
}

/// Returns the numbers of input and output chunks of a rank.
fn counts(rank: &str) -> Option<(u32, u32)> {
    let mut scan = Scanner::new(rank);
    let (mut input, mut output) = (None, None);
    scan.take(b'{')?;
    while input.is_none() || output.is_none() {
        let key = scan.key()?;
        let value = scan.value()?;
        match key {
            "input_chunks" => input = Some(value.parse().ok()?),
            "output_chunks" => output = Some(value.parse().ok()?),
            _ => {}
        }
        if scan.peek()? == b',' {
            scan.take(b',')?;
        }
    }
    Some((input?, output?))
}
