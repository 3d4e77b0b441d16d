//! Rank 0's part in shrinking communicators: collects the remaining ranks of each, and the ranks that they consider lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::{Delivery, Router};
use crate::context;
use crate::error::Error;
use crate::frame::Frame;

/// Communicators that are being shrunk, and the ranks that are excluded from others.
#[derive(Debug, Default)]
pub(super) struct Shrinks {
    open: BTreeMap<u64, Shrink>,
    /// By communicator: the ranks that were excluded, and those that excluded each of them.
    ended: BTreeMap<u64, BTreeMap<u32, Vec<u32>>>,
    /// Number of communicators that were created.
    created: u64,
}

/// A communicator that is being shrunk.
#[derive(Debug)]
struct Shrink {
    group: Vec<u32>,
    /// By rank that continues: the ranks that it considers lost.
    claims: BTreeMap<u32, Vec<u32>>,
    since: Instant,
    /// When the first of the waiting ranks stops waiting.
    until: Instant,
}

/// What a rank that continues states.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) group: Vec<u32>,
    pub(super) lost: Vec<u32>,
    pub(super) now: Instant,
    pub(super) until: Instant,
}

impl Shrinks {
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.open.values().map(|shrink| shrink.until).min()
    }
}

impl Router {
    /// Records that a rank continues without the ranks that it considers lost.
    pub(super) fn enter_shrink(&mut self, context: u64, from: u32, claim: Claim, out: &mut Vec<Delivery>) {
        if let Some(error) = self.lost.get(&from) {
            let error = self.excluded(from, vec![0], error.to_string());
            return out.push(reply(from, context, Err(error)));
        }
        if let Some(by) = self.shrinks.ended.get(&context).and_then(|excluded| excluded.get(&from)) {
            let error = self.excluded(from, by.clone(), "they continued without it".into());
            return out.push(reply(from, context, Err(error)));
        }
        let Claim { group, lost, now, until } = claim;
        let new = || Shrink { group, claims: BTreeMap::new(), since: now, until };
        let shrink = self.shrinks.open.entry(context).or_insert_with(new);
        shrink.until = shrink.until.min(until);
        shrink.claims.insert(from, lost);
        self.complete_shrinks(out);
    }

    /// Creates the communicators of which all remaining ranks have stated that they continue.
    pub(super) fn complete_shrinks(&mut self, out: &mut Vec<Delivery>) {
        let open: Vec<u64> = self.shrinks.open.keys().copied().collect();
        for context in open {
            let shrink = &self.shrinks.open[&context];
            let excluded = self.excluded_ranks(context, shrink);
            let remaining: Vec<u32> = shrink.group.iter().copied().filter(|rank| !excluded.contains(rank)).collect();
            if remaining.iter().any(|rank| !shrink.claims.contains_key(rank)) {
                continue;
            }
            let Some(shrink) = self.shrinks.open.remove(&context) else { continue };
            self.shrinks.created += 1;
            let number = context::number(context, self.shrinks.created, SHRUNK);
            let mut ended = self.shrinks.ended.remove(&context).unwrap_or_default();
            for rank in excluded {
                let by = shrink.claims.iter().filter(|(_, lost)| lost.contains(&rank)).map(|(by, _)| *by);
                let by: Vec<u32> = by.collect();
                ended.entry(rank).or_insert(if by.is_empty() { remaining.clone() } else { by });
            }
            for &rank in shrink.claims.keys() {
                let result = match ended.get(&rank) {
                    None => Ok((number, remaining.clone())),
                    Some(by) => Err(self.excluded(rank, by.clone(), "they consider it lost".into())),
                };
                out.push(reply(rank, context, result));
            }
            self.shrinks.ended.insert(context, ended);
        }
    }

    /// Ends the wait for ranks that neither continue nor are lost.
    pub(super) fn expire_shrinks(&mut self, now: Instant, out: &mut Vec<Delivery>) {
        let late = |shrinks: &Shrinks| shrinks.open.iter().find(|(_, open)| now >= open.until).map(|(at, _)| *at);
        while let Some(context) = late(&self.shrinks) {
            let Some(shrink) = self.shrinks.open.remove(&context) else { return };
            let excluded = self.excluded_ranks(context, &shrink);
            let is_missing = |rank: &&u32| !excluded.contains(rank) && !shrink.claims.contains_key(rank);
            let missing = shrink.group.iter().filter(is_missing).map(|rank| self.members[*rank as usize].clone());
            let error = Error::CollectiveTimeout {
                call: "shrink".into(),
                missing: missing.collect(),
                waiting: shrink.claims.keys().copied().collect(),
                waited: shrink.until - shrink.since,
            };
            out.extend(shrink.claims.keys().map(|rank| reply(*rank, context, Err(error.clone()))));
        }
    }

