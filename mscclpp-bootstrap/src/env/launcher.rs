//! The launchers, and the names under which they say things.

/// One launcher's names.
#[derive(Debug)]
pub(super) struct Launcher {
    /// Its name, for people.
    pub(super) name: &'static str,
    /// Which rank this is.
    pub(super) rank: &'static str,
    /// How many ranks there are; the first that is set counts.
    pub(super) ranks: &'static [&'static str],
    /// Which rank of its host this is.
    pub(super) local_rank: &'static str,
    /// How many ranks its host has, if the launcher says so.
    pub(super) local_ranks: Option<&'static str>,
    /// What names the job, the same for all its ranks and different from other jobs'; all that are set count.
    pub(super) job: &'static [&'static str],
}

/// In the order in which they are looked for. A launcher below another one is the outer one: torchrun and `mscclpp launch`
/// run under mpirun and Slurm, and mpirun under Slurm.
pub(super) const ALL: [Launcher; 4] = [
    Launcher {
        name: "torchrun",
        rank: "RANK",
        ranks: &["WORLD_SIZE"],
        local_rank: "LOCAL_RANK",
        local_ranks: Some("LOCAL_WORLD_SIZE"),
        job: &["TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"],
    },
    Launcher {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: &["OMPI_COMM_WORLD_SIZE"],
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_ranks: Some("OMPI_COMM_WORLD_LOCAL_SIZE"),
        job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
    },
    Launcher {
        name: "Slurm",
        rank: "SLURM_PROCID",
        // The first is the step's, the second the job's: a step may be smaller.
        ranks: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        local_rank: "SLURM_LOCALID",
        local_ranks: None,
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
    Launcher {
        name: "PMI",
        rank: "PMI_RANK",
        ranks: &["PMI_SIZE"],
        local_rank: "MPI_LOCALRANKID",
        local_ranks: Some("MPI_LOCALNRANKS"),
        job: &["PMI_JOBID"],
    },
];
