//! Codes of the area `rows`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    SplitRow = "M0233" "split-row": "row norms are part of a reduction, all-gather or custom collective with `rows`, whose chunks, slices and windows are whole rows",
        r#"The norm of a row depends on all of its elements, so no chunk, slice or window may end within a row. In a plan with `rows`, they are made of whole rows at every message size: the length of a row is part of the message. Averages are not normalized, because they are divided when the launch ends.

Wrong: a chunk may end within a row.

```rust
#[collective(AllReduce, ranks = 2)] // wrong
fn normalized(p: &Program) {
    for rank in p.ranks() {
        let (peer, result) = (p.rank(1 - rank.id()), rank.output().chunk(..));
        let channel = rank.memory_channel(peer);
        channel.handshake(0).relaxed();
        channel.reduce(rank.input().chunk(..), peer.input().chunk(..), 0).to(result);
        rank.row_norm(result, result, 0);
        channel.handshake(0).relaxed();
    }
}
```

Right: the attribute has `rows`.

```rust
#[collective(AllReduce, ranks = 2, rows)]
```"#;
    RepeatedNorm = "M0234" "repeated-norm": "a row norm writes rows of its rank's output, in an all-gather of its own part, each row once per launch",
        r#"The operands of a row norm that the caller passes (the residual, and the outputs for residual, quantized rows and scales) have a row for every row of the rank's output; in an all-gather, of the rank's own part of it. The destination says which: so it is there. The residual may be replaced by its sum with the row, so a second norm of the row would add a different residual.

Wrong: every row is normalized twice.

```rust
#[collective(AllReduce, ranks = 2, rows)]
fn normalized(p: &Program) {
    for rank in p.ranks() {
        let (peer, result) = (p.rank(1 - rank.id()), rank.output().chunk(..));
        let channel = rank.memory_channel(peer);
        channel.handshake(0).relaxed();
        channel.reduce(rank.input().chunk(..), peer.input().chunk(..), 0).to(result);
        rank.row_norm(result, result, 0); // wrong
        rank.row_norm(result, result, 0); // wrong
        channel.handshake(0).relaxed();
    }
}
```

Right: every row is normalized once.

```rust
        rank.row_norm(result, result, 0);
```"#;
    NotNormalized = "M0235" "not-normalized": "in a plan with rows, every output is the reduction of all ranks, in an all-gather the input of a rank, normalized once and then moved only",
        r#"A normalized row is no sum of anything: rows that are reduced after the norm, or normalized before all ranks have contributed, have other values. A collective without norms has no `rows`. The expectations of a custom collective say which inputs the rows have that are normalized; outputs without one may hold anything but values that are computed from normalized rows.

Wrong: both ranks normalize their inputs, and then add them.

```rust
#[collective(AllReduce, ranks = 2, rows)]
fn normalized(p: &Program) {
    for rank in p.ranks() {
        let (peer, own) = (p.rank(1 - rank.id()), rank.scratch(2));
        let channel = rank.memory_channel(peer);
        channel.handshake(0).relaxed();
        channel.get(own.chunk(..), peer.input().chunk(..), 0);
        rank.row_norm(rank.output().chunk(..), rank.input().chunk(..), 0); // wrong
        rank.reduce(rank.output().chunk(..), own.chunk(..), 0); // wrong
        channel.handshake(0).relaxed();
    }
}
```

Right: the sum is normalized.

```rust
        rank.reduce(rank.input().chunk(..), own.chunk(..), 0).to(rank.output().chunk(..));
        rank.row_norm(rank.output().chunk(..), rank.output().chunk(..), 0);
```"#;
}
