//! Sums over all ranks, and rows of all ranks, that are normalized in the same launch.
//!
//! Every algorithm adds in the order of ranks, and a norm depends on nothing but its row: so a row has the same bits in
//! every call, whatever the number of rows, and the algorithm that serves the call.

#[cfg(feature = "cuda")]
use std::panic::Location;
use std::sync::Arc;

use mscclpp_algorithms::{self as algorithms, BuiltinAlgorithm};
use mscclpp_base::dtype::{DataType, Element};
use mscclpp_base::error::Error;
use mscclpp_base::interpret::RowNorm;
use mscclpp_base::message::Message;
use mscclpp_base::numeric::AccumType;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Diagnostics;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_exec::process::PreparedPlan;
use mscclpp_select::{Backend, Request};

use super::cache::Cache;
use super::handle::Communicator;
use crate::metrics::CallCounters;

/// Number of the types in which rows are added, and maximum elements of a row: the two are one number, of 31 bits.
const ACCUMULATORS: u32 = AccumType::F64 as u32 + 1;
const MAX_HIDDEN: u32 = i32::MAX as u32 / ACCUMULATORS - 1;

/// Plans that normalize rows, by elements of a row, accumulator and request.
pub(super) type NormPlans = Cache<(Box<PreparedPlan>, Arc<CallCounters>)>;

/// Maximum bytes of a message that every rank of devices sends whole, and of that times the number of ranks.
const ONE_SHOT_BYTES: (u64, u64) = (64 << 10, 128 << 10);

/// Maximum bytes that a rank on the CPU reads from its peers, which save it two handshakes: of a type whose elements are added in
/// vector registers, and of narrower ones, which each rank would convert anew.
const PULL_BYTES: (u64, u64) = (1 << 20, 64 << 10);

/// Maximum bytes of an output that is gathered as packets.
const GATHER_PACKET_BYTES: u64 = 64 << 10;

/// What the buffers of a call are.
enum Buffers<'a, T> {
    Separate(&'a [T], &'a mut [T]),
    Same(&'a mut [T]),
}

