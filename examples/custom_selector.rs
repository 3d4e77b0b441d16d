//! A custom collective in the registry, and a selector that decides when it is used.
//!
//! ```console
//! cargo run --release --example custom_selector
//! mscclpp launch -n 4 -- target/release/examples/custom_selector
//! ```

use mscclpp::prelude::*;
use mscclpp::runtime::select::{Algorithm, Choice, Request};

/// Rank 0 collects and reduces all inputs, then every rank reads the result. Simple, and slow for large messages.
#[collective(AllReduce, ranks = [2, 4], in_place, tags = ["central"])]
fn through_rank_0(p: &Program) {
    let hub = p.rank(0);
    let message = hub.input().chunk(..);
    for rank in p.ranks().filter(|rank| rank.id() != hub.id()) {
        let (to_hub, from_hub) = (rank.memory_channel(hub), hub.memory_channel(rank));
        to_hub.signal(0); // this rank's input is ready
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
    examples::on_ranks(4, |comm| {
        // All ranks build equal registries; the function is compiled for other numbers of ranks on request.
        comm.configure(|registry| {
            // The selection may depend only on the request, which is equal on all ranks.
            registry.set_selector(|request, candidates| {
                let central = candidates.iter().find(|algorithm| algorithm.tag("central").is_some())?;
                let pairs = candidates.iter().find(|algorithm| algorithm.name() == "allreduce_all_pairs")?;
                Some(Choice::from(if request.bytes <= 4096 { *central } else { *pairs }))
            });
            registry.add(Algorithm::on_demand(through_rank_0::algorithm()))
        })??;

        for len in [16, 1024, 1 << 18] {
            let mut x = vec![comm.rank() + 1; len];
            comm.all_reduce_in_place(&mut x, ReduceOp::Sum)?;
            let expected = comm.num_ranks() * (comm.num_ranks() + 1) / 2;
            assert!(x.iter().all(|sum| *sum == expected));
        }
        if comm.rank() == 0 {
            let request = Request { in_place: true, ..comm.request::<u32>(CollectiveKind::AllReduce, 16) };
            let registry = comm.registry()?;
            println!("{}", registry.explain(&request));
            for (algorithm, calls) in registry.call_counts() {
                println!("{algorithm}: {calls} calls");
            }
        }
        Ok(())
    })
}
