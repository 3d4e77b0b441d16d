//! Entries of a tuning table.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::choice::{Choice, Config};
use crate::request::{Backend, CALLS, Request};
use mscclpp_base::dtype::DataType;

/// The fastest candidate for a kind of request of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningEntry {
    /// The collective.
    #[serde(serialize_with = "write_collective", deserialize_with = "read_collective")]
    pub collective: CollectiveKind,
    /// The backend of the measurement.
    #[serde(serialize_with = "write_backend", deserialize_with = "read_backend")]
    pub backend: Backend,
    /// Number of ranks.
    #[serde(rename = "ranks")]
    pub num_ranks: u32,
    /// Number of ranks per node.
    pub ranks_per_node: u32,
    /// Type of the elements.
    #[serde(serialize_with = "write_dtype", deserialize_with = "read_dtype")]
    pub dtype: DataType,
    /// The reduction; `None` if the collective does not reduce.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_op",
        deserialize_with = "read_op"
    )]
    pub op: Option<ReduceOp>,
    /// Whether input and output were one buffer.
    pub in_place: bool,
    /// Whether the buffers were registered.
    pub registered: bool,
    /// Bytes of the larger of a rank's input and output: a power of two.
    pub bytes: u64,
    /// The fastest candidate.
    pub fastest: CandidateTime,
    /// All other candidates, the fastest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<CandidateTime>,
}

impl TuningEntry {
    /// Creates an entry from the fastest candidate for a request, and all others, the fastest first.
    pub fn new(request: &Request, fastest: CandidateTime, others: Vec<CandidateTime>) -> Self {
        let &Request {
            collective,
            backend,
            num_ranks: ranks,
            ranks_per_node,
            dtype,
            op,
            in_place,
            registered,
            bytes,
            ..
        } = request;
        Self {
            collective,
            backend,
            num_ranks: ranks,
            ranks_per_node,
            dtype,
            op,
            in_place,
            registered,
            bytes,
            fastest,
            others,
        }
    }
}

/// A candidate and its duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateTime {
    /// The algorithm.
    pub algorithm: String,
    /// Its thread blocks; `None` for the usual number.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read_blocks")]
    pub blocks: Option<u32>,
    /// Its CUDA threads per thread block; `None` for its own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Microseconds of a call, averaged over the ranks.
    pub time_us: f64,
}

impl CandidateTime {
    /// Returns the candidate.
    pub fn choice(&self) -> Choice {
        Choice { name: self.algorithm.clone(), config: Config { blocks: self.blocks, threads: self.threads } }
    }
}

impl TuningEntry {
    /// Returns whether the entry applies to requests like this one, regardless of their size, type and reduction.
    pub(super) fn is_like(&self, request: &Request) -> bool {
        self.collective == request.collective
            && self.backend == request.backend
            && self.num_ranks == request.num_ranks
            && self.ranks_per_node == request.ranks_per_node
            && self.in_place == request.in_place
            // On devices the times are those of launches, whatever is copied before and after them.
            && (self.registered == request.registered || self.backend == Backend::Cuda)
    }
}

/// Accepts only numbers of blocks with which algorithms are built, because a plan allocates memory for each block.
fn read_blocks<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<u32>, D::Error> {
    let blocks = u32::deserialize(reader)?;
    if (1..=Config::MAX_BLOCKS).contains(&blocks) {
        return Ok(Some(blocks));
    }
    Err(D::Error::custom(format!("expected 1 to {} blocks, found {blocks}", Config::MAX_BLOCKS)))
}

fn named<'de, D: Deserializer<'de>, T>(
    reader: D,
    what: &str,
    find: impl Fn(&str) -> Option<T>,
    known: impl FnOnce() -> String,
) -> Result<T, D::Error> {
    let name = String::deserialize(reader)?;
    find(&name).ok_or_else(|| D::Error::custom(format!("expected a {what} (one of {}), found `{name}`", known())))
}

fn write_collective<S: Serializer>(kind: &CollectiveKind, writer: S) -> Result<S::Ok, S::Error> {
    writer.serialize_str(kind.name())
}

fn read_collective<'de, D: Deserializer<'de>>(reader: D) -> Result<CollectiveKind, D::Error> {
    let kinds = CALLS.map(|(_, kind)| kind);
    let find = |name: &str| kinds.into_iter().find(|kind| kind.name() == name);
    named(reader, "collective", find, || kinds.map(CollectiveKind::name).join(", "))
}

fn write_backend<S: Serializer>(backend: &Backend, writer: S) -> Result<S::Ok, S::Error> {
    writer.serialize_str(backend.name())
}

fn read_backend<'de, D: Deserializer<'de>>(reader: D) -> Result<Backend, D::Error> {
    named(reader, "backend", Backend::from_name, || "cpu, cuda".to_owned())
}

fn write_dtype<S: Serializer>(dtype: &DataType, writer: S) -> Result<S::Ok, S::Error> {
    writer.serialize_str(dtype.name())
}

fn read_dtype<'de, D: Deserializer<'de>>(reader: D) -> Result<DataType, D::Error> {
    let known = || DataType::ALL.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ");
    named(reader, "data type", DataType::from_name, known)
}

fn write_op<S: Serializer>(op: &Option<ReduceOp>, writer: S) -> Result<S::Ok, S::Error> {
    writer.serialize_str(op.unwrap_or_default().name())
}

fn read_op<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<ReduceOp>, D::Error> {
    named(reader, "reduction", ReduceOp::from_name, || ReduceOp::ALL.map(ReduceOp::name).join(", ")).map(Some)
}
