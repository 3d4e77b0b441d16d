//! Programs that call NCCL run on plans: clients in C, compiled here, that load `libnccl.so.2` and a driver of simulated devices
//! by their names. Where there is no C compiler, or CUDA's driver, the tests are ignored, and the reason is printed.

mod clients;
mod cudarc_client;
mod device_comm;
mod divisions;
mod exchanges;
mod fault_rounds;
mod faults;
mod forward;
mod one_sided;
mod orders;
mod profiler;
mod python_clients;
mod pytorch;
mod selection;
mod symbols;
mod timelines;

// Ports that are otherwise unused.
#[path = "../../../mscclpp-exec/tests/common/port.rs"]
mod port;

#[path = "../../../mscclpp-python/tests/common/preload.rs"]
mod preload;

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../mscclpp-communicator/tests/faults/rounds.rs"]
mod rounds;

use libtest_mimic::{Arguments, Trial};

fn main() {
    if let Some(result) = cudarc_client::rank() {
        return result.unwrap_or_else(|error| {
            eprintln!("{error}");
            std::process::exit(1);
        });
    }
    let arguments = Arguments::from_args();
    let missing = clients::missing();
    if let Some(reason) = &missing {
        println!("tests of clients are ignored: {reason}");
    }
    let of_clients = [
        clients::tests(),
        exchanges::tests(),
        cudarc_client::tests(),
        device_comm::tests(),
        divisions::tests(),
        timelines::tests(),
        faults::tests(),
        fault_rounds::tests(),
        forward::tests(),
        one_sided::tests(),
        orders::tests(),
        profiler::tests(),
        selection::tests(),
    ]
    .concat();
    let of_clients = of_clients
        .into_iter()
        .map(|(name, test)| Trial::test(name, move || Ok(test()?)).with_ignored_flag(missing.is_some()));
    let all = symbols::tests()
        .into_iter()
        .chain(of_clients)
        .chain(pytorch::tests(missing.is_some()))
        .chain(python_clients::tests(missing.is_some()));
    libtest_mimic::run(&arguments, all.collect()).exit();
}
