//! Times of a barrier, an agreement and an all-gather between processes: `cargo bench -p mscclpp-bootstrap`.

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
    let bytes = vec![7; 1 << 16];
    let calls: [(&str, u32, &dyn Fn()); 3] = [
        ("barrier", 20_000, &|| group.barrier().expect("no rank is lost")),
        ("agree", 20_000, &|| assert!(group.agree(true).expect("no rank is lost"))),
        ("all_gather of 64 KiB", 1000, &|| drop(group.all_gather(&bytes).expect("no rank is lost"))),
    ];
    for (name, count, call) in calls {
        let mut times = Vec::new();
        for _ in 0..11 {
            let start = Instant::now();
            (0..count).for_each(|_| call());
            times.push(start.elapsed().as_secs_f64() / f64::from(count));
        }
        times.sort_by(f64::total_cmp);
        if group.rank() == 0 {
            println!("{name}: median {:.1} us, least {:.1} us", times[5] * 1e6, times[0] * 1e6);
        }
    }
}
