//! Properties of an algorithm other than its function: the topologies that it supports, and its best specification.

use std::ops::RangeInclusive;

use mscclpp_core::algorithm::EmbeddedAlgorithm;
use mscclpp_core::check::Checks;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Diagnostics;
use mscclpp_core::dsl::Program;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::trace::Trace;

/// Maximum number of ranks, above that of any present machine, and the limit of the algorithms' tests. It bounds the
/// allocations that a typing error can cause.
pub const MAX_RANKS: u32 = 1024;

/// The largest value of a parameter.
pub const MAX_ARGUMENT: usize = 1024;

/// An algorithm that comes with the library. It builds plans for any number of ranks that it supports.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinAlgorithm {
    embedded: fn() -> EmbeddedAlgorithm,
    source: &'static str,
    buffer_mode: BufferMode,
    nodes: (u32, u32),
    ranks_per_node: u32,
    any_chunk_factor: bool,
    blocks_per_peer: u32,
    multicast: bool,
    order_varies_across: Option<OrderScope>,
    params: &'static [Param],
    function: fn(&Program, &[usize]),
}

/// Whether input and output may be one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferMode {
    /// They must be.
    InPlace,
    /// They must not be.
    OutOfPlace,
    /// Either.
    Any,
}

/// What the order in which an algorithm reduces depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderScope {
    /// The element: every element is reduced once, in an order that depends on its place in the message. All ranks get the
    /// same result.
    Elements,
    /// The launch: a switch reduces in an unspecified order. All ranks get the same result.
    Launches,
    /// The rank: results differ from rank to rank.
    Ranks,
    /// The node: results differ from node to node.
    Nodes,
    /// The rank, but only as regards the first two contributions: results do not differ, because the combination of two
    /// operands is commutative.
    FirstTwo,
}

/// A parameter of an algorithm: a number that changes the plan but not what it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Values to try when tuning, the default first.
    pub values: &'static [usize],
}

/// Reasons why an algorithm cannot be built as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// It does not support this number of ranks or nodes.
    #[error("`{name}` supports 2 to {MAX_RANKS} ranks on {expected}, found {num_ranks}, {ranks_per_node} per node")]
    Topology {
        /// The algorithm.
        name: &'static str,
        /// The topologies that it supports.
        expected: String,
        /// Number of ranks.
        num_ranks: u32,
        /// Number of ranks per node.
        ranks_per_node: u32,
    },
    /// It does not work in place, or only in place.
    #[error("`{name}` supports only {} collectives; set `in_place` to {in_place}", if *in_place { "in-place" } else { "out-of-place" })]
    BufferMode {
        /// The algorithm.
        name: &'static str,
        /// The required value of `in_place`.
        in_place: bool,
    },
    /// It divides parts into another number of chunks.
    #[error("`{name}` expects a chunk factor of {expected}, found {found}")]
    ChunkFactor {
        /// The algorithm.
        name: &'static str,
        /// The chunk factor that it requires.
        expected: u32,
        /// The specification's chunk factor.
        found: u32,
    },
    /// It implements another collective.
    #[error("`{name}` is an {expected}, but the specification requests {found}")]
    Kind {
        /// The algorithm.
        name: &'static str,
        /// Its collective.
        expected: &'static str,
        /// The specification's collective.
        found: &'static str,
    },
    /// It has no such parameter.
    #[error("`{name}` has no parameter `{param}`; it has {}", if known.is_empty() { "none" } else { known })]
    UnknownParam {
        /// The algorithm.
        name: &'static str,
        /// The given name.
        param: String,
        /// The names of its parameters.
        known: String,
    },
    /// A parameter is 0 or too large, or there are more or fewer parameters than the algorithm has.
    #[error("`{name}` expects {expected} parameters of 1 to {MAX_ARGUMENT}, found {found:?}")]
    Params {
        /// The algorithm.
        name: &'static str,
        /// Number of its parameters.
        expected: usize,
        /// The given values.
        found: Vec<usize>,
    },
    /// The program is invalid: the algorithm cannot be built with the given specification.
    #[error(transparent)]
    Program(#[from] Diagnostics),
}