    /// Returns the ranks that do not continue: those that any rank considers lost, and those that were excluded before.
    fn excluded_ranks(&self, context: u64, shrink: &Shrink) -> BTreeSet<u32> {
        let earlier = self.shrinks.ended.get(&context).into_iter().flat_map(BTreeMap::keys);
        let claimed = shrink.claims.values().flatten();
        let absent = shrink.group.iter().filter(|rank| self.is_absent(**rank));
        earlier.chain(claimed).chain(absent).copied().filter(|rank| shrink.group.contains(rank)).collect()
    }

    fn excluded(&self, rank: u32, by: Vec<u32>, reason: String) -> Error {
        Error::Excluded { who: Box::new(self.members[rank as usize].clone()), by, reason }
    }
}

/// Distinguishes the numbers of shrunk communicators from those of split ones.
const SHRUNK: u64 = 1 << 32;

fn reply(to: u32, context: u64, result: Result<(u64, Vec<u32>), Error>) -> Delivery {
    Delivery { to: vec![to], frame: Frame::Shrunk { context, result } }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rank_info::RankInfo;

    const LONG: Duration = Duration::from_secs(9);

    fn router(ranks: u32) -> Router {
        let members: Vec<_> = (0..ranks).map(|rank| RankInfo::this(rank, None)).collect();
        Router::new(members.into())
    }

    fn shrink(router: &mut Router, from: u32, lost: &[u32], now: Instant) -> Vec<(u32, Result<Vec<u32>, Error>)> {
        let mut out = Vec::new();
        let group = (0..4).collect();
        router.route(from, Frame::EnterShrink { context: 3, group, lost: lost.to_vec(), timeout: LONG }, now, &mut out);
        results(out)
    }

    fn results(out: Vec<Delivery>) -> Vec<(u32, Result<Vec<u32>, Error>)> {
        let result = |delivery: Delivery| match delivery.frame {
            Frame::Shrunk { context: 3, result } => Some((delivery.to[0], result.map(|(_, ranks)| ranks))),
            _ => None,
        };
        out.into_iter().filter_map(result).collect()
    }

    #[test]
    fn ranks_with_different_lists_continue_without_the_union() {
        let (mut router, now) = (router(5), Instant::now());
        assert!(shrink(&mut router, 0, &[1], now).is_empty());
        assert!(shrink(&mut router, 1, &[], now).is_empty(), "rank 2 is missing");
        let mut out = shrink(&mut router, 2, &[3], now);
        let excluded = out.remove(1);
        assert_eq!(out, [(0, Ok(vec![0, 2])), (2, Ok(vec![0, 2]))]);
        assert!(matches!(excluded, (1, Err(Error::Excluded { who, by, .. })) if who.rank == 1 && by == [0]));
        // A rank that is late learns who excluded it.
        let late = shrink(&mut router, 3, &[], now).remove(0);
        assert!(matches!(late, (3, Err(Error::Excluded { by, .. })) if by == [2]));
        // The same communicator can be shrunk again, and excluded ranks stay excluded.
        assert!(shrink(&mut router, 2, &[], now).is_empty());
        assert_eq!(shrink(&mut router, 0, &[], now).len(), 2);
    }

    #[test]
    fn rank_that_dies_or_leaves_meanwhile_is_excluded() {
        let (mut router, now) = (router(4), Instant::now());
        shrink(&mut router, 0, &[], now);
        shrink(&mut router, 3, &[], now);
        let mut out = Vec::new();
        router.route(1, Frame::Leave { rank: 1 }, now, &mut out);
        let error = Error::Died { who: Box::new(RankInfo::this(2, None)), how: "test".into() };
        router.lose(2, error, &mut out);
        assert_eq!(results(out), [(0, Ok(vec![0, 3])), (3, Ok(vec![0, 3]))]);
        assert!(matches!(&shrink(&mut router, 2, &[], now)[..], [(2, Err(Error::Excluded { by, .. }))] if by == &[0]));
    }

    #[test]
    fn rank_that_does_not_shrink_is_reported_as_missing() {
        let (mut router, now) = (router(4), Instant::now());
        (0..3).for_each(|rank| _ = shrink(&mut router, rank, &[], now));
        let mut out = Vec::new();
        router.expire(now + LONG, &mut out);
        let out = results(out);
        assert_eq!(out.len(), 3);
        for (_, result) in out {
            let error = result.unwrap_err();
            assert_eq!((error.lost(), error.operation()), (vec![3], Some("shrink")));
        }
        // The others continue without it.
        (0..2).for_each(|rank| _ = shrink(&mut router, rank, &[3], now));
        assert_eq!(shrink(&mut router, 2, &[3], now).len(), 3);
    }
}
