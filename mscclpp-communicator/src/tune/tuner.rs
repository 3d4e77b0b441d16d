//! Measures every candidate.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;

use super::measure::measure;
use super::options::MeasureOptions;
use super::{CandidateTime, MachineInfo, TuningEntry, TuningTable};
use crate::communicator::Communicator;
use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;
use mscclpp_select::tuning::rounded;
use mscclpp_select::{Backend, CALLS, Choice, Config, Registry, Request};

/// Factor over the best time so far at which a candidate is abandoned after its first calls.
pub(super) const ABANDON_FACTOR: f64 = 4.0;

/// The measured grid: collectives, placements and sizes, and for each of them candidates, blocks and threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuner {
    /// The collectives.
    pub collectives: Vec<CollectiveKind>,
    /// Minimum size in bytes, usually 1 KiB. It is rounded as tables round the sizes of calls: up to a power of two, at
    /// least 1 KiB, at most 256 MiB.
    pub min_bytes: u64,
    /// Maximum size in bytes, usually 128 MiB; rounded in the same way.
    pub max_bytes: u64,
    /// Whether calls are in place.
    pub in_place: Vec<bool>,
    /// Type of the elements.
    pub dtype: DataType,
    /// The reduction.
    pub op: ReduceOp,
    /// Whether buffers are registered.
    pub registered: bool,
    /// Number of timed calls per candidate; `None` for as many as a size needs.
    pub iterations: Option<u32>,
    /// Numbers of thread blocks; if empty, those that are worth trying for an algorithm
    /// ([`Algorithm::block_counts`](mscclpp_select::Algorithm::block_counts)).
    pub blocks: Vec<u32>,
    /// On devices, numbers of CUDA threads per thread block; if empty, 512, 768 and 1024.
    pub threads: Vec<u32>,
}

impl Default for Tuner {
    fn default() -> Self {
        Self {
            collectives: CALLS.map(|(_, collective)| collective).to_vec(),
            min_bytes: 1 << 10,
            max_bytes: 1 << 27,
            in_place: vec![true, false],
            dtype: DataType::F32,
            op: ReduceOp::Sum,
            registered: false,
            iterations: None,
            blocks: Vec::new(),
            threads: Vec::new(),
        }
    }
}

impl Tuner {
    /// Measures all candidates, and returns a table of the fastest. A collective call of all ranks, which all return
    /// the same table. `report` is called after every entry, with the table so far.
    ///
    /// Times are averaged over the ranks, and rank 0 decides. Candidates that cannot be prepared for a size are
    /// skipped, and so are those with wrong results, with a warning.
    ///
    /// # Errors
    /// Those of the calls. The communicator's registry does not change.
    pub fn run(&self, comm: &Communicator, mut report: impl FnMut(&TuningTable)) -> Result<TuningTable, Error> {
        let mut table = TuningTable::new(self.machine(comm)?);
        let of = |collective, bytes| Request {
            registered: self.registered,
            ..comm.request_of(collective, self.dtype, bytes)
        };
        for request in self.requests(of) {
            if let Some(entry) = self.tune(comm, &request)? {
                table.entries.push(entry);
                report(&table);
            }
        }
        Ok(table)
    }

    /// Returns the maximum number of entries.
    pub fn num_entries(&self) -> usize {
        self.collectives.len() * self.in_place.len() * self.sizes().count()
    }

