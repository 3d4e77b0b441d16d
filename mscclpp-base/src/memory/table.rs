//! Lends slices to workers.

use std::marker::PhantomData;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use super::Span;

/// Slices that are currently lent, by number.
#[derive(Default)]
pub struct Table {
    lent: RwLock<Vec<Lent>>,
}

/// A lent slice.
#[derive(Clone, Copy)]
pub struct Lent {
    pub(super) base: *mut u8,
    pub(super) len: usize,
    /// Whether it is lent for reading only.
    pub(super) shared: bool,
}

/// A slice that is lent for a launch.
pub enum Loan<'a> {
    Read(&'a [u8]),
    Write(&'a mut [u8]),
}

impl Loan<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Write(bytes) => bytes,
        }
    }

    pub fn is_written(&self) -> bool {
        matches!(self, Self::Write(_))
    }
}

impl Lent {
    /// An empty slice.
    pub const EMPTY: Self = Self { base: std::ptr::dangling_mut::<u64>().cast(), len: 0, shared: true };

    /// Returns a slice of memory at an address; `shared`: for reading only.
    ///
    /// # Safety
    /// For as long as [`LentSlices`] have the result, `len` bytes from `base` on are valid for reads, and no thread writes to
    /// them if `shared`. Otherwise they are valid for writes too, and this process accesses them in atomic units only (see
    /// the module).
    pub unsafe fn new(base: *mut u8, len: usize, shared: bool) -> Self {
        Self { base, len, shared }
    }
}

// SAFETY: the pointer is only used through `LentSlices`, in atomic units (see the module), which any thread may do at
// any time.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

/// Passes slices to a [`Table`], where they get the numbers 0, 1, ….
pub struct Lender<'t, 'a> {
    list: &'t mut Vec<Lent>,
    slices: PhantomData<&'a mut [u8]>,
}

impl<'a> Lender<'_, 'a> {
    /// Lends a slice.
    pub fn push(&mut self, loan: Loan<'a>) {
        self.list.push(match loan {
            Loan::Read(slice) => Lent { base: slice.as_ptr().cast_mut(), len: slice.len(), shared: true },
            Loan::Write(slice) => Lent { base: slice.as_mut_ptr(), len: slice.len(), shared: false },
        });
    }
}

impl Table {
    /// Lends slices while `run` runs. When this returns, no thread can access them through the table any more; it waits
    /// for workers that still hold [`LentSlices`].
    pub fn lend<'a, R>(&self, fill: impl FnOnce(&mut Lender<'_, 'a>), run: impl FnOnce() -> R) -> R {
        /// Takes the slices back, also on a panic.
        struct TakeBack<'t>(&'t Table);
        impl Drop for TakeBack<'_> {
            fn drop(&mut self) {
                self.0.lent.write().unwrap_or_else(PoisonError::into_inner).clear();
            }
        }

        let _take_back = TakeBack(self);
        {
            let mut list = self.lent.write().unwrap_or_else(PoisonError::into_inner);
            list.clear();
            fill(&mut Lender { list: &mut list, slices: PhantomData });
        }
        run()
    }

    /// Keeps the lent slices accessible for as long as the result lives.
    pub fn hold(&self) -> Held<'_> {
        Held(self.lent.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Slices that are not taken back before this is dropped.
pub struct Held<'t>(RwLockReadGuard<'t, Vec<Lent>>);

impl Held<'_> {
    /// Returns access to the slices.
    pub fn memory(&self) -> LentSlices<'_> {
        // The slices live for `'a` of `lend`, so at least until it returns, and it does not return before this guard is
        // dropped. During that time their owner has lent them and does not access them.
        LentSlices(&self.0)
    }
}

/// Access to lent slices.
#[derive(Clone, Copy)]
pub struct LentSlices<'t>(&'t [Lent]);

impl<'t> LentSlices<'t> {
    /// Returns access to slices, numbered 0, 1, ….
    pub fn new(slices: &'t [Lent]) -> Self {
        Self(slices)
    }

    /// Returns a lent slice; an empty one if none has that number.
    #[inline]
    pub fn slice(&self, number: usize) -> Span<'t> {
        self.0.get(number).map_or(Span::EMPTY, Span::new)
    }
}
