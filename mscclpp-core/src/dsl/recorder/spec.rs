//! Checks of the specification.

use super::Recorder;
use crate::collective::CollectiveKind;
use crate::diag::{Code, Site};
use crate::vocab::Replication;

/// More ranks than any machine has; bounds what a typing error can allocate.
const MAX_RANKS: u32 = 1 << 16;

impl Recorder {
    /// Checks the specification; returns the chunk counts of input and output if the program can be recorded at all.
    pub(super) fn check_spec(&mut self) -> Option<(u32, u32)> {
        let spec = self.trace.spec.clone();
        if spec.ranks == 0 {
            self.file_at(at("ranks"), Code::NoRanks, "expected 1 rank or more, found 0", "write `ranks = 2`");
            return None;
        }
        let mut wrong = Vec::new();
        let mut expect = |field, holds: bool, message: String, help: String| {
            if !holds {
                wrong.push((field, message, help));
            }
        };
        let collective = spec.collective;
        expect(
            "ranks",
            spec.ranks <= MAX_RANKS,
            format!("expected at most {MAX_RANKS} ranks, found {}", spec.ranks),
            format!("write `ranks = {MAX_RANKS}` or less"),
        );
        expect(
            "collective.chunk_factor",
            collective.chunk_factor >= 1,
            "expected a chunk factor of 1 or more, found 0".into(),
            "write `chunk_factor = 1`".into(),
        );
        expect(
            "collective.root",
            collective.root < spec.ranks,
            format!("expected a root in 0..{}, found {}", spec.ranks, collective.root),
            "write `root = 0`".into(),
        );
        expect(
            "collective.root",
            collective.root == 0 || matches!(collective.kind, CollectiveKind::Broadcast | CollectiveKind::Reduce),
            format!("a {} has no root, found root = {}", collective.kind.name(), collective.root),
            "leave `root` out".into(),
        );
        expect(
            "instances",
            spec.instances >= 1,
            "expected 1 instance or more, found 0".into(),
            "write `instances = 1`".into(),
        );
        expect(
            "replication",
            spec.instances <= 1 || spec.replication != Replication::None,
            format!("`replication = none` makes 1 instance, found instances = {}", spec.instances),
            "leave `replication` out, or write `instances = 1`".into(),
        );
        expect(
            "threads_per_block",
            (1..=1024).contains(&spec.threads_per_block),
            format!("expected 1 to 1024 threads per block, found {}", spec.threads_per_block),
            "write `threads_per_block = 1024`".into(),
        );
        expect(
            "buffer_alignment",
            spec.buffer_alignment.is_power_of_two(),
            format!("expected a buffer alignment that is a power of two, found {} bytes", spec.buffer_alignment),
            "write `buffer_alignment = 16`".into(),
        );
        expect(
            "min_message_size",
            spec.min_message_size <= spec.max_message_size,
            format!(
                "the smallest message is larger than the largest: {} > {} bytes",
                spec.min_message_size, spec.max_message_size
            ),
            "swap the two ends of `message_size`".into(),
        );
        expect(
            "ranks_per_node",
            spec.ranks_per_node >= 1 && spec.ranks.is_multiple_of(spec.ranks_per_node),
            format!("expected ranks per node that divide {} ranks, found {}", spec.ranks, spec.ranks_per_node),
            format!("write `ranks_per_node = {}`", spec.ranks),
        );
        let chunks = collective.chunks(spec.ranks);
        let replicated = chunks.and_then(|(input, output)| input.max(output).checked_mul(spec.instances.max(1)));
        let recordable = spec.ranks <= MAX_RANKS && collective.chunk_factor >= 1 && replicated.is_some();
        for (field, message, help) in wrong {
            self.file_at(at(field), Code::BadSpec, message, help);
        }
        if replicated.is_none() {
            self.file_at(
                at("collective.chunk_factor"),
                Code::TooLarge,
                format!(
                    "{} ranks × chunk factor {} × {} instances are more than 2^32 - 1 chunks",
                    spec.ranks, collective.chunk_factor, spec.instances
                ),
                "use a smaller `chunk_factor`",
            );
        }
        chunks.filter(|_| recordable)
    }
}

/// Where a finding about a field of the specification points. The attribute finds its argument by the field's name.
fn at(field: &str) -> Site {
    Site::Path(format!("spec.{field}"))
}
