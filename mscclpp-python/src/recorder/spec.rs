//! The specification of a program from Python.

use std::collections::BTreeMap;

use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{Protocol, Replication};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Reads a required entry.
pub(super) fn get<'py, T: FromPyObjectOwned<'py, Error: Into<PyErr>>>(
    spec: &Bound<'py, PyDict>,
    key: &str,
) -> PyResult<T> {
    let Some(value) = spec.get_item(key)? else {
        return Err(PyTypeError::new_err(format!("the specification has no `{key}`")));
    };
    value.extract::<T>().map_err(|error: T::Error| {
        let error: PyErr = Into::into(error);
        let found = value.repr().map_or_else(|_| "a value without text".to_owned(), |text| text.to_string());
        PyTypeError::new_err(format!("invalid `{key}`, found {found}: {}", error.value(spec.py())))
    })
}

pub(super) fn protocol(spec: &Bound<'_, PyDict>) -> PyResult<Protocol> {
    match get::<String>(spec, "protocol")?.as_str() {
        "Simple" => Ok(Protocol::Simple),
        "LL" => Ok(Protocol::LL),
        other => Err(PyValueError::new_err(format!("expected protocol Simple or LL, found {other}"))),
    }
}

/// Returns the specification that a dictionary holds.
pub(super) fn specification(spec: &Bound<'_, PyDict>) -> PyResult<AlgoSpec> {
    let (input, output): (u32, u32) = (get(spec, "input_chunks")?, get(spec, "output_chunks")?);
    let name: String = get(spec, "collective")?;
    let kind = CollectiveKind::from_name(&name).unwrap_or(match name.as_str() {
        "test" => CollectiveKind::Test { input, output },
        // A collective that the caller names is one whose postconditions only the caller has.
        _ => CollectiveKind::Custom { input, output },
    });
    let collective = Collective {
        chunk_factor: get(spec, "chunk_factor")?,
        in_place: get(spec, "in_place")?,
        ..Collective::new(kind)
    };
    let num_ranks = get(spec, "num_ranks")?;
    if let Some(expected) = collective.chunks(num_ranks)
        && expected != (input, output)
    {
        let name = kind.name();
        return Err(PyValueError::new_err(format!(
            "expected {expected:?} chunks of input and output for {name} of {num_ranks} ranks with chunk factor {}, found \
             ({input}, {output}); give a collective with other buffers another name",
            collective.chunk_factor
        )));
    }
    Ok(AlgoSpec {
        name: get(spec, "name")?,
        collective,
        num_ranks,
        ranks_per_node: get(spec, "ranks_per_node")?,
        instances: get(spec, "instances")?,
        protocol: protocol(spec)?,
        fuse: get(spec, "instr_fusion")?,
        auto_sync: get(spec, "auto_sync")?,
        replication: if get(spec, "replicate")? { Replication::Interleaved } else { Replication::None },
        reuse_resources: get(spec, "reuse_resources")?,
        threads_per_block: get(spec, "num_threads_per_block")?,
        double_scratch: get(spec, "use_double_scratch_buffer")?,
        buffer_alignment: get(spec, "buffer_alignment")?,
        min_message_size: get(spec, "min_message_size")?,
        max_message_size: get(spec, "max_message_size")?,
        tags: get::<BTreeMap<String, i64>>(spec, "tags")?,
    })
}
