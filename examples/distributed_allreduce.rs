//! Collective calls on slices: four ranks in this process, or one per process of a launcher.
//!
//! ```console
//! cargo run --release --example distributed_allreduce
//! mscclpp launch -n 4 -- target/release/examples/distributed_allreduce
//! mpirun -n 2 target/release/examples/distributed_allreduce
//! for r in 0 1 2; do RANK=$r WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=29511 \
//!     target/release/examples/distributed_allreduce & done; wait
//! ```

use mscclpp::prelude::*;

fn main() -> mscclpp::Result<()> {
    examples::on_ranks(4, |comm| {
        let (rank, size) = (comm.rank(), comm.num_ranks());
        let ranks = size as usize;

        // Gradients of all ranks, averaged, in every rank's own memory. Any length is allowed.
        let mut gradients: Vec<f32> = (0..1_000_003).map(|i| (i % 7) as f32 + rank as f32).collect();
        comm.all_reduce_in_place(&mut gradients, ReduceOp::Avg)?;
        let expected = |i: usize| (i % 7) as f32 + (size - 1) as f32 / 2.0;
        let wrong = gradients.iter().enumerate().filter(|(i, found)| (**found - expected(*i)).abs() > 1e-3).count();
        assert_eq!(wrong, 0, "rank {rank}");

        // Memory that all ranks can access is used without copies.
        let mut shared = comm.alloc::<f64>(1 << 16)?;
        shared.fill(1.0);
        comm.all_reduce_in_place(&mut shared, ReduceOp::Sum)?;
        assert!(shared.iter().all(|sum| *sum == f64::from(size)), "rank {rank}");

        // Other calls: every rank's contribution, in the order of ranks; parts whose lengths are known only to their
        // senders.
        let mut names = vec![0_u32; ranks];
        comm.all_gather(&[rank * 10], &mut names)?;
        assert!(names.iter().zip(0..).all(|(name, rank)| *name == rank * 10));
        let counts: Vec<usize> = (0..ranks).map(|to| (rank as usize + to) % 3).collect();
        let tokens = vec![rank as u8; counts.iter().sum()];
        let arrived = comm.all_to_all_v(&tokens, &counts)?;
        assert!((0..size).all(|from| arrived.from_rank(from).iter().all(|token| *token == from as u8)));

        if rank == 0 {
            println!(
                "{size} ranks: {} gradients averaged, {} tokens arrived at rank 0",
                gradients.len(),
                arrived.elements.len()
            );
            for (algorithm, calls) in comm.registry()?.call_counts() {
                println!("  {algorithm}: {calls} calls");
            }
        }
        Ok(())
    })
}
