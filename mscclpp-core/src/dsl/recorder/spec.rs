//! Checks of the specification.

use super::Recorder;
use crate::collective::CollectiveKind;
use crate::diag::{Code, Site};
use crate::types::Replication;

/// More ranks than any machine has; limits what a typing error can allocate.
pub(in crate::dsl) const MAX_RANKS: u32 = 1 << 16;

impl Recorder {
    /// Checks the specification; returns the chunk counts of input and output if the program can be recorded at all.
    pub(super) fn check_spec(&mut self) -> Option<(u32, u32)> {
        let spec = &self.trace.spec;
        if spec.num_ranks == 0 {
            self.file_at(at("ranks"), Code::NoRanks, "expected at least 1 rank, found 0", "write `ranks = 2`");
            return None;
        }
        let mut wrong = Vec::new();
        let collective = spec.collective;
        expect(&mut wrong, "ranks", spec.num_ranks <= MAX_RANKS, || {
            (
                format!("expected at most {MAX_RANKS} ranks, found {}", spec.num_ranks),
                format!("write `ranks = {MAX_RANKS}` or less"),
            )
        });
        expect(&mut wrong, "collective.chunk_factor", collective.chunk_factor >= 1, || {
            ("expected a chunk factor of at least 1, found 0".into(), "write `chunk_factor = 1`".into())
        });
        expect(&mut wrong, "collective.root", collective.root < spec.num_ranks, || {
            (format!("expected a root in 0..{}, found {}", spec.num_ranks, collective.root), "write `root = 0`".into())
        });
        expect(
            &mut wrong,
            "collective.root",
            collective.root == 0 || matches!(collective.kind, CollectiveKind::Broadcast | CollectiveKind::Reduce),
            || {
                (
                    format!("a {} has no root, found root = {}", collective.kind.name(), collective.root),
                    "remove `root`".into(),
                )
            },
        );
        expect(&mut wrong, "instances", spec.instances >= 1, || {
            ("expected at least 1 instance, found 0".into(), "write `instances = 1`".into())
        });
        expect(&mut wrong, "replication", spec.instances <= 1 || spec.replication != Replication::None, || {
            (
                format!("`replication = none` requires 1 instance, found instances = {}", spec.instances),
                "remove `replication`, or write `instances = 1`".into(),
            )
        });
        expect(&mut wrong, "threads_per_block", (1..=1024).contains(&spec.threads_per_block), || {
            (
                format!("expected 1 to 1024 threads per block, found {}", spec.threads_per_block),
                "write `threads_per_block = 1024`".into(),
            )
        });
        expect(&mut wrong, "buffer_alignment", spec.buffer_alignment.is_power_of_two(), || {
            (
                format!("expected a buffer alignment that is a power of two, found {} bytes", spec.buffer_alignment),
                "write `buffer_alignment = 16`".into(),
            )
        });
        expect(&mut wrong, "min_message_size", spec.min_message_size <= spec.max_message_size, || {
            (
                format!(
                    "the minimum message size is larger than the maximum: {} > {} bytes",
                    spec.min_message_size, spec.max_message_size
                ),
                "swap the two ends of `message_size`".into(),
            )
        });
        expect(
            &mut wrong,
            "ranks_per_node",
            spec.ranks_per_node >= 1 && spec.num_ranks.is_multiple_of(spec.ranks_per_node),
            || {
                (
                    format!(
                        "expected `ranks_per_node` to divide {} ranks, found {}",
                        spec.num_ranks, spec.ranks_per_node
                    ),
                    format!("write `ranks_per_node = {}`", spec.num_ranks),
                )
            },
        );
        let chunks = collective.chunks(spec.num_ranks);
        let replicated = chunks.and_then(|(input, output)| input.max(output).checked_mul(spec.instances.max(1)));
        let recordable = spec.num_ranks <= MAX_RANKS && collective.chunk_factor >= 1 && replicated.is_some();
        let too_many = replicated.is_none().then(|| {
            format!(
                "{} ranks × chunk factor {} × {} instances are more than 2^32 - 1 chunks",
                spec.num_ranks, collective.chunk_factor, spec.instances
            )
        });
        for (field, message, help) in wrong {
            self.file_at(at(field), Code::BadSpecification, message, help);
        }
        if let Some(message) = too_many {
            let help = "use a smaller `chunk_factor`";
            self.file_at(at("collective.chunk_factor"), Code::TooLarge, message, help);
        }
        chunks.filter(|_| recordable)
    }
}

/// Reports a finding about a field of the specification unless a condition holds: field, message, help.
fn expect(
    wrong: &mut Vec<(&'static str, String, String)>,
    field: &'static str,
    holds: bool,
    describe: impl FnOnce() -> (String, String),
) {
    if !holds {
        let (message, help) = describe();
        wrong.push((field, message, help));
    }
}

/// Returns the location of a finding about a field of the specification. The attribute finds its argument by the
/// field's name.
fn at(field: &str) -> Site {
    Site::Path(format!("spec.{field}"))
}