impl BuiltinAlgorithm {
    /// Creates the entry of an algorithm for one node of two ranks or more, in place or not, without parameters.
    /// `source` is the text of its file.
    pub(crate) const fn new(
        embedded: fn() -> EmbeddedAlgorithm,
        source: &'static str,
        function: fn(&Program, &[usize]),
    ) -> Self {
        Self {
            embedded,
            source,
            buffer_mode: BufferMode::Any,
            nodes: (1, 1),
            ranks_per_node: 1,
            any_chunk_factor: false,
            blocks_per_peer: 0,
            multicast: false,
            order_varies_across: Some(OrderScope::Elements),
            params: &[],
            function,
        }
    }

    pub(crate) const fn with_buffer_mode(mut self, placement: BufferMode) -> Self {
        self.buffer_mode = placement;
        self
    }

    /// Sets the supported nodes: `min..=max` nodes of `ranks_per_node` ranks or more.
    pub(crate) const fn nodes(mut self, min: u32, max: u32, ranks_per_node: u32) -> Self {
        self.nodes = (min, max);
        self.ranks_per_node = ranks_per_node;
        self
    }

    /// Allows any chunk factor, not only the default one.
    pub(crate) const fn any_chunk_factor(mut self) -> Self {
        self.any_chunk_factor = true;
        self
    }

    /// Records that the algorithm has this number of thread blocks for each peer, which are multiplied.
    pub(crate) const fn blocks_per_peer(mut self, count: u32) -> Self {
        self.blocks_per_peer = count;
        self
    }

    /// Records that the algorithm uses switch channels.
    pub(crate) const fn multicast(mut self) -> Self {
        self.multicast = true;
        self
    }

    /// Records what the order in which the algorithm reduces depends on: the element, unless set.
    pub(crate) const fn in_order(mut self, scope: OrderScope) -> Self {
        self.order_varies_across = Some(scope);
        self
    }

    /// Records that the algorithm reduces every element in the order of ranks, in one operation.
    pub(crate) const fn in_rank_order(mut self) -> Self {
        self.order_varies_across = None;
        self
    }

    pub(crate) const fn with_params(mut self, params: &'static [Param]) -> Self {
        self.params = params;
        self
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        (self.embedded)().name()
    }

    /// Returns steps, data sent and scratch, in a sentence or two: the first lines of its file. The [module](super)
    /// defines the letters.
    pub fn cost(&self) -> String {
        let lines: Vec<_> = self.source.lines().map_while(|line| line.strip_prefix("//! ")).collect();
        lines.join(" ")
    }

    /// Returns the text of its file.
    #[doc(hidden)]
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// Returns the collective that it implements.
    pub fn kind(&self) -> CollectiveKind {
        self.spec(2, 2).collective.kind
    }

    /// Returns whether it works in place, out of place or both.
    #[doc(hidden)]
    pub fn buffer_mode(&self) -> BufferMode {
        self.buffer_mode
    }

