//! Measures which algorithm is fastest on this machine, and applies the result.
//!
//! ```console
//! cargo run --release --example tuning
//! mscclpp launch -n 2 -- target/release/examples/tuning
//! ```
//!
//! The command `mscclpp tune` does the same for all collectives and sizes, and `MSCCLPP_TUNING_TABLE` names the table's
//! file.

use mscclpp::prelude::*;
use mscclpp::runtime::select::Request;
use mscclpp::runtime::tune::{Tuner, TuningTable};

fn main() -> mscclpp::Result<()> {
    examples::on_ranks(2, |comm| {
        let tuner = Tuner {
            collectives: vec![CollectiveKind::AllReduce],
            min_bytes: 1 << 10,
            max_bytes: 1 << 18,
            in_place: vec![true],
            iterations: Some(20),
            ..Tuner::default()
        };
        // A call of all ranks, which returns the same table on each.
        let table = tuner.run(comm, |_| ())?;

        if comm.rank() == 0 {
            for entry in &table.entries {
                let fastest = &entry.fastest;
                println!(
                    "{:>8} bytes: {} in {} us, {} others",
                    entry.bytes,
                    fastest.algorithm,
                    fastest.time_us,
                    entry.others.len()
                );
            }
            // A human-readable file.
            let path = std::env::temp_dir().join(format!("tuning-{}.toml", std::process::id()));
            table.save(&path)?;
            assert_eq!(TuningTable::load(&path)?, table);
            println!("\n{}", table.text().lines().take(24).collect::<Vec<_>>().join("\n"));
            _ = std::fs::remove_file(path);
        }

        // From now on calls use the table: 3000 elements are rounded up to 16 KiB.
        comm.configure(|registry| registry.set_table(Some(table.clone())))?;
        let mut x = vec![1.0_f32; 3000];
        comm.all_reduce_in_place(&mut x, ReduceOp::Sum)?;
        assert!(x.iter().all(|sum| *sum == comm.num_ranks() as f32));
        let request = Request { in_place: true, ..comm.request::<f32>(CollectiveKind::AllReduce, x.len()) };
        let tuned = table.lookup(&request).expect("an entry for every size up to the largest");
        assert_eq!(comm.registry()?.explain(&request).selected(), Some(tuned.fastest.algorithm.as_str()));
        Ok(())
    })
}
