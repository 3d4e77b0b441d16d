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
    /// By rank that continues: the ranks that it considers lost, or excludes; ascending.
    claims: BTreeMap<u32, Vec<u32>>,
    /// Whether a rank that continues knows that the communicator has failed.
    has_failed: bool,
    /// Whether ranks wait for each other in vain: each shall continue with the other, but their lists differ.
    is_contradictory: bool,
    since: Instant,
    /// When the first of the waiting ranks stops waiting.
    until: Instant,
}

/// What a rank that continues states.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) group: Vec<u32>,
    pub(super) lost: Vec<u32>,
    pub(super) has_failed: bool,
    pub(super) now: Instant,
    pub(super) until: Instant,
}

impl Shrink {
    /// Returns whether a rank that continues does not exclude another one.
    fn is_awaited(&self, rank: u32) -> bool {
        self.claims.values().any(|list| list.binary_search(&rank).is_err())
    }

    /// Returns whether a rank that states a list waits for others that wait for it. A different list alone is no contradiction: a rank that
    /// an earlier shrink excludes may already state the list of the next one, while others have yet to end the earlier.
    fn is_contradicted_by(&self, list: &Vec<u32>, from: u32) -> bool {
        let mut members = BTreeMap::<&Vec<u32>, Vec<u32>>::new();
        for (&rank, claimed) in self.claims.iter().chain([(&from, list)]) {
            members.entry(claimed).or_default().push(rank);
        }
        // Whether ranks that state the first list wait for one that states the second.
        let waits = |first: &Vec<u32>, second: &Vec<u32>| {
            first != second && members[second].iter().any(|rank| first.binary_search(rank).is_err())
        };
        let (mut reached, mut next) = (BTreeSet::new(), vec![list]);
        while let Some(one) = next.pop() {
            for &other in members.keys() {
                if waits(one, other) && reached.insert(other) {
                    next.push(other);
                }
            }
        }
        reached.contains(list)
    }
}

impl Shrinks {
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// Returns the number of a new communicator.
    fn number(&mut self, context: u64) -> u64 {
        self.created += 1;
        context::number(context, self.created, SHRUNK)
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
        let Claim { group, lost, has_failed, now, until } = claim;
        let new = || Shrink { group, claims: BTreeMap::new(), has_failed, is_contradictory: false, since: now, until };
        let shrink = self.shrinks.open.entry(context).or_insert_with(new);
        shrink.has_failed |= has_failed;
        shrink.until = shrink.until.min(until);
        shrink.is_contradictory |= shrink.is_contradicted_by(&lost, from);
        shrink.claims.insert(from, lost);
        self.complete_shrinks(out);
    }

