//! What was prepared, by request.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::process::Executable;
use crate::select::{Algorithm, Request};

/// Most requests that are kept prepared.
const KEPT: usize = 256;

/// How a request is served.
pub(super) enum Serving {
    /// A plan, bound to the message.
    Plan(Box<Executable>),
    /// A function.
    Native,
}

/// A prepared request.
pub(super) struct Prepared {
    pub(super) algorithm: Arc<Algorithm>,
    pub(super) serving: Serving,
    /// When it was last used, in calls.
    used: u64,
}

/// Prepared requests, those used longest ago dropped first.
///
/// To prepare is a call of all ranks, so what is kept must depend on nothing but the calls so far.
#[derive(Default)]
pub(super) struct Cache {
    prepared: HashMap<Request, Prepared, BuildHasherDefault<Quick>>,
    calls: u64,
}

impl Cache {
    /// What was prepared for a request, or what `prepare` makes now.
    pub(super) fn get<E>(
        &mut self,
        request: &Request,
        prepare: impl FnOnce() -> Result<(Arc<Algorithm>, Serving), E>,
    ) -> Result<&mut Prepared, E> {
        self.calls += 1;
        if !self.prepared.contains_key(request) {
            let (algorithm, serving) = prepare()?;
            self.make_room();
            self.prepared.insert(*request, Prepared { algorithm, serving, used: 0 });
        }
        let calls = self.calls;
        match self.prepared.get_mut(request) {
            Some(prepared) => {
                prepared.used = calls;
                Ok(prepared)
            }
            None => unreachable!("it was inserted"),
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.prepared.clear();
    }

    fn make_room(&mut self) {
        if self.prepared.len() < KEPT {
            return;
        }
        // Calls are counted, so there is one oldest, whatever order the map has.
        let oldest = self.prepared.iter().min_by_key(|(_, prepared)| prepared.used).map(|(request, _)| *request);
        if let Some(oldest) = oldest {
            self.prepared.remove(&oldest);
        }
    }
}

/// A hash of few operations: a call of a kilobyte takes half a microsecond, of which the usual one would be a tenth. What is
/// hashed comes from the program itself.
#[derive(Default)]
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use mscclpp_core::collective::CollectiveKind;

    use super::*;
    use crate::dtype::DataType;

    #[test]
    fn requests_of_all_sizes_have_different_hashes() {
        let hasher = BuildHasherDefault::<Quick>::default();
        let request = |bytes| Request::new(CollectiveKind::AllReduce, 8, DataType::F32, bytes);
        let hashes: std::collections::BTreeSet<u64> =
            (0..10_000).map(|bytes| hasher.hash_one(request(bytes))).collect();
        assert_eq!(hashes.len(), 10_000);
    }
}
