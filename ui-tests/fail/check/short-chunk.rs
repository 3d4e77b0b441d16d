//! Chunk 0 passes through chunk 1 of the output, which is shorter at counts that do not divide evenly.
use mscclpp::prelude::*;

#[collective(Broadcast, ranks = 2, chunk_factor = 1)]
fn staged(p: &Program) {
    let (root, peer) = (p.rank(0), p.rank(1));
    let (send, receive) = (root.memory_channel(peer), peer.memory_channel(root));
    root.copy(root.output().chunk(..), root.input().chunk(..), 1);
    for chunk in [0, 1] {
        send.wait(0).relaxed().sync(BlockSync::After);
        send.put(peer.output().chunk(1), root.input().chunk(chunk), 0);
        send.signal(0);
        receive.signal(0).relaxed();
        receive.wait(0);
        if chunk == 0 {
            peer.copy(peer.output().chunk(0), peer.output().chunk(1), 0);
        }
    }
}

fn main() {}
