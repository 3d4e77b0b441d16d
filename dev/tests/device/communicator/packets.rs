//! Calls in packets of 8 bytes and of 16.

use libtest_mimic::Failed;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::PacketType;

use super::{failure, on_devices};

pub(super) fn packets_of_both_sizes_serve_calls(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 3, 3, |comm, device| {
        let stream = device.stream()?;
        for packet in [PacketType::LL8, PacketType::LL16] {
            let comm = comm.with_packets(packet);
            let on = comm.on(&stream);
            for len in [1, 7, 3000] {
                let mut memory = on.alloc::<i32>(len)?;
                memory.write(&(0..len as i32).map(|at| at + comm.rank() as i32).collect::<Vec<_>>())?;
                on.all_reduce_in_place(&mut memory, ReduceOp::Sum)?;
                on.synchronize()?;
                let expected: Vec<i32> = (0..len as i32).map(|at| 3 * at + 3).collect();
                assert_eq!(memory.to_vec()?, expected, "{packet:?}");
                let launched = on.last_call()?.ok_or("no call")?;
                let name = launched.algorithm.unwrap_or_default();
                assert!(name.contains("packets") && launched.request.packet == packet, "{name}: {}", launched.request);
            }
        }
        // Ranks that differ make different calls.
        let packet = if comm.rank() == 0 { PacketType::LL8 } else { PacketType::LL16 };
        let comm = comm.with_packets(packet);
        let on = comm.on(&stream);
        let mut memory = on.alloc::<i32>(5)?;
        let failed = on.all_reduce_in_place(&mut memory, ReduceOp::Sum).and_then(|()| on.synchronize());
        let error = failure(failed)?.to_string();
        assert!(error.contains("packets LL8"), "{error}");
        Ok(())
    })
}