    /// Returns the measured sizes in ascending order: the powers of two that a table distinguishes.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + use<> {
        let most = rounded(self.max_bytes);
        let first = Some(rounded(self.min_bytes));
        std::iter::successors(first, |size| Some(2 * size)).take_while(move |size| *size <= most)
    }

    /// Returns rank 0's machine.
    fn machine(&self, comm: &Communicator) -> Result<MachineInfo, Error> {
        let here = MachineInfo::current();
        let fields = [&here.version, &here.processor, &here.platform].map(String::as_str).join("\n");
        let text = format!("{fields}\n{}", here.processors);
        let text = comm.bootstrap().broadcast(0, text.as_bytes())?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut lines = text.lines().map(str::to_owned);
        let mut line = || lines.next().unwrap_or_default();
        let (version, processor, platform) = (line(), line(), line());
        Ok(MachineInfo { version, processor, platform, processors: line().parse().unwrap_or(0), ..here })
    }

    /// Returns all requests; `of` creates that of a collective and a number of bytes.
    pub(super) fn requests(&self, of: impl Fn(CollectiveKind, u64) -> Request) -> Vec<Request> {
        let mut requests = Vec::new();
        for &collective in &self.collectives {
            for &in_place in &self.in_place {
                for bytes in self.sizes() {
                    let request = of(collective, bytes);
                    let op = request.op.map(|_| self.op);
                    requests.push(Request { in_place, op, ..request });
                }
            }
        }
        requests
    }

    /// Returns the request that is measured for another one: sizes are powers of two, messages consist of equal parts.
    pub(super) fn measured(&self, request: &Request) -> Request {
        let unit = u64::from(request.num_ranks) * request.dtype.size() as u64;
        Request { bytes: request.bytes.next_multiple_of(unit), ..*request }
    }

    /// Returns the fastest candidate for a request; `None` if none works.
    fn tune(&self, comm: &Communicator, request: &Request) -> Result<Option<TuningEntry>, Error> {
        let measured = self.measured(request);
        let mut timed: Vec<CandidateTime> = Vec::new();
        for choice in self.candidates(&*comm.registry()?, &measured) {
            let best = timed.iter().map(|one| one.time_us).fold(f64::INFINITY, f64::min);
            comm.force_algorithm(Some((request.collective, choice.clone())))?;
            let time = self.time(comm, &measured, &choice, best);
            comm.force_algorithm(None)?;
            comm.release_prepared()?;
            if let Some(time_us) = time? {
                let Choice { name, config } = choice;
                timed.push(CandidateTime { algorithm: name, blocks: config.blocks, threads: config.threads, time_us });
            }
        }
        // Rank 0 decides, although all ranks have the same times.
        let best = (0..timed.len()).min_by(|&a, &b| timed[a].time_us.total_cmp(&timed[b].time_us));
        let best = best.map_or(u64::MAX, |best| best as u64);
        let decided = comm.bootstrap().broadcast(0, &best.to_le_bytes())?;
        let decided = decided.try_into().map_or(u64::MAX, u64::from_le_bytes);
        if decided >= timed.len() as u64 {
            return Ok(None);
        }
        let fastest = timed.remove(decided as usize);
        timed.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
        Ok(Some(TuningEntry::new(request, fastest, timed)))
    }

    /// Returns the microseconds of a candidate; `None` if it does not work for the request.
    fn time(&self, comm: &Communicator, request: &Request, choice: &Choice, best: f64) -> Result<Option<f64>, Error> {
        let full = MeasureOptions::for_bytes(request.bytes);
        let full = MeasureOptions { iterations: self.iterations.unwrap_or(full.iterations), ..full };
        let first = full.iterations(3).warmup(1).check(1);
        let measured = match measure(comm, request, first) {
            Ok(measured) => measured,
            // All ranks get this error, before any of them has started.
            Err(
                Error::Select { .. } | Error::NoPlan { .. } | Error::ScratchLimit { .. } | Error::MessageSize { .. },
            ) => return Ok(None),
            Err(error) => return Err(error),
        };
        if measured.wrong.is_some_and(|wrong| wrong > 0) {
            log::warn!("`{}` with {} returns wrong results for {request}", choice.name, choice.config);
            return Ok(None);
        }
        let microseconds = |measured: super::Measurement| (measured.average.as_secs_f64() * 1e9).round() / 1e3;
        if microseconds(measured) > ABANDON_FACTOR * best {
            return Ok(Some(microseconds(measured)));
        }
        measure(comm, request, full).map(|measured| Some(microseconds(measured)))
    }
}

/// Numbers of CUDA threads per thread block that are worth trying.
const THREADS: [u32; 3] = [512, 768, 1024];

impl Tuner {
    /// Returns the algorithms that can serve a request, in all configurations that are measured.
    pub(super) fn candidates(&self, registry: &Registry, request: &Request) -> Vec<Choice> {
        let threads: Vec<Option<u32>> = match request.backend {
            Backend::Cpu => vec![None],
            Backend::Cuda if self.threads.is_empty() => THREADS.map(Some).to_vec(),
            Backend::Cuda => self.threads.iter().copied().map(Some).collect(),
        };
        let mut choices = Vec::new();
        let algorithms = registry.iter().filter(|one| one.collective() == request.collective);
        for algorithm in algorithms.filter(|one| one.check_request(request).is_ok()) {
            let usual = algorithm.block_counts(request.backend);
            let blocks = match self.blocks.is_empty() || usual.len() == 1 {
                true => usual,
                false => self.blocks.iter().copied().map(Some).collect(),
            };
            for config in
                blocks.iter().flat_map(|&blocks| threads.iter().map(move |&threads| Config { blocks, threads }))
            {
                choices.push(Choice { config, ..Choice::from(&**algorithm) });
            }
        }
        choices
    }
}
