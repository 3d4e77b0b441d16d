//! Exit codes, on which scripts may rely.

/// Success: everything requested was done, and the result is positive.
pub(crate) const SUCCESS: u8 = 0;
/// Failure: findings, wrong results, a stalled run, plans that differ.
pub(crate) const FAILURE: u8 = 1;
/// Invalid input: usage, an unknown name, an unreadable file or plan.
pub(crate) const USAGE: u8 = 2;
/// Unavailable: the input is valid, but this machine cannot process it: not enough memory, an output that cannot be
/// written.
pub(crate) const UNAVAILABLE: u8 = 3;
/// The reader closed the output: 128 + the number of SIGPIPE, as for a program that the signal ends.
pub(crate) const BROKEN_PIPE: u8 = 141;

/// The table that `mscclpp --help` and `docs/cli.md` show.
pub(crate) const TABLE: &str = "\
Exit codes:
  0    done; for `check`: accepted; for `run`: everything asked for ran and nothing was wrong; for `plan diff`: equal
  1    no: findings, wrong results, a run that stalled, plans that differ, a machine on which no ranks can run
  2    not understood: usage, an unknown name or code, a missing or unreadable plan
  3    not possible here: too little memory, an output that cannot be written
  141  whoever read the output closed it
`launch` ends with the code of the first rank that failed, 128 + the number of the signal that ended it";
