//! Help for a channel whose signals and waits differ in number, by the probable cause.

use super::Sides;
use super::pairs::{Direction, Pairs};
use mscclpp_plan::raw::PlanTree;
use mscclpp_plan::types::ChannelKind;

/// Returns the help text for a direction of a channel pair, given both sides of every counter.
pub(super) fn help(plan: &PlanTree, pairs: &Pairs, sides: &[Sides], direction: &Direction) -> String {
    let &Direction { from, to, kind, number } = direction;
    let [sending, receiving] = [(from, to), (to, from)].map(|(rank, peer)| pairs.ends(rank, peer, kind).count());
    for (rank, peer, there, here) in [(from, to, sending, receiving), (to, from, receiving, sending)] {
        if number as usize >= there {
            let other = match kind {
                ChannelKind::Memory => ChannelKind::Port,
                _ => ChannelKind::Memory,
            };
            let wrong_kind = pairs.ends(rank, peer, other).count() > pairs.ends(peer, rank, other).count();
            let fix = match wrong_kind {
                true => format!(
                    "both ends of a channel have the same kind: create the end on rank {rank} with `{kind}_channel` \
                     as well"
                ),
                false => format!("create the other end on rank {rank} with `{kind}_channel` to rank {peer}"),
            };
            return format!(
                "rank {peer} has {here} {kind} {} to rank {rank}, but rank {rank} has {there} to rank {peer}; {fix}",
                if here == 1 { "channel" } else { "channels" },
            );
        }
    }
    // Signals and waits are on different channels between the two ranks.
    let between = || pairs.ends(from, to, kind).filter_map(|counter| sides.get(counter));
    let (mut up, mut down): (Vec<_>, Vec<_>) = between().map(|sides| (&sides.up, &sides.down)).unzip();
    up.sort_unstable();
    down.sort_unstable();
    if up == down {
        return order_of_creation(plan, direction);
    }
    "match every wait with one signal of the peer on the paired channel, in loops of equal unit and span".to_owned()
}

/// Returns the help for two ranks with several channels between them, of which the wrong ones are paired.
pub(crate) fn order_of_creation(plan: &PlanTree, direction: &Direction) -> String {
    let &Direction { from, to, number, .. } = direction;
    let order = match plan.ranks.len() {
        2 => {
            "; create them in the same order on both ranks or, where they connect to the next and to the \
             previous rank of a ring, which are the same rank here, use one channel for both"
        }
        _ => "; create them in the same order on both ranks",
    };
    format!(
        "channels between two ranks are paired in the order of their creation, so channel {number} of rank {from} is \
         paired with channel {number} of rank {to}{order}"
    )
}
