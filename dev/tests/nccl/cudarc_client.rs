//! A client in Rust: cudarc's communicators, through which candle, burn and mistral.rs reach NCCL. A process of this test is a
//! rank.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, thread};

use cudarc::driver::CudaContext;
use cudarc::nccl::{Comm, Id, ReduceOp};

use crate::clients::{Test, ran, run_program};

/// Name of the variable that makes this program a rank.
const CLIENT: &str = "MSCCLPP_TEST_CUDARC";

pub(crate) fn tests() -> Vec<Test> {
    vec![("communicators_of_cudarc_are_right", || {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        ran(&run_program(&program, 3, &[], &[(CLIENT, "1")])?)
    })]
}

/// Runs the part of this process if it is a rank.
pub(crate) fn rank() -> Option<Result<(), Box<dyn Error>>> {
    env::var(CLIENT).is_ok().then(client)
}

/// Returns the job's id, which rank 0 creates.
fn job_id(rank: usize) -> Result<Id, Box<dyn Error>> {
    let path = PathBuf::from(env::var("ID_FILE")?);
    if rank == 0 {
        let id = Id::new().map_err(|error| format!("{error:?}"))?;
        let bytes: Vec<u8> = id.internal().iter().map(|byte| *byte as u8).collect();
        fs::write(path.with_extension("new"), bytes)?;
        fs::rename(path.with_extension("new"), path)?;
        return Ok(id);
    }
    while !path.exists() {
        thread::sleep(Duration::from_millis(1));
    }
    let bytes: Vec<_> = fs::read(path)?.into_iter().map(|byte| byte as std::ffi::c_char).collect();
    Ok(Id::uninit(bytes.try_into().map_err(|_| "an id of another size")?))
}

fn client() -> Result<(), Box<dyn Error>> {
    let (rank, ranks): (usize, usize) = (env::var("RANK")?.parse()?, env::var("WORLD_SIZE")?.parse()?);
    let stream = CudaContext::new(rank)?.new_stream()?;
    let failed = |error: cudarc::nccl::result::NcclError| format!("{error:?}");
    let comm = Comm::from_rank(stream.clone(), rank, ranks, job_id(rank)?).map_err(failed)?;
    assert_eq!((comm.rank(), comm.world_size()), (rank, ranks));
    for len in [1_usize, 3001] {
        let of = |rank: usize| (0..len).map(|i| (rank * 100 + i % 89) as f32).collect::<Vec<f32>>();
        let sum: Vec<f32> = (0..len).map(|i| (0..ranks).map(|rank| of(rank)[i]).sum()).collect();
        let send = stream.clone_htod(&of(rank))?;
        let mut recv = stream.alloc_zeros::<f32>(len)?;
        comm.all_reduce(&send, &mut recv, &ReduceOp::Sum).map_err(failed)?;
        assert_eq!(stream.clone_dtoh(&recv)?, sum);
        let mut both = stream.clone_htod(&of(rank))?;
        comm.all_reduce_in_place(&mut both, &ReduceOp::Max).map_err(failed)?;
        assert_eq!(stream.clone_dtoh(&both)?, of(ranks - 1));
        let mut all = stream.alloc_zeros::<f32>(len * ranks)?;
        comm.all_gather(&send, &mut all).map_err(failed)?;
        assert_eq!(stream.clone_dtoh(&all)?, (0..ranks).flat_map(of).collect::<Vec<_>>());
        comm.reduce_scatter(&all, &mut recv, &ReduceOp::Sum).map_err(failed)?;
        let own: Vec<f32> = of(rank).iter().map(|value| value * ranks as f32).collect();
        assert_eq!(stream.clone_dtoh(&recv)?, own);
        comm.broadcast((rank == 1).then_some(&send), &mut recv, 1).map_err(failed)?;
        assert_eq!(stream.clone_dtoh(&recv)?, of(1));
        comm.reduce(&send, (rank == 0).then_some(&mut recv), &ReduceOp::Min, 0).map_err(failed)?;
        if rank == 0 {
            assert_eq!(stream.clone_dtoh(&recv)?, of(0));
        }
        // Every rank sends to the next one.
        cudarc::nccl::group_start().map_err(failed)?;
        comm.send(&send, ((rank + 1) % ranks) as i32).map_err(failed)?;
        comm.recv(&mut recv, ((rank + ranks - 1) % ranks) as i32).map_err(failed)?;
        cudarc::nccl::group_end().map_err(failed)?;
        assert_eq!(stream.clone_dtoh(&recv)?, of((rank + ranks - 1) % ranks));
    }
    stream.synchronize()?;
    Ok(())
}
