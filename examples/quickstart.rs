//! From a function to its plan to a verified run.
//!
//! `cargo run --release --example quickstart`

use mscclpp::compiler::PlanText;
use mscclpp::prelude::*;

/// Every rank puts its chunk into every other rank's output.
#[collective(AllGather, ranks = 2, in_place)]
fn simple_allgather(p: &Program) {
    for rank in p.ranks() {
        let mine = rank.output().chunk(rank.id());
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        channels.handshake(0).relaxed(); // every peer is ready to receive
        for channel in &channels {
            channel.put(channel.peer().output().chunk(rank.id()), mine, 0);
        }
        channels.handshake(0); // the data of all has arrived
    }
}

fn main() -> mscclpp::Result<()> {
    let plan = simple_allgather::plan(2); // built by the compiler; nothing is parsed or checked here
    println!("{}", PlanText::new(&plan.tree()).with_rank(0));
    examples::demonstrate(plan, &[8, 1 << 10, (1 << 20) + 8, 16 << 20])
}
