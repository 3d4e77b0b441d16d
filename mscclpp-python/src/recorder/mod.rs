//! Recording a program: the authoring API of `mscclpp-core` for the Python packages that have programs.
//!
//! A call names a method of the API as `mscclpp_core::dsl::registry` lists it, as the evaluator of the macros does. The
//! findings of a call are its exception, and reject the program.

mod handle;
mod lang;
mod spec;
mod value;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mscclpp_core::check::{Checks, Level};
use mscclpp_core::diag::{Code, Diagnostic, Diagnostics, Site};
use mscclpp_core::dsl::Program;
use mscclpp_core::dsl::registry::{self, ArgError, BufferValue, RangeValue, Value};
use mscclpp_core::lower::lower;
use mscclpp_core::origin::SourceLocation;
use mscclpp_core::trace::Trace;
use mscclpp_core::types::BufferKind;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

pub(crate) use self::handle::Handle;
use self::value::argument;
use crate::plan::{Plan, PlanError, rejected, rules};

/// A place in a Python file: path, line and column, both from 1.
type Place = (String, u32, u32);

/// A program while it is recorded.
#[pyclass(frozen, module = "mscclpp_rs._native")]
pub(crate) struct Recorder {
    /// Distinguishes the handles of programs.
    id: u64,
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    /// Findings that were raised. A program with findings is rejected, whether or not the caller handled the exceptions.
    raised: Diagnostics,
    /// Chunks of scratch per rank.
    scratch: Vec<u32>,
    /// The path of the last call's file, which most calls share.
    file: Arc<str>,
}

enum Stage {
    Recording(Box<Program>),
    Recorded(Arc<Trace>),
    Rejected,
}

impl State {
    fn program(&self) -> PyResult<&Program> {
        match &self.stage {
            Stage::Recording(program) => Ok(program),
            Stage::Recorded(_) | Stage::Rejected => {
                let text =
                    "the program is complete: its plan was made, and no operation can be added; create another program";
                Err(PlanError::new_err(text))
            }
        }
    }

    fn location(&mut self, (file, line, column): Place) -> SourceLocation {
        if *self.file != *file {
            self.file = Arc::from(file);
        }
        SourceLocation { file: Arc::clone(&self.file), line, column, ..SourceLocation::default() }
    }

    /// Takes the findings of the last call.
    fn findings(&mut self) -> Diagnostics {
        let Stage::Recording(program) = &self.stage else { return Diagnostics::default() };
        let found = program.take_findings();
        self.raised.extend(found.clone());
        found
    }
}

impl Recorder {
    fn at(stage: Stage, scratch: Vec<u32>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let state = State { stage, raised: Diagnostics::default(), scratch, file: Arc::from("") };
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), state: Mutex::new(state) }
    }

    /// Returns the state. No code of Python runs while it is locked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call and returns its result, or the findings as an exception.
    fn record(
        &self,
        py: Python<'_>,
        place: Place,
        call: impl FnOnce(&Program, &mut Vec<u32>) -> Result<Value, ArgError>,
    ) -> PyResult<Value> {
        let (result, found) = {
            let mut state = self.lock();
            let location = state.location(place);
            let mut scratch = std::mem::take(&mut state.scratch);
            let result = state.program().map(|program| {
                program.set_location(Some(location));
                call(program, &mut scratch)
            });
            state.scratch = scratch;
            (result?, state.findings())
        };
        if !found.is_empty() {
            return Err(rejected(py, "the operation is invalid", found));
        }
        result.map_err(|error| PyTypeError::new_err(error.to_string()))
    }
}

#[pymethods]
impl Recorder {
    /// Starts a program.
    #[new]
    fn new(py: Python<'_>, spec: &Bound<'_, PyDict>) -> PyResult<Self> {
        let spec = spec::specification(spec)?;
        let scratch = vec![0; spec.num_ranks.min(1 << 16) as usize];
        let program = Program::new(spec);
        let found = program.take_findings();
        if !found.is_empty() {
            return Err(rejected(py, "the specification of the program is invalid", found));
        }
        Ok(Self::at(Stage::Recording(Box::new(program)), scratch))
    }

