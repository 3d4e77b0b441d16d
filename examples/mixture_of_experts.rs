//! A layer of a mixture of experts, trained over several ranks: every rank has some tokens and some experts. `dispatch` brings each token to
//! the experts that it chooses, `combine` brings their results back. The loss of every step equals that of a single rank, bit for bit.
//!
//! ```console
//! cargo run --release --example mixture_of_experts
//! mscclpp launch -n 4 -- target/release/examples/mixture_of_experts
//! ```

use examples::mixture::{
    EXPERTS, HIDDEN, STEPS, TOKENS, WEIGHTS, apply, choices, dense, each_expert, learn, loss, targets, tokens,
};

fn main() -> mscclpp::Result<()> {
    examples::on_ranks(4, |comm| {
        let (rank, ranks) = (comm.rank() as usize, comm.num_ranks() as usize);
        let (x, choices, targets) = (tokens(rank), choices(rank), targets(rank));
        let weights: Vec<f32> = (0..TOKENS).flat_map(|_| WEIGHTS).collect();
        let mut experts = vec![vec![0.0_f32; HIDDEN * HIDDEN]; EXPERTS / ranks];
        let mut losses = Vec::new();
        for _ in 0..STEPS {
            // To the experts, through them, and back.
            let arrived = comm.dispatch(&x, &choices, HIDDEN, EXPERTS)?;
            let mut results = Vec::with_capacity(arrived.rows.len());
            each_expert(&arrived.counts, |expert, rows| results.extend(apply(&experts[expert], &arrived.rows[rows])));
            let results = comm.combine(&results, &weights, &arrived.route)?;

            // Of each choice a gradient travels, as if it were a token with one choice: to the place of its row.
            let (own, gradients) = loss(&results, &targets, ranks);
            let gradients = comm.dispatch(&gradients, &choices, HIDDEN, EXPERTS)?.rows;
            each_expert(&arrived.counts, |expert, rows| {
                learn(&mut experts[expert], &arrived.rows[rows.clone()], &gradients[rows]);
            });
            let mut all = vec![0.0; ranks];
            comm.all_gather(&[own], &mut all)?;
            losses.push(all.iter().sum::<f64>());
        }

        assert_eq!(losses, dense(ranks), "rank {rank} has the loss of a single one");
        if rank == 0 {
            let [first, last] = [losses[0], losses[STEPS - 1]];
            assert!(last < first / 10.0, "it learns: {first} to {last}");
            println!(
                "{EXPERTS} experts on {ranks} ranks, {STEPS} steps: loss {first:.3} to {last:.5}, as on a single rank"
            );
        }
        Ok(())
    })
}
