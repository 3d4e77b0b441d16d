//! Time of a barrier and of an all-gather between processes: `cargo bench -p mscclpp-bootstrap`.

use std::process::Command;
use std::time::Instant;

use mscclpp_bootstrap::{Bootstrap, Options, RootListener, UniqueId};

const VARIABLE: &str = "MSCCLPP_BENCH_ID";

fn main() {
    if let Ok(id) = std::env::var(VARIABLE) {
        let id: UniqueId = id.parse().expect("an id");
        return measure(&id.join(1, 2, Options::default()).expect("rank 0 is there"));
    }
    let listener = RootListener::bind([127, 0, 0, 1].into()).expect("a port");
    let this = std::env::current_exe().expect("a program");
    let mut other = Command::new(this).env(VARIABLE, listener.unique_id().to_string()).spawn().expect("a process");
    measure(&listener.connect(2, Options::default()).expect("rank 1 joins"));
    other.wait().expect("it ends");
}

fn measure(group: &Bootstrap) {
    for (name, len, count) in [("barrier", 0, 20_000), ("all_gather of 64 KiB", 1 << 16, 1000)] {
        let bytes = vec![7; len];
        let mut times = Vec::new();
        for _ in 0..11 {
            let start = Instant::now();
            for _ in 0..count {
                group.all_gather(&bytes).expect("no rank is lost");
            }
            times.push(start.elapsed().as_secs_f64() / f64::from(count));
        }
        times.sort_by(f64::total_cmp);
        if group.rank() == 0 {
            println!("{name}: median {:.1} us, least {:.1} us", times[5] * 1e6, times[0] * 1e6);
        }
    }
}
