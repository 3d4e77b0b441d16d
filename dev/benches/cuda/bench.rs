//! Functions that all measurements share: the device, and collectives on it whose results are verified.

use std::cell::{OnceCell, RefCell};
use std::fmt::Display;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::cuda::{
    Buffers, Device, Executor, Graph, LaunchTimes, PrepareOptions, PreparedPlan, Stream, time, time_launches,
};
use mscclpp_exec::verify::PeriodicInputs;
use mscclpp_exec::{DataType, Error};
use mscclpp_select::{Backend, Choice, Config, OrderPolicy, Registry, Request};

use crate::compare::Line;
use crate::measure::{Outcome, microseconds};

/// A device to measure on.
pub(crate) struct Bench<'a> {
    pub(crate) device: &'a Device,
    /// Opens the device once more, with nothing loaded.
    pub(crate) fresh: &'a dyn Fn() -> Outcome<Device>,
    pub(crate) registry: Registry,
    /// Results of [`compare`](crate::compare).
    pub(crate) compared: OnceCell<Vec<Line>>,
    /// Whether nothing is printed.
    pub(crate) quiet: bool,
    /// Algorithms that are measured where there is a choice; empty for all.
    pub(crate) only: Vec<String>,
    /// The largest messages that are measured, in bytes; rows whose messages are all larger measure the smallest.
    pub(crate) at_most: u64,
    /// Small messages and few launches: it tests the commands, and the printed times have no meaning.
    pub(crate) rehearsal: bool,
}

/// A collective of virtual ranks, ready to be launched.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) run: PreparedPlan,
    request: Request,
    buffers: Buffers,
}

/// Size of messages from which inputs are rewritten and outputs verified several times.
const LARGE: u64 = 16 << 20;

impl<'a> Bench<'a> {
    pub(crate) fn new(device: &'a Device, fresh: &'a dyn Fn() -> Outcome<Device>) -> Self {
        let (registry, compared) = (Registry::builtin(), OnceCell::new());
        Self { device, fresh, registry, compared, quiet: false, only: Vec::new(), at_most: u64::MAX, rehearsal: false }
    }

    /// Prints a line.
    pub(crate) fn say(&self, line: impl Display) {
        if !self.quiet {
            println!("{line}");
        }
    }

    /// Times launches of anything.
    pub(crate) fn times(
        &self,
        launch: impl FnMut(&Stream) -> Result<(), Error>,
        done: impl Fn(&Stream) -> Result<(), Error>,
    ) -> Outcome<LaunchTimes> {
        Ok(time_launches(&self.device.stream()?, self.rehearsal.then_some(1), launch, done)?)
    }

    /// Returns whether to specialize: without, and if there is a compiler, also with.
    pub(crate) fn ways(&self) -> Vec<PrepareOptions> {
        let ways = [false, true].into_iter().take_while(|&specialize| !specialize || self.device.compiler().is_ok());
        ways.map(|specialize| PrepareOptions::default().specialize(specialize)).collect()
    }

