//! Codes of the area `counts`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    MissingCounts = "M0230" "missing-counts": "a rank exchanges counts once per launch, before its counted operations",
        r#"Counts are known when `exchange_counts` has ended on the rank. It gives the rank's own row to all ranks and waits for the rows of all, so every rank executes it once. Other thread blocks of the rank learn by a barrier that it has ended.

Wrong: thread block 1 does not wait for the exchange of thread block 0.

```rust
#[collective(AllToAllV, ranks = 2)]
fn exchange(p: &Program) {
    for rank in p.ranks() {
        rank.exchange_counts(0); // wrong
        for (block, peer) in p.ranks().enumerate() {
            let (from, to) = (peer.input().chunk(rank.id()), rank.output().chunk(peer.id()));
            if peer.id() == rank.id() {
                rank.copy_counted(to, from, peer, rank, block);
            } else {
                let channel = rank.memory_channel(peer);
                channel.get_counted(to, from, peer, rank, block);
                channel.handshake(block).relaxed();
            }
        }
    }
}
```

Right: a barrier after the exchange.

```rust
        rank.exchange_counts(0);
        rank.barrier(0..p.num_ranks());
```"#;
    CountMismatch = "M0231" "count-mismatch": "every chunk that counted operations access has one count",
        r#"A count says how many elements of a chunk exist. So all operations on a chunk use the same count, and a counted operation moves between chunks of one count. In an all-to-all-v, chunk r of rank s's input and chunk s of rank r's output have the count of what s sends to r.

Wrong: the count of the opposite direction.

```rust
#[collective(AllToAllV, ranks = 2)]
fn exchange(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        rank.exchange_counts(0);
        rank.copy_counted(rank.output().chunk(rank.id()), rank.input().chunk(rank.id()), rank, rank, 0);
        channel.get_counted(rank.output().chunk(peer.id()), peer.input().chunk(rank.id()), rank, peer, 0); // wrong
        channel.handshake(0).relaxed();
    }
}
```

Right: the peer sends, this rank receives.

```rust
        channel.get_counted(rank.output().chunk(peer.id()), peer.input().chunk(rank.id()), peer, rank, 0);
```"#;
    NotCountable = "M0232" "not-countable": "a plan with counts is for messages of all sizes, out of place, with exact chunks, and counted operations are outside of pipelines",
        r#"What is proved of such a plan holds for all counts because it holds for all sizes of a plan in which every chunk has its full length. So its range of sizes begins with 0, its buffer alignment is 1, and nothing whose number of iterations depends on the size contains counted operations.

Wrong: `message_size = 1 << 20..=1 << 30`.

```rust
#[collective(AllToAllV, ranks = 2, message_size = 1 << 20..=1 << 30)] // wrong
fn exchange(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        rank.exchange_counts(0);
        rank.copy_counted(rank.output().chunk(rank.id()), rank.input().chunk(rank.id()), rank, rank, 0);
        channel.get_counted(rank.output().chunk(peer.id()), peer.input().chunk(rank.id()), peer, rank, 0);
        channel.handshake(0).relaxed();
    }
}
```

Right: no `message_size`.

```rust
#[collective(AllToAllV, ranks = 2)]
```"#;
}