    /// Returns its parameters.
    #[doc(hidden)]
    pub fn params(&self) -> &'static [Param] {
        self.params
    }

    /// Returns the minimum and maximum number of nodes.
    #[doc(hidden)]
    pub fn num_nodes(&self) -> RangeInclusive<u32> {
        let (min, max) = self.nodes;
        min..=max
    }

    /// Returns whether its cost is as stated only with multicast hardware: without it, its plans read and write the
    /// ranks' memories one by one, and the default rules do not select them.
    #[doc(hidden)]
    pub fn needs_multicast(&self) -> bool {
        self.multicast
    }

    /// Returns what the order of reduction depends on, so that rounded results may differ in the last bit; `None` if every
    /// element is reduced in the order of ranks, by one operation that rounds once if its accumulators are wider.
    #[doc(hidden)]
    pub fn order_varies_across(&self) -> Option<OrderScope> {
        self.order_varies_across
    }

    /// Returns whether it supports a number of ranks with this number of ranks per node.
    pub fn supports(&self, num_ranks: u32, ranks_per_node: u32) -> bool {
        let divides = ranks_per_node > 0 && num_ranks.is_multiple_of(ranks_per_node);
        (2..=MAX_RANKS).contains(&num_ranks)
            && divides
            && self.num_nodes().contains(&(num_ranks / ranks_per_node))
            && ranks_per_node >= self.ranks_per_node
    }

    /// Returns the largest node size that divides `num_ranks` and is supported; `None` if no topology of this number of
    /// ranks is.
    #[doc(hidden)]
    pub fn ranks_per_node(&self, num_ranks: u32) -> Option<u32> {
        (1..=num_ranks.min(MAX_RANKS)).rev().find(|&ranks_per_node| self.supports(num_ranks, ranks_per_node))
    }

    /// Returns the topologies that it supports, in words: `1 node`, `2 nodes or more`.
    #[doc(hidden)]
    pub fn requirement(&self) -> String {
        let nodes = match self.nodes {
            (1, 1) => "1 node".to_owned(),
            (1, u32::MAX) => "any number of nodes".to_owned(),
            (min, u32::MAX) => format!("at least {min} nodes"),
            (min, max) if min == max => format!("{min} nodes"),
            (min, max) => format!("{min} to {max} nodes"),
        };
        match self.ranks_per_node {
            1 => nodes,
            min => format!("{nodes} with at least {min} ranks each"),
        }
    }

    /// Returns the best specification for a number of ranks with this number of ranks per node. Everything may be
    /// changed except the collective's kind and chunk factor, and `in_place` where [`buffer_mode`](Self::buffer_mode)
    /// leaves no choice.
    pub fn spec(&self, num_ranks: u32, ranks_per_node: u32) -> AlgoSpec {
        AlgoSpec { ranks_per_node, ..(self.embedded)().spec(num_ranks, &self.default_arguments()) }
    }

    /// Returns the number of thread blocks that process each part of the data under a specification with default
    /// parameters: chunks per part where the algorithm assigns a block to each chunk, otherwise members of its groups,
    /// otherwise instances.
    #[doc(hidden)]
    pub fn num_parallel_blocks(&self, spec: &AlgoSpec) -> u32 {
        match self.params {
            _ if self.any_chunk_factor => spec.collective.chunk_factor,
            [group] => group.values.first().map_or(1, |&value| value as u32),
            _ => spec.instances,
        }
    }

    /// Returns the maximum number of [parallel blocks](Self::num_parallel_blocks) with which a rank has at most `blocks`
    /// thread blocks for its transfers; at least 1.
    #[doc(hidden)]
    pub fn max_parallel_blocks(&self, num_ranks: u32, blocks: u32) -> u32 {
        let of_one = self.blocks_per_peer.saturating_mul(num_ranks.saturating_sub(1));
        (blocks / of_one.max(1)).max(1)
    }

    /// Returns a specification with another number of [parallel blocks](Self::num_parallel_blocks), and the arguments for it.
    #[doc(hidden)]
    pub fn with_parallel_blocks(&self, mut spec: AlgoSpec, blocks: u32) -> (AlgoSpec, Vec<usize>) {
        let mut arguments: Vec<_> = self.default_arguments().into_iter().map(|argument| argument as usize).collect();
        if self.any_chunk_factor {
            spec.collective.chunk_factor = blocks;
        } else if let [group] = arguments.as_mut_slice() {
            *group = blocks as usize;
        } else {
            spec.instances = blocks;
        }
        (spec, arguments)
    }

    /// Returns the plans embedded in the library, which were built and checked while it was compiled.
    pub fn plans(&self) -> &'static [Plan] {
        (self.embedded)().plans()
    }

    /// Returns the plan of a specification: an embedded one if there is one, otherwise a new one, built by
    /// [`compile_tree`](Self::compile_tree).
    ///
    /// # Errors
    /// Those of [`compile_tree`](Self::compile_tree).
    pub fn plan(&self, spec: AlgoSpec, arguments: &[usize]) -> Result<Plan, BuildError> {
        let embedded = (self.embedded)();
        let given: Vec<_> = arguments.iter().map(|&argument| argument as i128).collect();
        let is_embedded = given == self.default_arguments() && spec == embedded.spec(spec.num_ranks, &given);
        match embedded.plans().iter().find(|plan| is_embedded && plan.num_ranks() == spec.num_ranks) {
            Some(plan) => Ok(plan.clone()),
            None => self.compile_tree(spec, arguments).map(|tree| Plan::new(&tree)),
        }
    }

    fn default_arguments(&self) -> Vec<i128> {
        self.params.iter().map(|param| param.values.first().map_or(1, |&value| value as i128)).collect()
    }

    /// Returns the default values of the parameters, with some replaced by name.
    ///
    /// # Errors
    /// [`BuildError::UnknownParam`].
    #[doc(hidden)]
    pub fn arguments<'a>(&self, given: impl IntoIterator<Item = (&'a str, usize)>) -> Result<Vec<usize>, BuildError> {
        let mut values: Vec<_> = self.params.iter().map(|param| param.values.first().copied().unwrap_or(1)).collect();
        for (name, value) in given {
            let position = self.params.iter().position(|param| param.name == name).ok_or_else(|| {
                let known: Vec<_> = self.params.iter().map(|param| param.name).collect();
                BuildError::UnknownParam { name: self.name(), param: name.to_owned(), known: known.join(", ") }
            })?;
            values[position] = value;
        }
        Ok(values)
    }

    /// Records the program. `arguments` are the values of the parameters, in order.
    ///
    /// # Errors
    /// A specification or arguments that the algorithm does not support; errors in the specification itself.
    #[doc(hidden)]
    pub fn record(&self, spec: AlgoSpec, arguments: &[usize]) -> Result<Trace, BuildError> {
        Ok(self.program(spec, arguments)?.finish()?)
    }

    /// Builds the plan and checks it.
    ///
    /// # Cost
    /// Linear in the number of operations; nothing is cached.
    ///
    /// # Errors
    /// Those of [`record`](Self::record), of lowering and of the checks.
    #[doc(hidden)]
    pub fn compile_tree(&self, spec: AlgoSpec, arguments: &[usize]) -> Result<PlanTree, BuildError> {
        Ok(mscclpp_core::compile_tree(self.program(spec, arguments)?, &Checks::default())?)
    }

    fn program(&self, spec: AlgoSpec, arguments: &[usize]) -> Result<Program, BuildError> {
        self.check(&spec, arguments)?;
        let program = Program::new(spec);
        (self.function)(&program, arguments);
        Ok(program)
    }

    fn check(&self, spec: &AlgoSpec, arguments: &[usize]) -> Result<(), BuildError> {
        let name = self.name();
        let AlgoSpec { num_ranks: ranks, ranks_per_node, collective, .. } = *spec;
        if collective.kind != self.kind() {
            return Err(BuildError::Kind { name, expected: self.kind().name(), found: collective.kind.name() });
        }
        if !self.supports(ranks, ranks_per_node) {
            return Err(BuildError::Topology { name, expected: self.requirement(), num_ranks: ranks, ranks_per_node });
        }
        match (self.buffer_mode, collective.in_place) {
            (BufferMode::InPlace, false) => return Err(BuildError::BufferMode { name, in_place: true }),
            (BufferMode::OutOfPlace, true) => return Err(BuildError::BufferMode { name, in_place: false }),
            _ => {}
        }
        let expected = self.spec(ranks, ranks_per_node).collective.chunk_factor;
        if collective.chunk_factor != expected && !self.any_chunk_factor {
            return Err(BuildError::ChunkFactor { name, expected, found: collective.chunk_factor });
        }
        if arguments.len() != self.params.len() || !arguments.iter().all(|value| (1..=MAX_ARGUMENT).contains(value)) {
            return Err(BuildError::Params { name, expected: self.params.len(), found: arguments.to_vec() });
        }
        Ok(())
    }
}
