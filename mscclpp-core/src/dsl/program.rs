//! The program that is being recorded.

use std::cell::{RefCell, RefMut};
use std::panic::Location;

use super::args::{BlockList, InputList, OutputChunk, RankList};
use super::group::ThreadBlockGroup;
use super::rank::{Rank, Ranks};
use super::recorder::{MAX_RANKS, Recorder};
use super::switch::SwitchChannel;
use super::value::POISON;
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::origin::SourceLocation;
use crate::spec::AlgoSpec;
use crate::trace::Trace;

/// A collective program while it is recorded.
///
/// The function under `#[collective]` receives one; [`compile`](fn@crate::compile) passes one to a closure, and
/// [`Program::new`] creates one directly.
pub struct Program {
    recorder: RefCell<Recorder>,
    ranks: u32,
    ranks_per_node: u32,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("ranks", &self.ranks).finish_non_exhaustive()
    }
}

impl Program {
    /// Starts a program. Findings about the specification are returned by [`finish`](Self::finish).
    pub fn new(spec: AlgoSpec) -> Self {
        // More ranks are a finding; without them a loop over `ranks()` ends, and a list of them has room.
        let (ranks, ranks_per_node) = (spec.num_ranks.min(MAX_RANKS), spec.ranks_per_node.max(1));
        Self { recorder: RefCell::new(Recorder::new(spec)), ranks, ranks_per_node }
    }

    /// Ends the program.
    ///
    /// # Errors
    /// Returns the findings of all calls.
    #[doc(hidden)]
    pub fn finish(self) -> Result<Trace, Diagnostics> {
        self.recorder.into_inner().finish()
    }

    /// Sets the source location of the following operations, instead of the caller's; `None` restores the caller's.
    #[doc(hidden)]
    pub fn set_location(&self, location: Option<SourceLocation>) {
        self.recorder.borrow_mut().set_location(location);
    }

    /// Returns the location of the current call: the caller's, unless another one is set.
    pub(crate) fn site(&self, caller: &'static Location<'static>) -> Site {
        let mut recorder = self.recorder.borrow_mut();
        recorder.set_caller_location(caller);
        recorder.site()
    }

    /// Adds a finding of the caller to those of the program, in order.
    #[doc(hidden)]
    pub fn report(&self, diagnostic: Diagnostic) {
        self.recorder.borrow_mut().report(diagnostic);
    }

    /// Removes and returns the findings so far, for a caller that reports the findings of each call itself.
    ///
    /// [`finish`](Self::finish) no longer returns them: the caller rejects the program.
    #[doc(hidden)]
    pub fn take_findings(&self) -> Diagnostics {
        self.recorder.borrow_mut().take_findings()
    }

    /// Returns the number of operations recorded so far.
    #[doc(hidden)]
    pub fn num_operations(&self) -> usize {
        self.recorder.borrow().num_operations()
    }

    /// Records the operations of `body` as a loop over windows of the message.
    ///
    /// # Shapes and units
    /// `unit` is the window per iteration in bytes, a multiple of 16 and of the buffer alignment. `num_chunks` is the
    /// span of the loop in chunks; every data operation in it covers equally many.
    ///
    /// # Errors
    /// Reports M0016 for a loop inside a loop, M0017 for an invalid unit or span.
    #[track_caller]
    pub fn pipeline<R>(&self, unit: u64, num_chunks: usize, body: impl FnOnce() -> R) -> R {
        self.begin_pipeline(unit, num_chunks);
        let result = body();
        self.end_pipeline();
        result
    }

    /// Begins a pipeline: [`pipeline`](Self::pipeline) calls it before the body.
    #[track_caller]
    #[doc(hidden)]
    pub fn begin_pipeline(&self, unit: u64, num_chunks: usize) {
        self.mark();
        self.recorder().begin_pipeline(unit, num_chunks);
    }

    /// Ends a pipeline: [`pipeline`](Self::pipeline) calls it after the body.
    #[doc(hidden)]
    pub fn end_pipeline(&self) {
        self.recorder().end_pipeline();
    }

    pub(super) fn recorder(&self) -> RefMut<'_, Recorder> {
        self.recorder.borrow_mut()
    }

    /// Records the caller's location for the following operations.
    #[track_caller]
    pub(super) fn mark(&self) {
        self.recorder.borrow_mut().set_caller_location(Location::caller());
    }

    pub(super) fn owns(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }

    /// Reports a handle of another program; returns a number that later calls ignore.
    pub(super) fn foreign(&self, what: &str) -> u32 {
        let mut recorder = self.recorder.borrow_mut();
        let diagnostic = Diagnostic::new(
            Code::ForeignHandle,
            recorder.site(),
            format!("this {what} was created by another program"),
        )
        .help(format!("create the {what} from the `p` of this program"));
        recorder.report(diagnostic);
        POISON
    }

    fn program(&self) -> &Self {
        self
    }
}

dsl! {
    table METHODS; by ref self; for [Program];
    impl[] Program {
        /// Returns the number of ranks.
        fn num_ranks(this) -> usize {
            this.ranks as usize
        }

        /// Returns the number of ranks per node; equal to the number of ranks on a single node.
        fn ranks_per_node(this) -> usize {
            this.ranks_per_node as usize
        }

        /// Returns the number of nodes.
        fn num_nodes(this) -> usize {
            this.num_ranks() / this.ranks_per_node()
        }

        /// Returns the number of chunks per rank's part of the data: the attribute's `chunk_factor`.
        fn chunk_factor(this) -> usize {
            this.recorder().spec().collective.chunk_factor as usize
        }

        /// Returns whether input and output of a call are one buffer. Such programs use the larger of the two, or the
        /// input.
        fn in_place(this) -> bool {
            this.recorder().spec().collective.in_place
        }

        /// Returns the root of a broadcast or reduce; 0 for other collectives.
        fn root(this) -> usize {
            this.recorder().spec().collective.root as usize
        }

        /// Returns the rank with a number.
        ///
        /// # Errors
        /// Reports M0002 if there is no such rank.
        fn rank(this, id: usize) -> Rank<'_> {
            Rank::new(this, this.recorder().rank(id))
        }

        /// Returns all ranks, in order.
        fn ranks(this) -> Ranks<'_> {
            Ranks::new(this, 0..this.ranks)
        }

        /// Creates a switch channel over one buffer of several ranks.
        fn switch_channel(this, ranks: RankList, buffer: BufferKind) -> SwitchChannel<'_> {
            SwitchChannel::new(this, this.recorder().switch_channel(&ranks, buffer))
        }

        /// States what a chunk of an output holds at the end: a chunk of an input, or the reduction of several, each
        /// with the multiplicity with which it is listed. The checks prove it.
        ///
        /// The postconditions of a `Custom` collective are the expectations of its program, and nothing else: outputs
        /// without one are reported by a warning (M0226). Other collectives have them in addition to their
        /// postconditions. Plan images and plan JSON contain them.
        ///
        /// # Shapes and units
        /// All have the same number of chunks.
        ///
        /// # Errors
        /// Reports M0008 for chunks of different sizes, M0010 if there are no inputs. The checks report M0224 for
        /// expectations that contradict each other.
        fn expect(this, output: OutputChunk, inputs: InputList) {
            this.recorder().expect(output, &inputs);
        }

        /// Creates a group of thread blocks that divide operations among them.
        fn thread_block_group(this, blocks: BlockList) -> ThreadBlockGroup {
            ThreadBlockGroup::from_value(&this.recorder().group(&blocks))
        }
    }
}