    /// Returns the sizes, which increase, up to the largest that is wanted, or one small size.
    pub(crate) fn sizes<'b>(&self, sizes: &'b [u64]) -> &'b [u64] {
        let count = sizes.partition_point(|&size| size <= self.at_most).max(1);
        if self.rehearsal { &[1 << 10] } else { &sizes[..count] }
    }

    /// Returns whether this algorithm is measured where there is a choice.
    pub(crate) fn is_wanted(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Returns a request for a collective of f32 on `num_ranks` virtual ranks, which may round differently; `bytes` is
    /// the larger of a rank's input and output.
    pub(crate) fn request(&self, collective: CollectiveKind, ranks: u32, bytes: u64) -> Request {
        Request {
            backend: Backend::Cuda,
            order: OrderPolicy::Any,
            ..Request::new(collective, ranks, DataType::F32, bytes)
        }
    }

    /// Prepares an algorithm for a request; `None` if it does not support the request, not all of its thread blocks are
    /// co-resident, or there is too little memory.
    pub(crate) fn subject(
        &self,
        request: &Request,
        choice: &Choice,
        prepare: PrepareOptions,
    ) -> Outcome<Option<Subject>> {
        let Ok(decision) = self.registry.decision(request, choice) else { return Ok(None) };
        let plan = match self.registry.plan(request, &decision) {
            Ok(plan) => plan,
            // Some numbers of thread blocks are more than the checks can follow.
            Err(error) if choice.config.blocks.is_some() => {
                let (reason, blocks) = (error.to_string(), choice.config.blocks.unwrap_or_default());
                let reason = reason.lines().next().unwrap_or_default();
                self.say(format_args!("{} with {blocks} thread blocks: skipped: {reason}", choice.name));
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let world = Executor::new(self.device, request.num_ranks);
        let made =
            world.prepare_with_options(&plan, request.message(), prepare).and_then(|run| Ok((run.buffers()?, run)));
        let (buffers, run) = match made {
            Err(Error::NotCoResident { .. }) => return Ok(None),
            Err(error) if is_of_memory(&error) => {
                self.say(format_args!("{}: skipped: {error}", choice.name));
                return Ok(None);
            }
            made => made?,
        };
        let blocks = run.num_blocks();
        let how = if run.specialized().is_ok() { ", specialized" } else { "" };
        let name = format!("{}{how}, {blocks} blocks", choice.name);
        Ok(Some(Subject { name, run, request: *request, buffers }))
    }

    /// Prepares an algorithm with the usual number of thread blocks, or half as many, and so on, until they are
    /// co-resident.
    pub(crate) fn usual(&self, request: &Request, name: &str, prepare: PrepareOptions) -> Outcome<Subject> {
        for blocks in [None, Some(16), Some(8), Some(4), Some(2), Some(1)] {
            let choice = Choice { name: name.to_owned(), config: Config { blocks, threads: None } };
            if let Some(subject) = self.subject(request, &choice, prepare)? {
                return Ok(subject);
            }
        }
        Err(format!("`{name}` does not serve {request}").into())
    }

    /// Returns all configurations for a request of plans whose thread blocks are co-resident.
    pub(crate) fn choices(&self, request: &Request) -> Vec<Choice> {
        let serves = self.registry.iter().filter(|algorithm| {
            let serves = algorithm.collective() == request.collective && algorithm.check_request(request).is_ok();
            self.is_wanted(algorithm.name()) && serves && algorithm.is_builtin()
        });
        let all = serves.flat_map(|algorithm| {
            let blocks = if self.rehearsal { vec![None] } else { algorithm.block_counts(Backend::Cuda) };
            let name = algorithm.name().to_owned();
            blocks
                .into_iter()
                .map(move |blocks| Choice { name: name.clone(), config: Config { blocks, threads: None } })
        });
        let mut all: Vec<Choice> = all.collect();
        if self.rehearsal {
            all.truncate(2);
        }
        all
    }

    /// Returns the fastest of all choices in a graph. They are compared by a few launches each, and by one if that
    /// takes twice as long as with the best so far; the winner is measured with new inputs, and its outputs are
    /// verified.
    pub(crate) fn fastest(
        &self,
        request: &Request,
        prepare: PrepareOptions,
    ) -> Outcome<Option<(Subject, LaunchTimes)>> {
        let mut best: Option<(f64, Choice)> = None;
        let mut least = f64::INFINITY;
        for choice in self.choices(request) {
            let Some(mut subject) = self.subject(request, &choice, prepare)? else { continue };
            let once = subject.once(self)?;
            if once > 2.0 * least {
                continue;
            }
            least = least.min(once);
            let took = subject.quickly(self)?;
            if best.as_ref().is_none_or(|(other, _)| took < *other) {
                best = Some((took, choice));
            }
        }
        let Some((_, choice)) = best else { return Ok(None) };
        let Some(mut subject) = self.subject(request, &choice, prepare)? else { return Ok(None) };
        let times = subject.measure(self)?;
        Ok(Some((subject, times)))
    }
}

impl Subject {
    /// Measures one launch without a graph, in microseconds, after one that loads everything that is loaded lazily.
    pub(crate) fn once(&mut self, bench: &Bench<'_>) -> Outcome<f64> {
        let stream = bench.device.stream()?;
        self.run.launch_buffers(&mut self.buffers, &stream)?;
        let begin = stream.event()?;
        self.run.launch_buffers(&mut self.buffers, &stream)?;
        let end = stream.event()?;
        self.run.synchronize(&stream)?;
        Ok(end.microseconds_since(&begin)?)
    }

    /// Measures a launch in a graph, in microseconds, from few launches.
    pub(crate) fn quickly(&mut self, bench: &Bench<'_>) -> Outcome<f64> {
        let stream = bench.device.stream()?;
        Ok(microseconds(time(&mut self.run, &mut self.buffers, &stream, Some(1))?.graph))
    }

    /// Measures launches: inputs are rewritten before each of a few turns, and every output is verified after it.
    pub(crate) fn measure(&mut self, bench: &Bench<'_>) -> Outcome<LaunchTimes> {
        let turns = if bench.rehearsal || self.request.bytes > LARGE { 1 } else { 3 };
        let mut all = Vec::with_capacity(turns);
        for turn in 0..turns as u64 {
            self.fill(turn)?;
            let (run, buffers) = (RefCell::new(&mut self.run), &mut self.buffers);
            let launch = |stream: &Stream| run.borrow_mut().launch_buffers(buffers, stream);
            all.push(bench.times(launch, |stream| run.borrow().synchronize(stream))?);
            // Some plans overwrite their inputs, so verification needs one more launch, on fresh inputs.
            self.fill(turn + 1)?;
            let stream = bench.device.stream()?;
            self.run.launch_buffers(&mut self.buffers, &stream)?;
            self.run.synchronize(&stream)?;
            self.compare(turn + 1)?;
        }
        all.sort_by_key(|times| times.graph);
        Ok(all[turns / 2])
    }

    /// Captures this number of launches as a graph.
    pub(crate) fn graph(&mut self, stream: &Stream, launches: usize) -> Outcome<Graph> {
        let (run, buffers) = (&mut self.run, &mut self.buffers);
        Ok(stream.capture(|stream| (0..launches).try_for_each(|_| run.launch_buffers(buffers, stream)))?)
    }

    fn cycle(&self, rank: u32) -> PeriodicInputs {
        let Request { dtype, op, num_ranks: ranks, .. } = self.request;
        PeriodicInputs::new(self.run.collective(), dtype, op, ranks, rank)
    }

    fn fill(&mut self, turn: u64) -> Outcome<()> {
        for rank in 0..self.request.num_ranks {
            let mut input = vec![0; self.buffers.input(rank).bytes as usize];
            self.cycle(rank).fill(turn, &mut input);
            self.buffers.write_input(rank, &input)?;
        }
        Ok(())
    }

    fn compare(&self, turn: u64) -> Outcome<()> {
        for rank in 0..self.request.num_ranks {
            let mut output = vec![0; self.buffers.output(rank).bytes as usize];
            self.buffers.read_output(rank, &mut output)?;
            match self.cycle(rank).count_wrong(turn, &output) {
                0 => {}
                wrong => return Err(format!("{}: {wrong} elements of rank {rank} are wrong", self.name).into()),
            }
        }
        Ok(())
    }
}

/// Returns whether an algorithm needs more memory than is available or allowed.
pub(crate) fn is_of_memory(error: &Error) -> bool {
    match error {
        Error::ScratchLimit { .. } | Error::OutOfMemory { .. } | Error::TooLarge { .. } => true,
        Error::Driver(error) => error.name == "CUDA_ERROR_OUT_OF_MEMORY",
        _ => false,
    }
}
