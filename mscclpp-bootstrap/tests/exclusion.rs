//! Rank 0, which forwards the messages of its job, is excluded and ends: a process of its own.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use mscclpp_bootstrap::{Bootstrap, Options, Rendezvous, UniqueId};

/// How rank 0 ends.
const ENDS: [&str; 2] = ["leaves", "dies"];

/// When it ends: at what time of the shrink.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Before,
    During,
    After,
}

fn options() -> Options {
    Options::default().timeout(Duration::from_secs(60)).heartbeat_timeout(Some(Duration::from_secs(30)))
}

/// The process of rank 0, which is killed with this.
struct RankZero(Child);

impl RankZero {
    fn start(id: &UniqueId, ranks: u32) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["exclusion::rank_0_of_a_job", "--exact", "--ignored"]);
        command.env("EXCLUDED_ID", id.to_string()).env("EXCLUDED_RANKS", ranks.to_string());
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn end(&mut self, how: &str) {
        self.0.stdin.take().unwrap().write_all(how.as_bytes()).unwrap();
    }

    fn wait(&mut self) {
        self.0.wait().unwrap();
    }
}

impl Drop for RankZero {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn check(group: &Bootstrap) {
    let (own, ranks) = (group.members()[group.rank() as usize], group.num_ranks());
    assert_eq!(group.all_gather(&[own as u8]).unwrap().len(), ranks as usize);
    let peer = group.rank() ^ 1;
    if peer < ranks {
        group.send(peer, 3, &[own as u8]).unwrap();
        group.recv(peer, 3).unwrap();
        drop(group.stream(peer, 5).unwrap());
    }
    group.barrier().unwrap();
}

/// Shrinks a job of this number of ranks, whose rank 0 ends at a moment.
fn shrink(ranks: u32, moment: Moment, how: &str) {
    let rendezvous = Rendezvous::new().unwrap();
    let id = rendezvous.unique_id();
    let zero = Mutex::new(RankZero::start(id, ranks));
    // These ranks are threads, which wait for each other without rank 0.
    let body = |threads: Bootstrap| {
        let rank = threads.rank() + 1;
        let group = id.connect(rank, ranks, options()).unwrap();
        check(&group);
        threads.barrier().unwrap();
        let ends = |at: Moment| at == moment && rank == 1;
        if ends(Moment::Before) {
            zero.lock().unwrap().end(how);
            zero.lock().unwrap().wait();
        }
        threads.barrier().unwrap();
        if ends(Moment::During) {
            zero.lock().unwrap().end(how);
        }
        let fewer = group
            .shrink(&[0])
            .unwrap_or_else(|error| panic!("rank 0 {how}, {moment:?} the shrink, rank {rank}: {error}"));
        assert_eq!((fewer.rank(), fewer.num_ranks()), (rank - 1, ranks - 1));
        check(&fewer);
        if ends(Moment::After) {
            zero.lock().unwrap().end(how);
        }
        if rank == 1 {
            zero.lock().unwrap().wait();
        }
        threads.barrier().unwrap();
        // The old communicator has no rank 0 any more, and the new one needs none.
        check(&fewer);
        drop(group);
        check(&fewer);
    };
    let (body, threads) = (&body, Bootstrap::local_with_options(ranks - 1, options()).unwrap());
    thread::scope(|scope| threads.into_iter().for_each(|threads| _ = scope.spawn(move || body(threads))));
}

#[test]
fn excluded_rank_0_may_end_at_any_time() {
    for moment in [Moment::Before, Moment::During, Moment::After] {
        for how in ENDS {
            [2, 4].into_iter().for_each(|ranks| shrink(ranks, moment, how));
        }
    }
}

#[test]
#[ignore = "a process of another test"]
fn rank_0_of_a_job() {
    let variable = |name| std::env::var(name).unwrap();
    let (id, ranks): (UniqueId, u32) =
        (variable("EXCLUDED_ID").parse().unwrap(), variable("EXCLUDED_RANKS").parse().unwrap());
    let group = id.connect(0, ranks, options()).unwrap();
    check(&group);
    let how = std::io::read_to_string(std::io::stdin()).unwrap();
    if how == "leaves" {
        drop(group);
    }
    // Not through the end of the test, so that no handle is dropped.
    std::process::exit(0);
}
