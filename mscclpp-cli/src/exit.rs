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
  0    success; for `check`: accepted; for `run`: all results are correct; for `plan diff`: equal
  1    failure: findings, wrong results, a stalled run, plans that differ, a machine that cannot run ranks
  2    invalid input: usage, an unknown name or code, a missing or invalid plan
  3    unavailable: too little memory, an output that cannot be written
  141  output closed by its reader
`launch` exits with the code of the first rank that failed, or 128 + the number of the signal that ended it";
