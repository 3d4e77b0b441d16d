//! Resolves a plan into a [`ResolvedPlan`]. The result is safe to execute whatever the plan contains: every index is
//! checked here.

mod ids;
mod operands;
mod operation;
mod rank;

use std::collections::BTreeMap;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::image::Numbers;
use mscclpp_core::plan::{
    Plan,
    raw::{OpKind, RemoteBuffer},
};
use mscclpp_core::types::{BufferKind, ReduceOp};

use super::pairs::pair_channels;
use super::program::{Instr, Reductions, ResolvedPlan};
use crate::error::{Error, path};
use crate::layout::Shape;

/// Resolves a plan.
///
/// # Errors
/// [`Error::InvalidPlan`] for the first reason why the plan cannot be executed.
pub fn resolve(plan: &Plan) -> Result<ResolvedPlan, Error> {
    let whole = |what: String| Error::InvalidPlan { path: "the whole plan".into(), what };
    plan.check_header().map_err(|error| whole(error.to_string()))?;
    let shape = shape(plan)?;
    let mut lowering = Resolver {
        program: ResolvedPlan {
            plan: plan.clone(),
            shape,
            double_scratch: plan.double_scratch(),
            is_counted: shape.collective.kind == CollectiveKind::AllToAllV,
            reuse_resources: plan.reuse_resources(),
            reductions: Reductions::None,
            writes_input: false,
            written: vec![false; shape.ranks as usize].into(),
            plain_scratch: false,
            windowed_scratch: Some(0),
            agents: Vec::new(),
            instrs: Vec::new().into(),
            operands: Vec::new(),
            ids: Vec::new(),
            channels: Vec::new().into(),
            semaphores: Vec::new(),
            barriers: Vec::new(),
            proxies: Vec::new(),
            loops: Vec::new(),
        },
        chunks: plan.ranks().map(|rank| BufferKind::ALL.map(|buffer| rank.chunks(buffer))).collect(),
        tables: Tables::default(),
        reductions: 0,
        window: None,
    };
    for (rank, view) in plan.ranks().enumerate() {
        lowering.rank(rank as u32, &view)?;
    }
    let mut program = lowering.program;
    program.reductions = reductions(lowering.reductions).ok_or_else(|| {
        whole("`avg` together with other reductions, whose results the final division would also divide".into())
    })?;
    pair_channels(program.channels.as_mut_slice());
    Ok(program)
}

fn shape(plan: &Plan) -> Result<Shape, Error> {
    use BufferKind::{Input, Output, Scratch};
    let most = |buffer| plan.ranks().map(|rank| rank.chunks(buffer)).max().unwrap_or(0);
    let shape = Shape {
        collective: plan.collective(),
        ranks: plan.num_ranks(),
        input: most(Input),
        output: most(Output),
        scratch: most(Scratch),
        alignment: plan.buffer_alignment(),
        packets: false,
    };
    let whole = |what: String| Err(Error::InvalidPlan { path: "the whole plan".into(), what });
    if plan.ranks().count() != shape.ranks as usize {
        return whole("the section of a rank in the image is invalid".into());
    }
    if shape.alignment == 0 {
        return whole("a buffer alignment of 0 bytes, expected at least 1".into());
    }
    if shape.collective.root >= shape.ranks.max(1) {
        return whole(format!("root {} with {} ranks", shape.collective.root, shape.ranks));
    }
    for (rank, view) in plan.ranks().enumerate() {
        for (buffer, most) in [(Input, shape.input), (Output, shape.output)] {
            let chunks = view.chunks(buffer);
            if chunks != 0 && chunks != most {
                return Err(Error::InvalidPlan {
                    path: format!("rank {rank}"),
                    what: format!("{chunks} {buffer} chunks, but another rank has {most}"),
                });
            }
        }
    }
    Ok(shape)
}

/// Classifies a set of reductions, one bit each; `None` if it cannot be executed.
fn reductions(set: u8) -> Option<Reductions> {
    let bit = |op: ReduceOp| 1 << op as u8;
    if set == 0 {
        return Some(Reductions::None);
    }
    if set == bit(ReduceOp::Sum) {
        return Some(Reductions::Generic);
    }
    if let Some(op) = ReduceOp::ALL.into_iter().find(|&op| set == bit(op)) {
        return Some(Reductions::Fixed(op));
    }
    (set & bit(ReduceOp::Avg) == 0).then_some(Reductions::Mixed)
}

struct Resolver {
    program: ResolvedPlan,
    /// Number of chunks of every rank's buffers.
    chunks: Vec<[u32; 3]>,
    tables: Tables,
    /// Reductions that occur, one bit each.
    reductions: u8,
    /// Bytes of the window, inside of a pipeline.
    window: Option<u64>,
}

/// Tables of the current rank; kept to reuse their memory.
#[derive(Default)]
struct Tables {
    remote: Vec<RemoteBuffer>,
    /// First of [`ResolvedPlan::channels`] and number, for memory and port.
    channels: [(u32, u32); 2],
    /// Buffer and range of `members` of each switch channel.
    switches: Vec<(BufferKind, u32, u32)>,
    members: Vec<u32>,
    /// First of [`ResolvedPlan::semaphores`] and number.
    semaphores: (u32, u32),
    /// Indices of the barriers so far in [`ResolvedPlan::barriers`], by number.
    barriers: BTreeMap<u32, u32>,
}

/// Tables of the current thread block.
struct BlockTables<'a> {
    rank: u32,
    /// By channel kind.
    channels: [Option<Numbers<'a>>; 3],
    remote: [Option<Numbers<'a>>; 3],
}

/// Returns the entry of a table that may not exist; its length if it is too short.
fn entry(table: &Option<Numbers<'_>>, at: u32) -> Result<u32, usize> {
    let table = table.as_ref();
    table.and_then(|table| table.get(at)).ok_or(table.map_or(0, Numbers::len))
}

/// An operation's path and kind, for errors.
#[derive(Clone, Copy)]
struct At {
    rank: u32,
    block: u32,
    op: u32,
    kind: OpKind,
}

impl At {
    fn error<T>(self, what: impl Into<String>) -> Result<T, Error> {
        Err(Error::InvalidPlan { path: path(self.rank, self.block, self.op, self.kind), what: what.into() })
    }
}

impl Resolver {
    /// Returns the instruction that is being resolved.
    fn last(&mut self) -> &mut Instr {
        let last = self.program.instrs.len() - 1;
        &mut self.program.instrs[last]
    }
}
