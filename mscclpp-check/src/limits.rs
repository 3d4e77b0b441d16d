//! The rule `limits`: a plan fits the device and the executor for which it is meant. It proves, for a
//! [`DeviceProfile`], that
//!
//! 1. all thread blocks of a rank are co-resident. They wait for each other in loops, so a block that starts only when
//!    another one has ended would make that one wait forever;
//! 2. thread blocks, their tables and their operations are no longer than the executor's arrays for them, and a rank
//!    has no more barriers than the executor;
//! 3. at the largest message for which the plan is meant, scratch, byte offsets and iterations stay within the limits.
//!
//! Counts are compared as the plan has them. Bytes are computed from the chunks: an offset is at most the end of the
//! last chunk of an operand, twice that for packets and twice again with double scratch. The padding by which executors
//! round up messages, to whole elements and packets in every chunk, is not counted.
//!
//! The rule is separate from the others, because our CPU executor has none of these limits: it applies to plans that
//! run on a device, or that are exported for the reference executor.

use super::MAX_FINDINGS;
use super::access::accesses;
use super::place::{LocatedOp, each};
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics, Site};
use mscclpp_plan::raw::{IdList, OpKind, PlanTree, RankPlan};
use mscclpp_plan::types::{BufferKind, Protocol};

/// The limits of a device, or of an executor on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceProfile {
    /// Its name in messages: "an H100".
    pub name: &'static str,
    /// Thread blocks of a rank that are co-resident.
    pub max_blocks: usize,
    /// Threads of a thread block.
    pub max_threads: u32,
    /// Operations of a thread block; a pipeline and each operation in it count one.
    pub max_ops: usize,
    /// Channels of one kind of a thread block.
    pub max_channels: usize,
    /// Remote buffers of a thread block that it accesses over one kind of channel.
    pub max_remote_buffers: usize,
    /// Channels of an operation; remote operands on one of its sides, when it is split.
    pub max_channels_per_op: usize,
    /// Operands on one side of an operation.
    pub max_operands: usize,
    /// Semaphores of an operation.
    pub max_semaphores: usize,
    /// Barriers of a rank: the end of their numbers.
    pub max_barriers: u32,
    /// Iterations of a pipeline.
    pub max_iterations: u64,
    /// Bytes from the start of a buffer to the end of a chunk, and of a pipeline's unit.
    pub max_offset_bytes: u64,
    /// Bytes of a rank's scratch, both halves of double scratch counted.
    pub max_scratch_bytes: u64,
    /// Maximum of a plan's smallest message, in bytes.
    pub max_min_message_size: u64,
}

impl DeviceProfile {
    /// No limits: our CPU executor.
    pub const UNLIMITED: Self = Self {
        name: "this executor",
        max_blocks: usize::MAX,
        max_threads: u32::MAX,
        max_ops: usize::MAX,
        max_channels: usize::MAX,
        max_remote_buffers: usize::MAX,
        max_channels_per_op: usize::MAX,
        max_operands: usize::MAX,
        max_semaphores: usize::MAX,
        max_barriers: u32::MAX,
        max_iterations: u64::MAX,
        max_offset_bytes: u64::MAX,
        max_scratch_bytes: u64::MAX,
        max_min_message_size: u64::MAX,
    };

    /// The reference executor, on a device with any number of co-resident thread blocks. It copies plans into arrays of
    /// these sizes without checks, so a plan that exceeds them overwrites the memory after them.
    pub const REFERENCE: Self = Self {
        name: "the reference executor",
        max_threads: 1024,
        max_ops: 64,
        max_channels: 16,
        max_remote_buffers: 16,
        max_channels_per_op: 8,
        max_operands: 10,
        max_semaphores: 16,
        max_barriers: 16,
        max_iterations: 65535,
        max_offset_bytes: u32::MAX as u64,
        // It reads the smallest size into 31 bits.
        max_min_message_size: i32::MAX as u64,
        ..Self::UNLIMITED
    };

    /// An NVIDIA A100: a thread block for each of its 108 multiprocessors.
    pub const A100: Self = Self { name: "an A100", max_blocks: 108, max_threads: 1024, ..Self::UNLIMITED };

    /// An NVIDIA H100 or H200 (SXM): a thread block for each of its 132 multiprocessors.
    pub const H100: Self = Self { name: "an H100", max_blocks: 132, max_threads: 1024, ..Self::UNLIMITED };