    /// Creates the communicators of which all remaining ranks have stated that they continue.
    pub(super) fn complete_shrinks(&mut self, out: &mut Vec<Delivery>) {
        let open: Vec<u64> = self.shrinks.open.keys().copied().collect();
        for context in open {
            if !self.excludes_union(context) {
                self.complete_without_failure(context, out);
                continue;
            }
            let shrink = &self.shrinks.open[&context];
            let excluded = self.excluded_ranks(context, shrink);
            let remaining: Vec<u32> = shrink.group.iter().copied().filter(|rank| !excluded.contains(rank)).collect();
            if remaining.iter().any(|rank| !shrink.claims.contains_key(rank)) {
                continue;
            }
            let Some(shrink) = self.shrinks.open.remove(&context) else { continue };
            let number = self.shrinks.number(context);
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

    /// Returns whether all ranks of a communicator that is being shrunk continue without those that any of them excludes: because it has
    /// failed or lost ranks, or because the ranks contradict each other.
    fn excludes_union(&self, context: u64) -> bool {
        let shrink = &self.shrinks.open[&context];
        shrink.is_contradictory
            || shrink.has_failed
            || self.failed.contains_key(&context)
            || self.shrinks.ended.contains_key(&context)
            || shrink.group.iter().any(|rank| self.is_absent(*rank) && shrink.is_awaited(*rank))
    }

    /// Creates the communicators of a shrink without a failure: of the ranks that exclude the same ones, when all others have
    /// stated that. No rank is excluded from what comes later.
    fn complete_without_failure(&mut self, context: u64, out: &mut Vec<Delivery>) {
        let Some(mut shrink) = self.shrinks.open.remove(&context) else { return };
        let lists: BTreeSet<Vec<u32>> = shrink.claims.values().cloned().collect();
        for excluded in lists {
            let remaining: Vec<u32> = shrink.group.iter().copied().filter(|rank| !excluded.contains(rank)).collect();
            if remaining.iter().all(|rank| shrink.claims.get(rank) == Some(&excluded)) {
                let number = self.shrinks.number(context);
                shrink.claims.retain(|rank, _| !remaining.contains(rank));
                out.extend(remaining.iter().map(|rank| reply(*rank, context, Ok((number, remaining.clone())))));
            }
        }
        if !shrink.claims.is_empty() {
            self.shrinks.open.insert(context, shrink);
        }
    }

    /// Ends the wait for ranks that neither continue nor are lost.
    pub(super) fn expire_shrinks(&mut self, now: Instant, out: &mut Vec<Delivery>) {
        let late = |shrinks: &Shrinks| shrinks.open.iter().find(|(_, open)| now >= open.until).map(|(at, _)| *at);
        while let Some(context) = late(&self.shrinks) {
            let excludes_union = self.excludes_union(context);
            let Some(shrink) = self.shrinks.open.remove(&context) else { return };
            let of_all = self.excluded_ranks(context, &shrink);
            for (&rank, list) in &shrink.claims {
                // Without a failure a rank waits for those that exclude the same ones.
                let is_waiting = |other: &u32| match excludes_union {
                    true => of_all.contains(other) || shrink.claims.contains_key(other),
                    false => list.contains(other) || shrink.claims.get(other) == Some(list),
                };
                let missing = shrink.group.iter().filter(|other| !is_waiting(other));
                let error = Error::CollectiveTimeout {
                    call: "shrink".into(),
                    missing: missing.map(|rank| self.members[*rank as usize].clone()).collect(),
                    waiting: shrink.claims.keys().copied().collect(),
                    waited: shrink.until - shrink.since,
                    last_call: None,
                };
                out.push(reply(rank, context, Err(error)));
            }
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
        enter(router, (from, 4), lost, true, now)
    }

    /// Lets a rank of a communicator of `ranks` ranks shrink it, and returns the answers.
    fn enter(
        router: &mut Router,
        (from, ranks): (u32, u32),
        lost: &[u32],
        has_failed: bool,
        now: Instant,
    ) -> Vec<(u32, Result<Vec<u32>, Error>)> {
        let (mut out, group) = (Vec::new(), (0..ranks).collect());
        let frame = Frame::EnterShrink { context: 3, group, lost: lost.to_vec(), has_failed, timeout: LONG };
        router.route(from, frame, now, &mut out);
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
        router.lose(2, error, Instant::now(), &mut out);
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

    #[test]
    fn shrinks_without_failure_exclude_no_rank_from_later_ones() {
        let (mut router, now) = (router(4), Instant::now());
        let mut exclude = |from: u32, lost: &[u32]| enter(&mut router, (from, 4), lost, false, now);
        // Two halves at once.
        assert!(exclude(0, &[2, 3]).is_empty() && exclude(3, &[1, 0]).is_empty());
        assert_eq!(exclude(1, &[3, 2]), [(0, Ok(vec![0, 1])), (1, Ok(vec![0, 1]))]);
        assert_eq!(exclude(2, &[0, 1]), [(2, Ok(vec![2, 3])), (3, Ok(vec![2, 3]))]);
        // Ranks that were excluded before.
        assert!(exclude(1, &[0]).is_empty() && exclude(3, &[0]).is_empty());
        assert_eq!(exclude(2, &[0]).len(), 3);
        // A rank that shall continue excludes another one, so both are excluded.
        assert!(exclude(0, &[3]).is_empty() && exclude(3, &[]).is_empty());
        let out = exclude(2, &[1]);
        assert!(
            matches!(&out[..], [(0, Ok(left)), (2, Ok(_)), (3, Err(Error::Excluded { by, .. }))] if left == &[0, 2] && by == &[0])
        );
        assert!(matches!(&exclude(1, &[])[..], [(1, Err(Error::Excluded { by, .. }))] if by == &[2]));
    }

    #[test]
    fn excluded_rank_may_be_in_the_next_shrink_before_others_have_ended_theirs() {
        let (mut router, now) = (router(5), Instant::now());
        let mut exclude = |from: u32, lost: &[u32]| enter(&mut router, (from, 5), lost, false, now);
        // Rank 1 is excluded from the first of three shrinks, and rank 2 from both of the first.
        assert!(exclude(2, &[0]).is_empty() && exclude(1, &[2]).is_empty() && exclude(0, &[1, 2]).is_empty());
        assert!(exclude(3, &[1, 2]).is_empty());
        assert_eq!(exclude(4, &[1, 2]).len(), 3, "the first");
        assert!(exclude(0, &[2]).is_empty() && exclude(3, &[2]).is_empty());
        assert_eq!(exclude(4, &[2]).len(), 4, "the second");
        assert!(exclude(1, &[0]).is_empty() && exclude(3, &[0]).is_empty());
        let right = Ok(vec![1, 2, 3, 4]);
        assert_eq!(exclude(4, &[0]), (1..5).map(|rank| (rank, right.clone())).collect::<Vec<_>>());
    }

    #[test]
    fn rank_that_all_exclude_may_leave_before_they_have_ended() {
        let (mut router, now) = (router(4), Instant::now());
        let mut out = Vec::new();
        let mut step = |from: u32, frame: Frame| router.route(from, frame, now, &mut out);
        let exclude = |lost: &[u32]| {
            let (group, lost) = ((0..4).collect(), lost.to_vec());
            Frame::EnterShrink { context: 3, group, lost, has_failed: false, timeout: LONG }
        };
        step(0, exclude(&[1, 3]));
        step(1, exclude(&[0, 3]));
        step(3, Frame::Leave { rank: 3 });
        step(2, exclude(&[1, 3]));
        step(2, exclude(&[0, 3]));
        let right = |ranks: [u32; 2]| ranks.map(|rank| (rank, Ok(ranks.to_vec())));
        assert_eq!(results(out), [right([0, 2]), right([1, 2])].concat());
    }

    #[test]
    fn ranks_that_wait_for_each_other_over_others_contradict() {
        let (mut router, now) = (router(4), Instant::now());
        let mut exclude = |from: u32, lost: &[u32]| enter(&mut router, (from, 4), lost, false, now);
        // Rank 0 waits for 1, 1 for 2 and 2 for 0.
        assert!(exclude(0, &[2]).is_empty() && exclude(1, &[0]).is_empty() && exclude(2, &[1]).is_empty());
        let out = exclude(3, &[]);
        let excluded = |result: &Result<Vec<u32>, Error>| matches!(result, Err(Error::Excluded { .. }));
        assert_eq!(
            out.iter().map(|(rank, result)| (*rank, excluded(result))).collect::<Vec<_>>(),
            [(0, true), (1, true), (2, true), (3, false)]
        );
    }

    #[test]
    fn failure_during_a_shrink_without_one_excludes_the_lost_rank() {
        let (mut router, now) = (router(4), Instant::now());
        let (mut out, group) = (Vec::new(), (0..4).collect());
        let frame = Frame::EnterShrink { context: 3, group, lost: vec![1], has_failed: false, timeout: LONG };
        router.route(0, frame, now, &mut out);
        let error = Error::Died { who: Box::new(RankInfo::this(2, None)), how: "test".into() };
        router.lose(2, error, Instant::now(), &mut out);
        assert!(results(out).is_empty());
        assert_eq!(shrink(&mut router, 3, &[1], now), [(0, Ok(vec![0, 3])), (3, Ok(vec![0, 3]))]);
    }
}
