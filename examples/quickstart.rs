//! From a function to its plan to a verified run.
//!
//! `cargo run --release --example quickstart`

use mscclpp::compiler::plan::text::PlanText;
use mscclpp::prelude::*;

/// Every rank puts its chunk into every other rank's output.
#[collective(AllGather, ranks = 2, in_place)]
fn simple_allgather(p: &Program) {
    for src in p.ranks() {
        let mine = src.output().chunk(src.id());
        for dst in p.ranks().filter(|dst| dst.id() != src.id()) {
            let channel = src.memory_channel(dst);
            channel.signal(0).relaxed(); // this rank is ready to receive
            channel.wait(0).relaxed().sync(BlockSync::After); // and so is the peer
            channel.put(dst.output().chunk(src.id()), mine, 0);
            channel.signal(0).sync(BlockSync::Before); // this rank's data is written
            channel.wait(0).sync(BlockSync::After); // and so is the peer's
        }
    }
}

fn main() -> mscclpp::Result<()> {
    let plan = simple_allgather::plan(2); // built by the compiler; nothing is parsed or checked here
    println!("{}", PlanText::new(&plan.tree()).with_rank(0));
    examples::demonstrate(plan, &[8, 1 << 10, (1 << 20) + 8, 16 << 20])
}