    /// Records a built-in algorithm with a specification. Raises `ValueError` for one that it does not support.
    #[staticmethod]
    fn builtin(
        py: Python<'_>,
        spec: &Bound<'_, PyDict>,
        name: &str,
        arguments: BTreeMap<String, usize>,
    ) -> PyResult<Self> {
        let spec = spec::specification(spec)?;
        let Some(algorithm) = mscclpp_algorithms::find(name) else {
            return Err(PyValueError::new_err(format!("expected the name of an algorithm, found `{name}`")));
        };
        let given = arguments.iter().map(|(name, value)| (name.as_str(), *value));
        let values = algorithm.arguments(given).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let recorded = py.detach(|| algorithm.record(spec, &values));
        let trace = recorded.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self::at(Stage::Recorded(Arc::new(trace)), Vec::new()))
    }

    /// Records a program of the first generation of the language from its calls, in order.
    #[staticmethod]
    fn lang(py: Python<'_>, spec: &Bound<'_, PyDict>, calls: Vec<lang::Call>) -> PyResult<Self> {
        let recorded = lang::program(spec)?.record(|context| lang::replay(context, &calls));
        let trace = recorded.map_err(|found| rejected(py, "the program is invalid", found))?;
        Ok(Self::at(Stage::Recorded(Arc::new(trace)), Vec::new()))
    }

    /// Calls a method of a handle, or of the program if `receiver` is `None`.
    fn call(
        &self,
        py: Python<'_>,
        place: Place,
        receiver: Option<&Handle>,
        method: &str,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<Option<Handle>> {
        let arguments = arguments.iter().map(|given| argument(self.id, &given)).collect::<PyResult<Vec<_>>>()?;
        let receiver = receiver.map_or(Ok(Value::Unit), |handle| handle.value(self.id))?;
        let type_name = receiver.type_name().unwrap_or("Program");
        let Some(method) = registry::method(type_name, method) else {
            return Err(PyTypeError::new_err(format!("`{type_name}` has no method `{method}`")));
        };
        let value = self.record(py, place, |program, scratch| {
            let value = (method.call)(program, &receiver, &arguments)?;
            if let Value::Buffer(BufferValue { rank, buffer: BufferKind::Scratch, start, len }) = &value
                && let Some(chunks) = scratch.get_mut(*rank as usize)
            {
                *chunks = start + len;
            }
            Ok(value)
        })?;
        Ok(Handle::new(self.id, value))
    }

    /// Returns a chunk of a buffer (`input`, `output` or `scratch`): for scratch by its index among all of the rank's.
    fn chunk(&self, py: Python<'_>, place: Place, rank: u32, buffer: &str, start: i128, end: i128) -> PyResult<Handle> {
        let range = Value::Range(RangeValue { start: Some(start), end: Some(end) });
        let value = self.record(py, place, |program, scratch| {
            let method = |ty: &str, name: &str| registry::method(ty, name).map(|method| method.call);
            let (Some(get_rank), Some(chunk)) = (method("Program", "rank"), method("Buffer", "chunk")) else {
                return Ok(Value::Unit);
            };
            let owner = get_rank(program, &Value::Unit, &[Value::Int(i128::from(rank))])?;
            let buffer = match (buffer, &owner) {
                ("scratch", Value::Rank(rank)) => {
                    let len = scratch.get(*rank as usize).copied().unwrap_or(0);
                    Value::Buffer(BufferValue { rank: *rank, buffer: BufferKind::Scratch, start: 0, len })
                }
                (name, _) => match registry::method("Rank", name) {
                    Some(method) => (method.call)(program, &owner, &[])?,
                    None => Value::Unit,
                },
            };
            chunk(program, &buffer, std::slice::from_ref(&range))
        })?;
        Handle::new(self.id, value)
            .ok_or_else(|| PyValueError::new_err("expected input, output or scratch as the buffer"))
    }

    /// Returns the number of chunks of scratch that a rank has allocated.
    fn scratch_chunks(&self, rank: usize) -> u32 {
        self.lock().scratch.get(rank).copied().unwrap_or(0)
    }

    /// Begins a loop over windows of the message: `unit` bytes per iteration over `num_chunks` chunks.
    fn begin_pipeline(&self, py: Python<'_>, place: Place, unit: u64, num_chunks: usize) -> PyResult<()> {
        let begin = |program: &Program, _: &mut Vec<u32>| {
            program.begin_pipeline(unit, num_chunks);
            Ok(Value::Unit)
        };
        self.record(py, place, begin).map(drop)
    }

    /// Ends the loop.
    fn end_pipeline(&self) -> PyResult<()> {
        self.lock().program()?.end_pipeline();
        Ok(())
    }

    /// Rejects the program with a finding of the caller, by the rule's number.
    #[pyo3(signature = (place, code, message, help))]
    fn reject(&self, py: Python<'_>, place: Place, code: &str, message: String, help: String) -> PyResult<()> {
        let Some(code) = Code::find(code) else {
            return Err(PyValueError::new_err(format!("there is no rule {code}")));
        };
        let site = self.lock().location(place);
        let report = |program: &Program, _: &mut Vec<u32>| {
            program.report(Diagnostic::new(code, Site::Source(site.clone()), message).help(help));
            Ok(Value::Unit)
        };
        self.record(py, (site.file.to_string(), site.line, site.column), report).map(drop)
    }

    /// Ends recording and returns the plan, which has passed the checks, unless `check` is false.
    #[pyo3(signature = (*, check = true, allow = Vec::new()))]
    fn plan(&self, py: Python<'_>, check: bool, allow: Vec<String>) -> PyResult<Plan> {
        let allow = rules(&allow)?;
        let trace = self.trace(py)?;
        let level = if check { Level::Full } else { Level::Off };
        let made = py.detach(|| {
            let tree = lower(&trace)?;
            Checks { level, allow }.run(&tree).into_result(())?;
            Ok(mscclpp_core::plan::Plan::new(&tree))
        });
        made.map(Plan::new).map_err(|found| rejected(py, "the plan of the program is rejected", found))
    }
}

impl Recorder {
    /// Ends recording.
    fn trace(&self, py: Python<'_>) -> PyResult<Arc<Trace>> {
        let found = {
            let mut state = self.lock();
            match std::mem::replace(&mut state.stage, Stage::Rejected) {
                Stage::Recorded(trace) => {
                    state.stage = Stage::Recorded(Arc::clone(&trace));
                    return Ok(trace);
                }
                Stage::Recording(program) if state.raised.is_empty() => match program.finish() {
                    Ok(trace) => {
                        let trace = Arc::new(trace);
                        state.stage = Stage::Recorded(Arc::clone(&trace));
                        return Ok(trace);
                    }
                    Err(found) => state.raised.extend(found),
                },
                Stage::Recording(_) | Stage::Rejected => {}
            }
            state.raised.clone()
        };
        Err(rejected(py, "the program is invalid", found))
    }
}
