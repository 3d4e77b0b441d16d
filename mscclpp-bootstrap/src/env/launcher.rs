//! The launchers, and their variables.

/// Variables of one launcher.
#[derive(Debug)]
pub(super) struct Launcher {
    /// Its name, for display.
    pub(super) name: &'static str,
    /// This process's rank.
    pub(super) rank: &'static str,
    /// The number of ranks; the first variable that is set counts.
    pub(super) ranks: &'static [&'static str],
    /// This process's rank among those of its host.
    pub(super) local_rank: &'static str,
    /// The number of ranks of the host, if the launcher provides it.
    pub(super) local_ranks: Option<&'static str>,
    /// The number of hosts, if the launcher provides it; the first variable that is set counts.
    pub(super) hosts: &'static [&'static str],
    /// Variables that identify the job: equal on all its ranks and different from other jobs'. All that are set count.
    pub(super) job: &'static [&'static str],
}

/// In the order in which they are tried. A later launcher is the outer one where several apply: torchrun and `mscclpp
/// launch` run under mpirun and Slurm, and mpirun under Slurm.
pub(super) const ALL: [Launcher; 4] = [
    Launcher {
        name: "torchrun",
        rank: "RANK",
        ranks: &["WORLD_SIZE"],
        local_rank: "LOCAL_RANK",
        local_ranks: Some("LOCAL_WORLD_SIZE"),
        hosts: &[],
        job: &["TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"],
    },
    Launcher {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: &["OMPI_COMM_WORLD_SIZE"],
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_ranks: Some("OMPI_COMM_WORLD_LOCAL_SIZE"),
        hosts: &[],
        job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
    },
    Launcher {
        name: "Slurm",
        rank: "SLURM_PROCID",
        // The first variable is that of the job step, which may be smaller than the job; the second is that of the job.
        ranks: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        local_rank: "SLURM_LOCALID",
        local_ranks: None,
        hosts: &["SLURM_STEP_NUM_NODES", "SLURM_NNODES"],
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
    Launcher {
        name: "PMI",
        rank: "PMI_RANK",
        ranks: &["PMI_SIZE"],
        local_rank: "MPI_LOCALRANKID",
        local_ranks: Some("MPI_LOCALNRANKS"),
        hosts: &[],
        job: &["PMI_JOBID"],
    },
];