impl Communicator {
    /// Adds the inputs of all ranks and the residual, row by row, and writes the normalized rows to `output`, which is as long
    /// as `input`. A row has `hidden` elements; its bytes are a multiple of 16. `norm` has the residual, gamma, and what
    /// else is written: the sums with the residual, and quantized rows. It may also add without normalizing.
    ///
    /// A row gets the same bits on every rank, in every call, and at any number of rows. The arithmetic is stated in the documentation
    /// ("Fused epilogues"). All ranks of the communicator are on one node.
    ///
    /// # Errors
    /// See [`Communicator`]; [`Error::Rows`].
    #[track_caller]
    pub fn all_reduce_rms_norm<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        hidden: usize,
        norm: RowNorm<'_, T>,
    ) -> Result<(), Error> {
        self.norm_rows(CollectiveKind::AllReduce, Buffers::Separate(input, output), hidden, norm)
    }

    /// [`all_reduce_rms_norm`](Self::all_reduce_rms_norm) with one memory for input and output.
    ///
    /// # Errors
    /// As [`all_reduce_rms_norm`](Self::all_reduce_rms_norm).
    #[track_caller]
    pub fn all_reduce_rms_norm_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        hidden: usize,
        norm: RowNorm<'_, T>,
    ) -> Result<(), Error> {
        self.norm_rows(CollectiveKind::AllReduce, Buffers::Same(buffer), hidden, norm)
    }

    /// Adds the rows of all ranks' inputs, of which each rank has a part of equally many rows, and writes this rank's part
    /// to `output` as [`all_reduce_rms_norm`](Self::all_reduce_rms_norm) does. The operands of `norm` have a row for each row
    /// of `output`.
    ///
    /// # Errors
    /// As [`all_reduce_rms_norm`](Self::all_reduce_rms_norm).
    #[track_caller]
    pub fn reduce_scatter_rms_norm<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        hidden: usize,
        norm: RowNorm<'_, T>,
    ) -> Result<(), Error> {
        self.norm_rows(CollectiveKind::ReduceScatter, Buffers::Separate(input, output), hidden, norm)
    }

    /// Adds the residual to this rank's rows, `input`, normalizes them as [`all_reduce_rms_norm`](Self::all_reduce_rms_norm) does, and
    /// writes the normalized rows of all ranks to `output`, in the order of ranks: it is as long as all inputs together. The
    /// operands of `norm` have a row for each row of `input`: in sequence parallelism each rank has the residual of its rows only.
    ///
    /// The rows that other ranks receive are those of the output. Sums, quantized rows and scales are written for this rank's
    /// rows only.
    ///
    /// # Errors
    /// As [`all_reduce_rms_norm`](Self::all_reduce_rms_norm).
    #[track_caller]
    pub fn all_gather_rms_norm<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        hidden: usize,
        norm: RowNorm<'_, T>,
    ) -> Result<(), Error> {
        self.norm_rows(CollectiveKind::AllGather, Buffers::Separate(input, output), hidden, norm)
    }

    /// [`all_gather_rms_norm`](Self::all_gather_rms_norm) with one memory for input and output: rank r has its rows in part r of
    /// `buffer`.
    ///
    /// # Errors
    /// As [`all_reduce_rms_norm`](Self::all_reduce_rms_norm).
    #[track_caller]
    pub fn all_gather_rms_norm_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        hidden: usize,
        norm: RowNorm<'_, T>,
    ) -> Result<(), Error> {
        self.norm_rows(CollectiveKind::AllGather, Buffers::Same(buffer), hidden, norm)
    }

    #[track_caller]
    fn norm_rows<T: Element>(
        &self,
        collective: CollectiveKind,
        buffers: Buffers<'_, T>,
        hidden: usize,
        norm: RowNorm<'_, T>,
    ) -> Result<(), Error> {
        let (input, output) = match &buffers {
            Buffers::Separate(input, output) => (Some(input.len()), output.len()),
            Buffers::Same(buffer) => (None, buffer.len()),
        };
        let (count, row) = Lengths { input, output, hidden }.check(collective, self.rank(), self.num_ranks())?;
        let (call, accumulate, form) = (call_of(collective), self.row_accumulator, norm.form());
        let request = self.request::<T>(collective, count);
        let request = Request { in_place: matches!(buffers, Buffers::Same(_)), ..request };
        let mut calls = self.calls()?;
        #[cfg(feature = "cuda")]
        let place = Location::caller();
        self.record(&mut calls, Some(request), |calls| {
            #[cfg(feature = "cuda")]
            calls.devices.post_of_host(Some(&request), place)?;
            let no_plan = |message| Error::NoPlan { rank: self.rank(), request: self.describe(&request), message };
            let prepare = || {
                self.registry()?;
                no_plan_between_nodes(self, &request)?;
                // A rank executes its thread blocks one after the other.
                let Choice { algorithm, plan } = choose(&request, 1, 1).map_err(no_plan)?;
                let algorithm = algorithm.map_or("local", BuiltinAlgorithm::name);
                let dtype = self.element_type(T::TYPE);
                let name = format!("{call} of {count} {dtype} in rows of {hidden}, {form}");
                let message =
                    Message { row: hidden as u64, packet: self.packet, accumulate, ..Message::of::<T>(count) };
                let plan = self.executor()?.prepare_as(&plan, message, Some((&name, request.element_type())))?;
                Ok::<_, Error>((Box::new(plan), self.inner.observed.counters.of_calls(call, algorithm)))
            };
            // Ranks whose forms differ prepare plans of other names, which is an error on all ranks.
            let variant = u64::from(variant(row, accumulate)) | u64::from(form.number()) << 32;
            let (plan, counters) = calls.norms.get(&(variant, request), prepare, drop)?;
            let started = counters.start();
            match buffers {
                Buffers::Separate(input, output) => plan.launch_rows(input, output, norm)?,
                Buffers::Same(buffer) => plan.launch_rows_in_place(buffer, norm)?,
            }
            counters.record(request.bytes, started, plan.last_duration());
            Ok(())
        })
    }
}

/// Returns the number of plans for rows of `hidden` elements, which are added in a type.
pub(super) fn variant(hidden: u32, accumulate: AccumType) -> u32 {
    hidden * ACCUMULATORS + accumulate as u32
}

