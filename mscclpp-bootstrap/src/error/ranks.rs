//! Ranks in errors: as ranks of the job where errors are sent, as ranks of a communicator where its calls return them.

use super::Error;
use crate::rank_info::RankInfo;

impl Error {
    /// Returns the error of a rank that the ranks `by` consider unresponsive or dead, on that rank itself.
    #[doc(hidden)]
    pub fn excluded(self, by: Vec<u32>) -> Self {
        match self {
            Self::Unresponsive { who, silent } => {
                let seconds = silent.as_secs_f64();
                let reason = format!("no answer from it for {seconds:.1} s: it was suspended or its host unreachable");
                Self::Excluded { who, by, reason }
            }
            Self::Died { who, how } => Self::Excluded { who, by, reason: how },
            other => other,
        }
    }

    /// Returns this error with other numbers for the ranks in it. An error that blames a rank without a number becomes
    /// [`Error::JobFailed`] of the same class and with the same text: it is a failure of the job that reaches a communicator without
    /// that rank.
    pub(crate) fn map_ranks(self, number: &dyn Fn(u32) -> Option<u32>) -> Self {
        let mut unknown = false;
        let mut mapped = self.clone();
        let mut map = |rank: &mut u32| match number(*rank) {
            Some(other) => *rank = other,
            None => unknown = true,
        };
        let mut info = |who: &mut RankInfo| map(&mut who.rank);
        match &mut mapped {
            Self::Died { who, .. }
            | Self::Unresponsive { who, .. }
            | Self::Aborted { who, .. }
            | Self::Revoked { who }
            | Self::CallFailed { who, .. } => info(who),
            Self::Ended { who, cause } => {
                info(who);
                // Of another communicator, which may have other ranks.
                **cause = (**cause).clone().map_ranks(number);
            }
            Self::WorldSize { who, peer, .. } => {
                info(who);
                map(peer);
            }
            Self::Excluded { who, by, .. } => {
                info(who);
                *by = by.iter().filter_map(|rank| number(*rank)).collect();
            }
            Self::DuplicateRank { first, second }
            | Self::Mismatch { first, second, .. }
            | Self::ConfigMismatch { first, second, .. } => {
                info(first);
                info(second);
            }
            Self::RankLeft { who, waiting, .. } => {
                info(who);
                waiting.iter_mut().for_each(map);
            }
            Self::JoinTimeout { missing, .. } => missing.iter_mut().for_each(map),
            Self::CollectiveTimeout { missing, waiting, .. } | Self::NoProgress { ranks: missing, waiting, .. } => {
                missing.iter_mut().for_each(info);
                waiting.iter_mut().for_each(map);
            }
            Self::Timeout { rank, from, .. } => {
                info(from);
                map(rank);
            }
            Self::Unreachable { rank, peer, .. } => {
                map(rank);
                map(peer);
            }
            _ => {}
        }
        if unknown {
            return Self::JobFailed { kind: self.kind(), reason: self.to_string() };
        }
        mapped
    }
}

#[cfg(test)]
mod tests {
    use mscclpp_core::diag::ErrorKind;

    use super::*;

    #[test]
    fn ranks_are_renumbered_or_the_error_names_the_job() {
        let who = Box::new(RankInfo::unnamed(5));
        let error = Error::RankLeft { who, waiting: Some(3), call: "barrier".into() };
        let group = [3, 5];
        let number = |rank| group.iter().position(|other| *other == rank).map(|position| position as u32);
        let mapped = error.clone().map_ranks(&number);
        assert_eq!((mapped.lost(), mapped.rank()), (vec![1], Some(0)));
        let other = error.clone().map_ranks(&|_| None);
        assert_eq!(other.kind(), ErrorKind::RankLost);
        assert_eq!(other.to_string(), format!("the job of this communicator has failed: {error}"));
        assert!(other.lost().is_empty());
    }
}
