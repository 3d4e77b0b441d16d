//! Time of an all-reduce whose algorithm is selected automatically, forced once, and forced before each call, all the same algorithm:
//! `cargo bench -p mscclpp-exec --bench force`. Blocks of calls take turns; two ranks are threads of this process.

use std::time::{Duration, Instant};

use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_select::Choice;

/// Blocks of each contender, calls of a block, and calls before them that are not counted.
const BLOCKS: usize = 101;
const CALLS: usize = 20;
const SKIPPED: usize = 2;

const CONTENDERS: [&str; 3] = ["automatic", "forced once", "forced before each call"];

fn main() {
    let [first, second] = <[_; 2]>::try_from(Communicator::local(2).expect("a communicator")).expect("two ranks");
    std::thread::scope(|scope| {
        scope.spawn(|| measure(&first));
        measure(&second);
    });
}

fn measure(comm: &Communicator) {
    const KIND: CollectiveKind = CollectiveKind::AllReduce;
    for count in [256, 16 << 10, 256 << 10] {
        let (input, mut output) = (vec![1_f32; count], vec![0_f32; count]);
        let request = comm.request::<f32>(KIND, count);
        let selected = comm.registry().expect("no call is running").select(&request).expect("an algorithm");
        let name = selected.algorithm.name();
        let force = |is_forced: bool| {
            let choice = is_forced.then(|| (KIND, Choice { name: name.to_owned(), config: selected.config.clone() }));
            comm.force_algorithm(choice).expect("no call is running");
        };
        let mut times = [[Duration::ZERO; BLOCKS]; CONTENDERS.len()];
        for block in 0..BLOCKS {
            for (contender, times) in times.iter_mut().enumerate() {
                force(contender > 0);
                let mut started = Instant::now();
                for call in 0..SKIPPED + CALLS {
                    if call == SKIPPED {
                        started = Instant::now();
                    }
                    if contender == 2 {
                        force(true);
                    }
                    comm.all_reduce(&input, &mut output, ReduceOp::Sum).expect("no rank is lost");
                }
                times[block] = started.elapsed() / CALLS as u32;
            }
        }
        if comm.rank() == 0 {
            for (contender, times) in CONTENDERS.iter().zip(&mut times) {
                times.sort();
                println!("{} bytes, {name}, {contender}: median {:.2?} a call", count * 4, times[BLOCKS / 2]);
            }
        }
    }
}
