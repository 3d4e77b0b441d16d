//! Measuring every candidate.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;

use super::machine::MachineInfo;
use super::measure::{MeasureOptions, measure};
use super::record::{CandidateTime, TuningEntry};
use super::table::{TuningTable, rounded};
use crate::dtype::DataType;
use crate::group::{Error, Group};
use crate::select::{Backend, CALLS, Choice, Config, Request};

/// How many times as long as the best so far a candidate may take in its first calls before it is given up.
const HOPELESS: f64 = 4.0;

/// What is measured: a grid over collectives, placements and sizes, and for each over candidates, blocks and threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuner {
    /// The collectives.
    pub collectives: Vec<CollectiveKind>,
    /// The least size in bytes, usually 1 KiB. It is rounded as tables round the sizes of calls: up to a power of two, at
    /// least 1 KiB, at most 256 MiB.
    pub least: u64,
    /// The largest size in bytes, usually 128 MiB; rounded likewise.
    pub most: u64,
    /// Whether calls are in place.
    pub placements: Vec<bool>,
    /// Type of the elements.
    pub dtype: DataType,
    /// How they are combined.
    pub op: ReduceOp,
    /// Whether buffers are registered.
    pub registered: bool,
    /// Timed calls per candidate; `None` for as many as a size needs.
    pub iterations: Option<u32>,
}

impl Default for Tuner {
    fn default() -> Self {
        Self {
            collectives: CALLS.map(|(_, collective)| collective).to_vec(),
            least: 1 << 10,
            most: 1 << 27,
            placements: vec![true, false],
            dtype: DataType::F32,
            op: ReduceOp::Sum,
            registered: false,
            iterations: None,
        }
    }
}

impl Tuner {
    /// Measures, and makes a table of what is fastest. A call of all ranks; the table is the same on all of them. `told` is
    /// called for every entry, as soon as it is known.
    ///
    /// Times are averaged over the ranks, and rank 0 decides. Candidates that cannot be prepared for a size are left out,
    /// and so are those whose results are wrong, with a warning.
    ///
    /// # Errors
    /// Those of the calls. The group's registry is left as it was.
    pub fn run(&self, group: &mut Group, mut told: impl FnMut(&TuningEntry)) -> Result<TuningTable, Error> {
        let mut table = TuningTable::new(self.machine(group)?);
        for request in self.requests(group) {
            if let Some(entry) = self.tune(group, &request)? {
                told(&entry);
                table.entries.push(entry);
            }
        }
        Ok(table)
    }

    /// How many entries there will be at most.
    pub fn len(&self) -> usize {
        self.collectives.len() * self.placements.len() * self.sizes().count()
    }

    /// Whether nothing is measured.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sizes that are measured, in ascending order: powers of two, those that a table tells apart.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + use<> {
        let most = rounded(self.most);
        let first = Some(rounded(self.least));
        std::iter::successors(first, |size| Some(2 * size)).take_while(move |size| *size <= most)
    }

    /// Rank 0's machine.
    fn machine(&self, group: &Group) -> Result<MachineInfo, Error> {
        let here = MachineInfo::current();
        let fields = [&here.version, &here.processor, &here.platform].map(String::as_str).join("\n");
        let text = format!("{fields}\n{}", here.processors);
        let text = group.communicator().bootstrap().broadcast(0, text.as_bytes())?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut lines = text.lines().map(str::to_owned);
        let mut line = || lines.next().unwrap_or_default();
        let (version, processor, platform) = (line(), line(), line());
        Ok(MachineInfo { version, processor, platform, processors: line().parse().unwrap_or(0) })
    }

    fn requests(&self, group: &Group) -> Vec<Request> {
        let mut requests = Vec::new();
        for &collective in &self.collectives {
            for &in_place in &self.placements {
                for bytes in self.sizes() {
                    let request = group.request_of(collective, self.dtype, bytes);
                    let op = request.op.map(|_| self.op);
                    requests.push(Request { in_place, op, registered: self.registered, ..request });
                }
            }
        }
        requests
    }

    /// The fastest candidate for a request; `None` if there is none that works.
    fn tune(&self, group: &mut Group, request: &Request) -> Result<Option<TuningEntry>, Error> {
        // Sizes are powers of two; messages are made of equal parts.
        let unit = u64::from(request.ranks) * request.dtype.size() as u64;
        let measured = Request { bytes: request.bytes.next_multiple_of(unit), ..*request };
        let mut timed: Vec<CandidateTime> = Vec::new();
        for choice in candidates(group, &measured) {
            let best = timed.iter().map(|one| one.time_us).fold(f64::INFINITY, f64::min);
            group.force_algorithm(Some((request.collective, choice.clone())));
            let time = self.time(group, &measured, &choice, best);
            group.force_algorithm(None);
            if let Some(time_us) = time? {
                let Choice { name, config } = choice;
                timed.push(CandidateTime { algorithm: name, blocks: config.blocks, threads: config.threads, time_us });
            }
        }
        // Rank 0 decides, though all have the same times.
        let best = (0..timed.len()).min_by(|&a, &b| timed[a].time_us.total_cmp(&timed[b].time_us));
        let best = best.map_or(u64::MAX, |best| best as u64);
        let decided = group.communicator().bootstrap().broadcast(0, &best.to_le_bytes())?;
        let decided = decided.try_into().map_or(u64::MAX, u64::from_le_bytes);
        if decided >= timed.len() as u64 {
            return Ok(None);
        }
        let fastest = timed.remove(decided as usize);
        timed.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
        Ok(Some(TuningEntry::new(request, fastest, timed)))
    }

    /// Microseconds of a candidate; `None` if it does not work for the request.
    fn time(&self, group: &mut Group, request: &Request, choice: &Choice, best: f64) -> Result<Option<f64>, Error> {
        let full = MeasureOptions::for_bytes(request.bytes);
        let full = MeasureOptions { iterations: self.iterations.unwrap_or(full.iterations), ..full };
        let first = MeasureOptions { iterations: 3, warmup: 1, check: 1 };
        let measured = match measure(group, request, first) {
            Ok(measured) => measured,
            // All ranks find the same, before any of them has begun.
            Err(Error::Select { .. } | Error::Plan { .. }) => return Ok(None),
            Err(Error::Run(crate::Error::ScratchLimit { .. } | crate::Error::MessageSize { .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
        if measured.wrong.is_some_and(|wrong| wrong > 0) {
            log::warn!("`{}` with {} returns wrong results for {request}", choice.name, choice.config);
            return Ok(None);
        }
        let microseconds = |measured: super::Measurement| (measured.average.as_secs_f64() * 1e9).round() / 1e3;
        if microseconds(measured) > HOPELESS * best {
            return Ok(Some(microseconds(measured)));
        }
        measure(group, request, full).map(|measured| Some(microseconds(measured)))
    }
}

/// What may serve a request, in all configurations that are worth trying.
fn candidates(group: &Group, request: &Request) -> Vec<Choice> {
    let threads: &[Option<u32>] = match request.backend {
        Backend::Cpu => &[None],
        Backend::Cuda => &[Some(512), Some(768), Some(1024)],
    };
    let algorithms = group.registry().iter().filter(|one| one.collective() == request.collective);
    let admitted = algorithms.filter(|one| one.check_request(request).is_ok());
    let configured = admitted.flat_map(|one| {
        let blocks = one.blocks(request.backend);
        blocks.into_iter().flat_map(move |blocks| {
            let config = move |threads: &Option<u32>| Config { blocks, threads: *threads };
            threads.iter().map(move |threads| Choice { config: config(threads), ..Choice::from(&**one) })
        })
    });
    configured.collect()
}