/// Returns the name of the call.
pub(super) fn call_of(collective: CollectiveKind) -> &'static str {
    match collective {
        CollectiveKind::ReduceScatter => "reduce_scatter_rms_norm",
        CollectiveKind::AllGather => "all_gather_rms_norm",
        _ => "all_reduce_rms_norm",
    }
}

/// Numbers of elements of a call's buffers; in place, of the output alone.
pub(super) struct Lengths {
    pub(super) input: Option<usize>,
    pub(super) output: usize,
    pub(super) hidden: usize,
}

impl Lengths {
    /// Returns the elements of the message, and those of a row.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub(super) fn check(&self, collective: CollectiveKind, rank: u32, ranks: u32) -> Result<(usize, u32), Error> {
        let &Self { input, output, hidden } = self;
        let length = |what, expected, found| Error::Length { call: call_of(collective), rank, what, expected, found };
        let ranks = ranks as usize;
        // The larger of the two buffers, which has a part of whole rows for each rank if the other one has a part.
        let (count, parts) = match (collective, input) {
            (CollectiveKind::AllGather, _) => (output, ranks),
            (CollectiveKind::ReduceScatter, _) => (input.unwrap_or(output), ranks),
            _ => (input.unwrap_or(output), 1),
        };
        if let Some(input) = input {
            let (fits, expected) = match collective {
                CollectiveKind::AllGather => (
                    input.checked_mul(ranks) == Some(output),
                    format!("{ranks} times {input}, the length of the input"),
                ),
                CollectiveKind::ReduceScatter => {
                    let expected = format!("the length {input} of the input divided by {ranks}");
                    (output.checked_mul(ranks) == Some(input), expected)
                }
                _ => (input == output, format!("{input}, the length of the input")),
            };
            if !fits {
                return Err(length("the output", expected, output));
            }
        }
        let what = if input.is_some() { "the input" } else { "the buffer" };
        let in_buffer = input.unwrap_or(output);
        // In place the buffer has the parts of all ranks; otherwise the lengths have been compared.
        let unit = hidden.saturating_mul(if input.is_none() { parts } else { 1 });
        if hidden == 0 || !in_buffer.is_multiple_of(unit) {
            let parts = if unit == hidden { String::new() } else { format!(" times {parts} ranks") };
            let expected = format!("a multiple of {hidden}, the elements of a row, which is positive{parts}");
            return Err(length(what, expected, in_buffer));
        }
        match u32::try_from(hidden) {
            Ok(row) if row <= MAX_HIDDEN => Ok((count, row)),
            _ => Err(length("a row", format!("at most {MAX_HIDDEN} elements"), hidden)),
        }
    }
}

/// Rejects a request of ranks on several nodes.
pub(super) fn no_plan_between_nodes(communicator: &Communicator, request: &Request) -> Result<(), Error> {
    if communicator.inner.bootstrap.num_nodes() <= 1 {
        return Ok(());
    }
    let message = "rows are normalized on one node; normalize the result of `all_reduce`".into();
    Err(Error::NoPlan { rank: communicator.rank(), request: communicator.describe(request), message })
}

/// The plan for a request, and the algorithm that it is of; a single rank has none.
pub(super) struct Choice {
    pub(super) algorithm: Option<&'static BuiltinAlgorithm>,
    pub(super) plan: Plan,
}

