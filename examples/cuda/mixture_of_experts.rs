//! A layer of a mixture of experts, trained over several ranks that have a device each: tokens travel to the devices of their experts, and
//! their results back. The loss of every step equals that of a single rank, bit for bit. The experts are computed on the host.
//!
//! ```console
//! mscclpp launch -n 4 -- target/release/examples/mixture_of_experts_on_devices
//! scripts/simulated-cuda.sh -n 2 -- target/release/examples/mixture_of_experts_on_devices
//! ```
//!
//! Without a device, or a compiler for its kernels, it prints the reason.

use examples::mixture::{
    EXPERTS, HIDDEN, STEPS, TOKENS, TOP_K, WEIGHTS, apply, choices, dense, each_expert, learn, loss, targets, tokens,
};
use mscclpp::runtime::cuda::DeviceVec;
use mscclpp::runtime::{ExpertShape, RowLayout};

fn main() -> mscclpp::Result<()> {
    examples_cuda::on_ranks(1, |comm| {
        let Some(device) = examples_cuda::device_with_compiler(comm) else { return Ok(()) };
        let (rank, ranks, stream) = (comm.rank() as usize, comm.num_ranks() as usize, device.stream()?);
        let on = comm.on(&stream);
        let (each, targets) = (EXPERTS / ranks, targets(rank));
        let shape = ExpertShape { hidden: HIDDEN, num_experts: EXPERTS, top_k: TOP_K, max_tokens: TOKENS };
        let mut forward = on.experts::<f32>(shape)?;
        // Of each choice a gradient travels, as if it were a token with one choice: to the place of its row.
        let mut backward = on.experts::<f32>(ExpertShape { top_k: 1, max_tokens: TOP_K * TOKENS, ..shape })?;

        // Each expert's rows directly follow those of the one before; there is room for all that may arrive.
        let (layout, room) = (RowLayout::ByExpert { alignment: 1 }, ranks * TOKENS * TOP_K.min(each) * HIDDEN);
        let x = DeviceVec::from_slice(&device, &tokens(rank))?;
        let choices = DeviceVec::from_slice(&device, &choices(rank))?;
        let weights = DeviceVec::from_slice(&device, &[WEIGHTS; TOKENS].concat())?;
        let (mut rows, mut counts) = (DeviceVec::<f32>::new(&device, room)?, DeviceVec::<i64>::new(&device, each)?);
        let mut sums = DeviceVec::<f32>::new(&device, TOKENS * HIDDEN)?;
        let mut gradients = DeviceVec::<f32>::new(&device, TOP_K * TOKENS * HIDDEN)?;
        let mut experts = vec![vec![0.0_f32; HIDDEN * HIDDEN]; each];
        let mut losses = Vec::new();
        for _ in 0..STEPS {
            forward.dispatch(on, &x, &choices, layout, &mut rows, &mut counts)?;
            on.synchronize()?;
            let counts_of: Vec<usize> = counts.to_vec()?.iter().map(|count| *count as usize).collect();
            let arrived = rows.to_vec()?;
            let mut results = vec![0.0; room];
            each_expert(&counts_of, |expert, rows| {
                results[rows.clone()].copy_from_slice(&apply(&experts[expert], &arrived[rows]));
            });
            rows.write(&results)?;
            forward.combine(on, &rows, &weights, &mut sums)?;
            on.synchronize()?;

            let (own, of_choices) = loss(&sums.to_vec()?, &targets, ranks);
            gradients.write(&of_choices)?;
            backward.dispatch(on, &gradients, &choices, layout, &mut rows, &mut counts)?;
            on.synchronize()?;
            let of_rows = rows.to_vec()?;
            each_expert(&counts_of, |expert, rows| learn(&mut experts[expert], &arrived[rows.clone()], &of_rows[rows]));
            let mut all = vec![0.0; ranks];
            comm.all_gather(&[own], &mut all)?;
            losses.push(all.iter().sum::<f64>());
        }

        assert_eq!(losses, dense(ranks), "rank {rank} has the loss of a single one");
        if rank == 0 {
            let [first, last] = [losses[0], losses[STEPS - 1]];
            println!(
                "{EXPERTS} experts on {ranks} devices, {STEPS} steps: loss {first:.3} to {last:.5}, as on one rank"
            );
        }
        Ok(())
    })
}
