//! A collective that takes dividing counts only, since its chunks pass through a shorter one.
use mscclpp::prelude::*;

#[collective(Broadcast, ranks = 2, chunk_factor = 1, dividing)]
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

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    let plan = staged::plan(2);
    let run = |count| {
        let inputs: [Vec<i32>; 2] = [(0..count).collect(), vec![-1; count as usize]];
        let mut outputs = [vec![0; count as usize], vec![0; count as usize]];
        Executor::new(2).run(plan, &inputs, &mut outputs).map(|()| outputs)
    };
    // Two chunks of whole 16 bytes.
    assert!(run(24)?.iter().all(|output| output.iter().copied().eq(0..24)));
    let error = run(25).expect_err("a count that does not divide").to_string();
    assert_eq!(error, "expected a multiple of 8 elements for a plan that takes dividing counts only, found 25");
    Ok(())
}
