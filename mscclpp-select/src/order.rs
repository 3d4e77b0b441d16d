//! What a request demands of the order in which its contributions are reduced.

use std::fmt;

use mscclpp_algorithms::OrderScope;

/// What a request demands of the order of reduction, the weakest demand first. It matters where results round: for sums,
/// products and averages of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum OrderPolicy {
    /// Any order, also that of a switch. Ranks may get different bits.
    Any,
    /// All ranks get the same bits. A switch may reduce: sums of floats in an unspecified order that may differ from launch to launch,
    /// minima and maxima of f16 and bf16 without a rule for NaN and the sign of zero. Where there is no switch this is
    /// [`SameOnAllRanks`](Self::SameOnAllRanks).
    #[default]
    InSwitch,
    /// All ranks get the same bits, and equal calls give equal bits. An element's bits may depend on its place in the
    /// message, on the size of the message and on whether the call is in place.
    SameOnAllRanks,
    /// Every element is reduced in the order of ranks, whatever its place in the message, the size of the message, and
    /// whether the call is in place. An element's bits depend on the ranks' elements only, as results that may not depend
    /// on the size of a batch require.
    RankOrder,
}

impl OrderPolicy {
    /// All policies, the weakest demand first.
    pub const ALL: [Self; 4] = [Self::Any, Self::InSwitch, Self::SameOnAllRanks, Self::RankOrder];

    /// Returns the name used in arguments and messages.
    #[doc(hidden)]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::InSwitch => "in-switch",
            Self::SameOnAllRanks => "same-on-all-ranks",
            Self::RankOrder => "rank-order",
        }
    }

    /// Returns the policy with a name.
    #[doc(hidden)]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Returns whether an order that depends on `scope` meets the demand for contributions of this many ranks and nodes, if
    /// results round.
    pub(super) fn accepts(self, scope: Option<OrderScope>, ranks: u32, nodes: u32) -> bool {
        // Two operands commute bit by bit; more do not associate.
        match (self, scope) {
            (Self::Any, _) | (_, None) => true,
            (Self::RankOrder, Some(OrderScope::Launches)) => false,
            (Self::RankOrder, Some(_)) => ranks <= 2,
            (_, Some(OrderScope::Elements | OrderScope::FirstTwo)) => true,
            (_, Some(OrderScope::Launches)) => self == Self::InSwitch,
            (_, Some(OrderScope::Ranks)) => ranks <= 2,
            (_, Some(OrderScope::Nodes)) => nodes <= 2,
        }
    }
}

impl fmt::Display for OrderPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_names() {
        for policy in OrderPolicy::ALL {
            assert_eq!(OrderPolicy::from_name(policy.name()), Some(policy));
        }
        assert_eq!(OrderPolicy::from_name("none"), None);
    }

    #[test]
    fn stronger_demands_accept_no_more_orders() {
        let scopes =
            [OrderScope::Elements, OrderScope::Launches, OrderScope::Ranks, OrderScope::Nodes, OrderScope::FirstTwo];
        for scope in [None].into_iter().chain(scopes.map(Some)) {
            for (ranks, nodes) in [(2, 1), (3, 1), (4, 2), (6, 3)] {
                let accepted = OrderPolicy::ALL.map(|policy| policy.accepts(scope, ranks, nodes));
                assert!(accepted.is_sorted_by_key(|accepts| !accepts), "{scope:?}: {accepted:?}");
                assert!(accepted[0] && (scope.is_some() || accepted[3]), "{scope:?}: {accepted:?}");
            }
        }
    }
}