/// Returns the plan for a request, or why there is none. `group`: thread blocks that divide the rows of a short message; `blocks`: those of
/// other algorithms.
pub(super) fn choose(request: &Request, group: usize, blocks: u32) -> Result<Choice, String> {
    let ranks = request.num_ranks;
    if ranks == 1 {
        return Ok(Choice { algorithm: None, plan: local_plan(request).map_err(|error| error.to_string())? });
    }
    let group = [group];
    let (name, arguments): (_, &[usize]) = match (request.collective, request.backend) {
        (CollectiveKind::ReduceScatter, _) => ("reducescatter_norm", &[]),
        (CollectiveKind::AllGather, _) if request.bytes <= GATHER_PACKET_BYTES => ("allgather_norm_packets", &group),
        (CollectiveKind::AllGather, _) => ("allgather_norm", &[]),
        (_, Backend::Cpu) if is_pulled(request) => ("allreduce_norm_pull", &[]),
        (_, Backend::Cuda) if is_sent_whole(request) => ("allreduce_norm_one_shot", &group),
        _ => ("allreduce_norm_two_shot", &[]),
    };
    let algorithm = algorithms::find(name).ok_or("no algorithm")?;
    let mut spec = algorithm.spec(ranks, ranks);
    spec.collective.in_place = request.in_place;
    if arguments.is_empty() {
        spec.collective.chunk_factor = blocks;
    }
    let plan = algorithm.plan(spec, arguments).map_err(|error| error.to_string())?;
    Ok(Choice { algorithm: Some(algorithm), plan })
}

/// Returns whether each rank reads the whole message of every other one, on the CPU.
fn is_pulled(request: &Request) -> bool {
    let most = if request.dtype == DataType::F32 { PULL_BYTES.0 } else { PULL_BYTES.1 };
    !request.in_place && request.bytes.saturating_mul(u64::from(request.num_ranks) - 1) <= most
}

/// Returns whether each rank sends its whole message to every other one, on devices.
fn is_sent_whole(request: &Request) -> bool {
    let all = request.bytes.saturating_mul(u64::from(request.num_ranks));
    request.bytes <= ONE_SHOT_BYTES.0 && all <= ONE_SHOT_BYTES.1
}

/// Returns a plan for one rank.
fn local_plan(request: &Request) -> Result<Plan, Diagnostics> {
    let mut spec = AlgoSpec::new("norm_of_one_rank", request.collective, 1);
    (spec.collective.rows, spec.collective.in_place) = (true, request.in_place);
    let program = Program::new(spec);
    for rank in program.ranks() {
        let output = rank.output().chunk(0).to_any();
        let input = rank.input().chunk(0).to_any();
        let (input, output) = match (request.in_place, request.collective) {
            (false, _) => (input, output),
            (true, CollectiveKind::AllGather) => (output, output),
            (true, _) => (input, input),
        };
        rank.row_norm(output, input, 0);
    }
    Ok(Plan::new(&lower(&program.finish()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_depend_on_sizes_types_and_backends() {
        let request = |dtype, ranks, bytes| Request::new(CollectiveKind::AllReduce, ranks, dtype, bytes);
        let chosen = |request: &Request, blocks| {
            let Choice { algorithm, plan } = choose(request, 1, blocks).expect("a plan");
            (algorithm.map_or("local", BuiltinAlgorithm::name), plan.ranks().next().map_or(0, |rank| rank.num_blocks()))
        };
        let (pull, one_shot, two_shot) = ("allreduce_norm_pull", "allreduce_norm_one_shot", "allreduce_norm_two_shot");
        for (dtype, ranks, bytes, expected) in [
            (DataType::F32, 1, 1 << 20, "local"),
            (DataType::F32, 2, 1 << 20, pull),
            (DataType::F32, 3, 1 << 20, two_shot),
            (DataType::F32, 2, (1 << 20) + 16, two_shot),
            (DataType::BF16, 2, 64 << 10, pull),
            (DataType::F16, 2, 128 << 10, two_shot),
        ] {
            assert_eq!(chosen(&request(dtype, ranks, bytes), 1), (expected, 1), "{dtype}, {ranks} ranks, {bytes}");
        }
        let in_place = Request { in_place: true, ..request(DataType::F32, 2, 1 << 10) };
        assert_eq!(chosen(&in_place, 1), (two_shot, 1));
        let scatter = Request::new(CollectiveKind::ReduceScatter, 2, DataType::F32, 1 << 10);
        assert_eq!(chosen(&scatter, 1), ("reducescatter_norm", 1));
        let on_devices = |ranks| Request { backend: Backend::Cuda, ..request(DataType::F32, ranks, 64 << 10) };
        assert_eq!((chosen(&on_devices(2), 8), chosen(&on_devices(4), 8)), ((one_shot, 1), (two_shot, 8)));
    }
}
