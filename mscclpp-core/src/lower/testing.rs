//! Traces and operations by hand, for the tests of the passes.

use crate::collective::CollectiveKind;
use crate::origin::{Origin, Origins};
use crate::plan::{ChannelTable, LoopBody, Op, OpKind, Place, PlanTree, Ref, RemoteBuffer, Slice};
use crate::spec::AlgoSpec;
use crate::trace::{LoopHeader, RankTables, Recorded, Trace};
use crate::vocab::{BufferKind, ChannelKind, ReduceOp, Sync};
