//! Objects of programs that graphs keep: each is destroyed by a function of the program when the last reference to it is released.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{self, Code};
use crate::runtime::runtime;

/// Function that destroys an object.
type Destroy = unsafe extern "C" fn(*mut c_void);

/// Flag of objects whose destructors are not synchronized; it is required.
const NO_DESTRUCTOR_SYNC: c_uint = 1;

/// Flag of graphs that take the caller's references.
const MOVE: c_uint = 1;

struct Object {
    address: usize,
    destroy: Destroy,
    references: u64,
}

/// Objects by handle, and the references of graphs and their instances.
#[derive(Default)]
struct Objects {
    all: BTreeMap<usize, Object>,
    of_graphs: BTreeMap<usize, Vec<(usize, u64)>>,
    created: usize,
}

static OBJECTS: Mutex<Objects> = Mutex::new(Objects { all: BTreeMap::new(), of_graphs: BTreeMap::new(), created: 0 });

fn objects() -> MutexGuard<'static, Objects> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Releases references to an object, which is destroyed with the last one.
fn release(handle: usize, count: u64) -> Result<(), Code> {
    let mut objects = objects();
    let object = objects.all.get_mut(&handle).ok_or(error::INVALID_VALUE)?;
    object.references = object.references.checked_sub(count).ok_or(error::INVALID_VALUE)?;
    if object.references == 0 {
        let destroyed = objects.all.remove(&handle);
        drop(objects);
        if let Some(Object { address, destroy, .. }) = destroyed {
            // SAFETY: the program's function for the program's object, which is destroyed once.
            unsafe { destroy(address as *mut c_void) };
        }
    }
    Ok(())
}

/// Gives an instance of a graph references to the objects of the graph.
pub(crate) fn instantiate(graph: usize, instance: usize) {
    let mut objects = objects();
    let kept = objects.of_graphs.get(&graph).cloned().unwrap_or_default();
    for (handle, count) in &kept {
        if let Some(object) = objects.all.get_mut(handle) {
            object.references += count;
        }
    }
    if !kept.is_empty() {
        objects.of_graphs.insert(instance, kept);
    }
}

/// Releases the references of a graph, or of an instance, that is destroyed.
pub(crate) fn destroy(graph: usize) -> Result<(), Code> {
    let kept = objects().of_graphs.remove(&graph).unwrap_or_default();
    kept.into_iter().try_for_each(|(handle, count)| release(handle, count))
}

runtime! {
    fn cudaUserObjectCreate(
        object: *mut usize,
        address: usize,
        destroy: Option<Destroy>,
        references: c_uint,
        flags: c_uint,
    ) -> object {
        let destroy = destroy.ok_or(error::INVALID_VALUE)?;
        if references == 0 || flags != NO_DESTRUCTOR_SYNC {
            return Err(error::INVALID_VALUE);
        }
        let mut objects = objects();
        objects.created += 1;
        let handle = objects.created;
        objects.all.insert(handle, Object { address, destroy, references: u64::from(references) });
        Ok(handle)
    }

    fn cudaUserObjectRelease(object: usize, count: c_uint) { release(object, u64::from(count)) }

    fn cudaGraphRetainUserObject(graph: usize, object: usize, count: c_uint, flags: c_uint) {
        if count == 0 || flags & !MOVE != 0 {
            return Err(error::INVALID_VALUE);
        }
        let mut objects = objects();
        let known = objects.all.get_mut(&object).ok_or(error::INVALID_VALUE)?;
        if flags != MOVE {
            known.references += u64::from(count);
        }
        objects.of_graphs.entry(graph).or_default().push((object, u64::from(count)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    unsafe extern "C" fn count(counter: *mut c_void) {
        // SAFETY: the counter of the test below.
        unsafe { &*counter.cast::<AtomicU32>() }.fetch_add(1, Relaxed);
    }

    fn add(references: u64, counter: &AtomicU32) -> usize {
        let mut objects = objects();
        objects.created += 1;
        let (handle, address) = (objects.created, std::ptr::from_ref(counter) as usize);
        objects.all.insert(handle, Object { address, destroy: count, references });
        handle
    }

    #[test]
    fn object_is_destroyed_with_its_last_reference() {
        let counter = AtomicU32::new(0);
        let object = add(1, &counter);
        objects().of_graphs.insert(1 << 40, vec![(object, 1)]);
        instantiate(1 << 40, 7);
        assert_eq!(destroy(1 << 40), Ok(()));
        assert_eq!(counter.load(Relaxed), 0, "the instance keeps the object");
        assert_eq!(destroy(7), Ok(()));
        assert_eq!(counter.load(Relaxed), 1);
        assert_eq!(release(object, 1), Err(error::INVALID_VALUE));
    }

    #[test]
    fn more_references_than_exist_are_not_released() {
        let counter = AtomicU32::new(0);
        let object = add(2, &counter);
        assert_eq!(release(object, 3), Err(error::INVALID_VALUE));
        assert_eq!((release(object, 2), counter.load(Relaxed)), (Ok(()), 1));
    }
}