    /// An NVIDIA B200: a thread block for each of its 148 multiprocessors.
    pub const B200: Self = Self { name: "a B200", max_blocks: 148, max_threads: 1024, ..Self::UNLIMITED };

    /// Returns the profile with a device's name, in any case: `a100`, `h100`, `h200`, `b200`, `mscclpp` for the
    /// reference executor.
    pub fn find(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "a100" => Some(Self::A100),
            "h100" => Some(Self::H100),
            "h200" => Some(Self { name: "an H200", ..Self::H100 }),
            "b200" => Some(Self::B200),
            "mscclpp" => Some(Self::REFERENCE),
            _ => None,
        }
    }
}

/// Returns the limits of a device that a plan exceeds, with numbers. The plan should be one that
/// [`check`](super::check) accepts; for others the findings are unspecified, but there is no panic.
pub fn check_limits(plan: &PlanTree, profile: &DeviceProfile) -> Diagnostics {
    let mut found = Findings { plan, profile, list: Diagnostics::default() };
    let threads = plan.threads_per_block;
    found.compare(
        Site::None,
        "",
        threads.into(),
        "threads in a thread block",
        profile.max_threads.into(),
        "use fewer threads per block",
    );
    let (least, help) = (plan.min_message_size, "lower the minimum of `message_size`");
    found.compare(Site::None, "", least, "bytes as the smallest message size", profile.max_min_message_size, help);
    for (number, rank) in plan.ranks.iter().enumerate() {
        found.rank(number, rank);
    }
    each(plan.into(), &mut |at| found.operation(&at));
    found.message_sizes();
    found.list
}

/// Returns the largest message, in bytes, within the limits of a device, as far as the plan's operations determine it.
pub fn max_message_size(plan: &PlanTree, profile: &DeviceProfile) -> u64 {
    let longest = longest_chunk(plan, profile);
    let largest = |rank: &RankPlan| {
        let chunks = rank.input_chunks.max(rank.output_chunks);
        if chunks == 0 { u64::MAX } else { longest.saturating_mul(u64::from(chunks)) }
    };
    plan.ranks.iter().map(largest).min().unwrap_or(u64::MAX)
}

/// Returns the bytes of the longest chunk with which scratch, offsets and iterations stay in range.
fn longest_chunk(plan: &PlanTree, most: &DeviceProfile) -> u64 {
    let halves = if plan.double_scratch { 2 } else { 1 };
    let doubled = if plan.protocol == Protocol::LL { 2 } else { 1 };
    let scratch = plan.ranks.iter().map(|rank| u64::from(rank.scratch_chunks)).max().unwrap_or(0) * doubled * halves;
    let mut longest = most.max_offset_bytes.min(most.max_scratch_bytes) / scratch.max(1);
    each(plan.into(), &mut |at| {
        accesses(plan, &at, &mut |effect| {
            let end = u64::from(effect.range.index) + u64::from(effect.range.size);
            let halves = if effect.buffer == BufferKind::Scratch { halves } else { 1 };
            let times = halves * if effect.packets { 2 } else { 1 };
            longest = longest.min(most.max_offset_bytes / (end * times).max(1));
        });
        if let Some(body) = &at.op.body {
            let bytes = most.max_iterations.saturating_mul(body.unit);
            longest = longest.min(bytes / u64::from(body.num_chunks.max(1)));
        }
    });
    longest
}

struct Findings<'a> {
    plan: &'a PlanTree,
    profile: &'a DeviceProfile,
    list: Diagnostics,
}

