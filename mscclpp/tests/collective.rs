//! `#[collective]` from the outside: what the module beside a function gives.

use mscclpp::prelude::*;

/// Every rank puts its chunk into every other rank's output.
#[collective(AllGather, ranks = [2, 4], in_place)]
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

#[collective(
    AllReduce,
    ranks = [2, 3],
    params(copies = [1, 2], backwards = [false, true]),
    protocol = LL,
    double_scratch,
    instances = 2,
    message_size = ..=1 << 20,
    tags(small = 3),
    name = "packed"
)]
fn packets(p: &Program, copies: usize, backwards: bool) {
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(p.num_ranks() * p.num_ranks())).collect();
    for rank in p.ranks() {
        let peers: Vec<_> = p.ranks().filter(|peer| peer.id() != rank.id()).collect();
        let order: Vec<usize> = if backwards { (0..peers.len()).rev().collect() } else { (0..peers.len()).collect() };
        let all = ..;
        for i in order {
            let channel = rank.memory_channel(peers[i]);
            let slot = rank.id() * p.num_ranks();
            for copy in 0..copies {
                if copy == 0 {
                    channel.put_packets(
                        scratch[peers[i].id()].chunk(slot..slot + p.num_ranks()),
                        rank.input().chunk(all),
                        0,
                    );
                }
            }
        }
        let arrived: Vec<_> = peers
            .iter()
            .map(|peer| scratch[rank.id()].chunk(peer.id() * p.num_ranks()..(peer.id() + 1) * p.num_ranks()))
            .collect();
        rank.reduce_packets(rank.input().chunk(..), arrived, 0).to(rank.output().chunk(..));
    }
}

#[collectives]
mod rings {
    use mscclpp::prelude::*;

    const RANKS: usize = 3;

    fn next(id: usize) -> usize {
        (id + 1) % RANKS
    }

    /// Not evaluated, so it may do anything.
    #[allow(dead_code)]
    fn helper() -> String {
        std::env::args().next().unwrap_or_default()
    }

    #[collective(SendRecv, ranks = 3)]
    pub(crate) fn shift(p: &Program) {
        for rank in p.ranks() {
            let send = rank.memory_channel(next(rank.id()));
            let receive = rank.memory_channel((rank.id() + RANKS - 1) % RANKS);
            receive.signal(0).relaxed();
            send.wait(0).relaxed().sync(BlockSync::After);
            send.put(p.rank(next(rank.id())).output().chunk(0), rank.input().chunk(0), 0);
            send.signal(0).sync(BlockSync::Before);
            receive.wait(0).sync(BlockSync::After);
        }
    }
}

/// The program's lifetime may have a name, and a function conditions.
#[collective(SendRecv, ranks = 2)]
#[cfg(test)]
#[allow(clippy::needless_lifetimes, reason = "a named lifetime is what is tried")]
fn with_lifetime<'p>(p: &'p Program) {
    fn neighbour<'p>(p: &'p Program, rank: Rank<'p>) -> Rank<'p> {
        p.rank(1 - rank.id())
    }
    for rank in p.ranks() {
        let channel = rank.memory_channel(neighbour(p, rank));
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.put(neighbour(p, rank).output().chunk(0), rank.input().chunk(0), 0);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
}

#[test]
fn plans_are_found_by_ranks_and_parameters() {
    let plan = simple_allgather::plan(2);
    assert_eq!((plan.name(), plan.num_ranks()), ("simple_allgather", 2));
    assert!(simple_allgather::try_plan(3).is_none());
    assert_eq!(simple_allgather::plans().len(), 2);
    assert_eq!(packets::plan(3, 2, true).name(), "packed_copies2_backwards1");
    assert_eq!(packets::plans().len(), 8);
    assert_eq!(packets::plan(2, 1, false).tag("small"), Some(3));
    assert_eq!(packets::plan(2, 1, false).max_message_size(), 1 << 20);
    assert!(packets::plan(2, 1, false).double_scratch());
    assert_eq!(rings::shift::plan(3).collective().kind, CollectiveKind::SendRecv);
}

#[test]
#[should_panic(expected = "no plan for 5 ranks: it was compiled for ranks = [2, 4]")]
fn a_plan_that_was_not_built_is_named() {
    simple_allgather::plan(5);
}

#[test]
fn other_sizes_are_built_at_run_time() {
    let plan = simple_allgather::compile(simple_allgather::spec(7)).expect("it is correct for all sizes");
    assert_eq!(plan.num_ranks(), 7);
    let plan = simple_allgather::compile(simple_allgather::spec(2)).expect("it is correct");
    assert_eq!(plan, *simple_allgather::plan(2));
    let error = rings::shift::compile(rings::shift::spec(2)).expect_err("there is no rank 2");
    assert!(error.to_string().contains("M0002"), "{error}");
}

#[test]
fn an_algorithm_is_data() {
    let algorithm = packets::algorithm();
    assert_eq!((algorithm.name(), algorithm.params().len(), algorithm.plans().len()), ("packets", 2, 8));
    assert_eq!(algorithm.params()[0].values, [1, 2]);
    let spec = algorithm.spec(2, &[2, 1]);
    assert_eq!(spec, packets::spec(2, 2, true));
    assert_eq!(algorithm.compile(spec.clone(), &[2, 1]).unwrap(), *packets::plan(2, 2, true));
    assert!(algorithm.compile(spec.clone(), &[2]).is_err());
    assert!(algorithm.compile(spec, &[-1, 0]).is_err());
}

#[test]
fn origins_name_the_users_lines() {
    let tree = simple_allgather::plan(2).tree();
    let place = tree.origins.locations().iter().find(|place| place.line != 0).expect("a place");
    assert!(place.file.ends_with("collective.rs"), "{place}");
    assert!(place.to_string().contains("rank = 0"), "{place}");
}
