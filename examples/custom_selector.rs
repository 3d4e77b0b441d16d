//! A collective of one's own in the registry, and a selector that says when it is used.
//!
//! ```console
//! cargo run --release --example custom_selector
//! mscclpp launch -n 4 -- target/release/examples/custom_selector
//! ```

use mscclpp::exec::select::{Algorithm, Choice, Request};
use mscclpp::prelude::*;

/// Rank 0 collects and reduces all inputs, then everybody fetches the result. Simple, and slow for large messages.
#[collective(AllReduce, ranks = [2, 4], in_place, tags = ["central"])]
fn through_rank_0(p: &Program) {
    let hub = p.rank(0);
    let message = hub.input().chunk(..);
    for rank in p.ranks().filter(|rank| rank.id() != hub.id()) {
        let (to_hub, from_hub) = (rank.memory_channel(hub), hub.memory_channel(rank));
        to_hub.signal(0); // my input is there
        from_hub.wait(0).sync(BlockSync::After);
        from_hub.reduce(message, rank.input().chunk(..), 0);
    }
    for rank in p.ranks().filter(|rank| rank.id() != hub.id()) {
        let (to_hub, from_hub) = (rank.memory_channel(hub), hub.memory_channel(rank));
        from_hub.put(rank.input().chunk(..), message, 0);
        from_hub.signal(0).sync(BlockSync::Before);
        to_hub.wait(0).sync(BlockSync::After);
    }
}

fn main() -> mscclpp::Result<()> {
    examples::on_ranks(4, |group| {
        // All ranks build their registry alike; the function is compiled for other numbers of ranks when they ask.
        let registry = group.registry_mut();
        registry.add(Algorithm::on_demand(through_rank_0::algorithm())).expect("a new name");
        // A choice may depend on what the request says, for that is what all ranks know.
        registry.set_selector(|request, candidates| {
            let central = candidates.iter().find(|algorithm| algorithm.tag("central").is_some())?;
            let rules = candidates.iter().find(|algorithm| algorithm.name() == "allreduce_all_pairs")?;
            Some(Choice::from(if request.bytes <= 4096 { *central } else { *rules }))
        });

        for len in [16, 1024, 1 << 18] {
            let mut x = vec![group.rank() + 1; len];
            group.all_reduce_in_place(&mut x, ReduceOp::Sum)?;
            let expected = group.num_ranks() * (group.num_ranks() + 1) / 2;
            assert!(x.iter().all(|sum| *sum == expected));
        }
        if group.rank() == 0 {
            let request = Request { in_place: true, ..group.request::<u32>(CollectiveKind::AllReduce, 16) };
            println!("{}", group.registry().explain(&request));
            for (algorithm, calls) in group.registry().calls() {
                println!("{algorithm}: {calls} calls");
            }
        }
        Ok(())
    })
}