impl Findings<'_> {
    /// Compares a count with its limit.
    fn compare(&mut self, site: Site, who: &str, count: u64, what: &str, limit: u64, help: &str) {
        if count > limit && self.list.len() < MAX_FINDINGS {
            let message = format!("{who}{count} {what}, the limit of {} is {limit}", self.profile.name);
            self.list.push(Diagnostic::new(Code::OverLimit, site, message).help(help));
        }
    }

    fn rank(&mut self, number: usize, rank: &RankPlan) {
        let most = self.profile;
        let who = format!("rank {number} has ");
        let (site, blocks) = (Site::Path(format!("rank {number}")), rank.blocks.len());
        let help = "use fewer thread blocks or fewer instances: all thread blocks of a rank must be co-resident";
        self.compare(site, &who, blocks as u64, "thread blocks", most.max_blocks as u64, help);
        for (number_of_block, block) in rank.blocks.iter().enumerate() {
            let site = || Site::Path(format!("rank {number} / thread block {number_of_block}"));
            let who = format!("thread block {number_of_block} of rank {number} has ");
            let ops: usize = block.ops.iter().map(|op| 1 + op.body.as_ref().map_or(0, |body| body.ops.len())).sum();
            let spread = "distribute the operations over more thread blocks";
            self.compare(site(), &who, ops as u64, "operations", most.max_ops as u64, spread);
            for (kind, list) in &block.channels {
                let what = format!("{kind} channels");
                self.compare(site(), &who, list.len() as u64, &what, most.max_channels as u64, spread);
            }
            for (kind, list) in &block.remote_buffers {
                let what = format!("remote buffers over {kind} channels");
                self.compare(site(), &who, list.len() as u64, &what, most.max_remote_buffers as u64, spread);
            }
        }
    }

    fn operation(&mut self, at: &LocatedOp) {
        let (op, most) = (at.op, self.profile);
        let ids = op.ids.len() as u64;
        let list = match op.kind.ids() {
            IdList::Semaphores => (ids, "semaphores", most.max_semaphores),
            IdList::Barrier => {
                // Numbered from 0.
                let needed = op.ids.first().map_or(0, |&id| u64::from(id) + 1);
                (needed, "barriers on its rank", most.max_barriers as usize)
            }
            IdList::Nothing | IdList::Channels | IdList::ChannelPerPair | IdList::ChannelPerPortDestination => {
                (ids, "channels", most.max_channels_per_op)
            }
        };
        let (sources, destinations) = (op.srcs.len() as u64, op.dsts.len() as u64);
        let unit = op.body.as_ref().map_or(0, |body| body.unit);
        let several = "split it into several operations";
        let fewer = "use fewer distinct sets of thread blocks in barriers, or fewer instances";
        for (count, what, limit, help) in [
            (list.0, list.1, list.2 as u64, if op.kind == OpKind::Barrier { fewer } else { several }),
            (sources, "sources", most.max_operands as u64, several),
            (destinations, "destinations", most.max_operands as u64, several),
            (unit, "bytes as its unit", most.max_offset_bytes, "use a smaller unit"),
        ] {
            if count > limit {
                let who = format!("{} ({}) has ", at.display_name(self.plan), at.agent());
                self.compare(at.site(self.plan), &who, count, what, limit, help);
            }
        }
    }

    /// Checks that the plan's messages are small enough.
    fn message_sizes(&mut self) {
        let (min, max) = (self.plan.min_message_size, self.plan.max_message_size);
        let largest = max_message_size(self.plan, self.profile);
        if max == u64::MAX && min <= largest || max <= largest {
            return;
        }
        let message = format!(
            "messages of up to {} bytes, the limit of {} is {largest}: for larger messages, the size of scratch, a \
             buffer offset or the trip count of a pipeline exceeds its limit",
            if max == u64::MAX { min } else { max },
            self.profile.name
        );
        let help = format!("set the maximum of `message_size` to {largest} bytes");
        self.list.push(Diagnostic::new(Code::OverLimit, Site::None, message).help(help));
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceProfile, check_limits, max_message_size};
    use crate::testing::plan;
    use mscclpp_plan::diag::Code;
    use mscclpp_plan::raw::PlanTree;
    use mscclpp_plan::types::{ChannelKind, Protocol};

    fn messages(plan: &PlanTree, profile: &DeviceProfile) -> Vec<String> {
        let found = check_limits(plan, profile);
        assert!(found.iter().all(|finding| finding.code == Code::OverLimit && finding.help.is_some()), "{found}");
        found.iter().map(|finding| finding.message.clone()).collect()
    }

    fn reference(ops: &str) -> Vec<String> {
        messages(&plan(&[&[ops], &[""]]), &DeviceProfile::REFERENCE)
    }

    fn list(each: &str, count: usize) -> String {
        (0..count).map(|i| format!(" {each}{i}")).collect()
    }

    #[test]
    fn plan_within_the_limits_is_accepted() {
        let nops = vec!["nop"; 57].join("; ");
        let ops = format!(
            "put.m{} > {}; re{} > o0; signal.m#0,1,2,3,0,1,2,3; barrier#15=2; sem_acquire#0; loop 64x1 {{ {nops} }}",
            list("i", 10),
            list("r0:", 10),
            list("s", 10)
        );
        assert_eq!(reference(&ops), [""; 0]);
    }

    #[test]
    fn exceeded_limits_are_reported_with_numbers() {
        let (limit, signal) = ("the limit of the reference executor is", "`signal` (rank 0, thread block 0) has");
        for (ops, expected) in [
            (vec!["nop"; 65].join("; "), format!("thread block 0 of rank 0 has 65 operations, {limit} 64")),
            (format!("loop 64x1 {{ {} }}", vec!["nop"; 64].join("; ")), format!("has 65 operations, {limit} 64")),
            ("signal.m#0,1,2,3,4,5,6,7,8".to_owned(), format!("{signal} 9 channels, {limit} 8")),
            (format!("re{} > o0", list("s", 11)), format!("has 11 sources, {limit} 10")),
            (format!("put.m{0} > {1}", list("i", 11), list("r0:", 11)), format!("has 11 destinations, {limit} 10")),
            (format!("sem_acquire#{}", vec!["0"; 17].join(",")), format!("has 17 semaphores, {limit} 16")),
            ("barrier#16=2".to_owned(), format!("has 17 barriers on its rank, {limit} 16")),
            ("loop 4294967296x1 { nop }".to_owned(), format!("has 4294967296 bytes as its unit, {limit} 4294967295")),
        ] {
            let found = reference(&ops);
            assert!(found.iter().any(|message| message.contains(&expected)), "{found:?}");
        }
    }

    #[test]
    fn tables_and_the_smallest_message_have_limits_too() {
        let mut plan = plan(&[&[""], &[""]]);
        plan.ranks[0].blocks[0].channels = vec![(ChannelKind::Memory, (0..17).collect())].into();
        plan.ranks[0].blocks[0].remote_buffers = vec![(ChannelKind::Port, (0..17).collect())].into();
        (plan.min_message_size, plan.protocol) = (1 << 31, Protocol::Simple);
        assert_eq!(messages(&plan, &DeviceProfile::REFERENCE).len(), 3);
    }

    #[test]
    fn thread_blocks_must_be_co_resident() {
        let blocks = [""; 133];
        let plan = plan(&[&blocks, &blocks[..132]]);
        assert_eq!(
            messages(&plan, &DeviceProfile::H100),
            ["rank 0 has 133 thread blocks, the limit of an H100 is 132"]
        );
        assert_eq!(messages(&plan, &DeviceProfile::A100).len(), 2);
        for fits in [DeviceProfile::B200, DeviceProfile::REFERENCE, DeviceProfile::UNLIMITED] {
            assert_eq!(messages(&plan, &fits), [""; 0]);
        }
    }

    #[test]
    fn scratch_limits_the_message() {
        let mut plan = plan(&[&["copy i0 > s0"], &[""]]);
        let profile = DeviceProfile { max_scratch_bytes: 1 << 20, ..DeviceProfile::H100 };
        // 8 chunks of the message in 8 chunks of scratch, for packets.
        assert_eq!(max_message_size(&plan, &profile), 1 << 19);
        plan.double_scratch = true;
        assert_eq!(max_message_size(&plan, &profile), 1 << 18);
        plan.protocol = Protocol::Simple;
        assert_eq!(max_message_size(&plan, &profile), 1 << 19);
        assert_eq!(messages(&plan, &profile), [""; 0]);
        plan.max_message_size = 1 << 19;
        assert_eq!(messages(&plan, &profile), [""; 0]);
        plan.max_message_size += 1;
        assert!(
            messages(&plan, &profile)[0].starts_with("messages of up to 524289 bytes, the limit of an H100 is 524288")
        );
        assert_eq!(max_message_size(&plan, &DeviceProfile::UNLIMITED), u64::MAX / 16 * 8);
    }

    #[test]
    fn devices_have_names() {
        assert_eq!(
            DeviceProfile::find("H200").map(|profile| (profile.name, profile.max_blocks)),
            Some(("an H200", 132))
        );
        assert_eq!(DeviceProfile::find("mscclpp"), Some(DeviceProfile::REFERENCE));
        assert_eq!(DeviceProfile::find("abacus"), None);
    }
}
