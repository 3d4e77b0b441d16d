//! All codes, by area: recording `M00xx`, evaluation `M01xx`, checks `M02xx`, of plans with
//! counts from `M0230` on, and with rows from `M0233` on, formats `M03xx`, execution `M04xx`.

mod check;
mod counts;
mod evaluate;
mod execute;
mod format;
mod record;
mod rows;

use super::catalogue::Entry;

/// The areas in order of their numbers, with titles.
pub(super) const AREAS: &[(&str, &[(Code, Entry)])] = &[
    ("Recording a program", record::ENTRIES),
    ("Evaluating a program at compile time", evaluate::ENTRIES),
    ("Checking a plan", check::ENTRIES),
    ("Checking a plan whose sizes are counts", counts::ENTRIES),
    ("Checking a plan that normalizes rows", rows::ENTRIES),
    ("Reading and writing plans", format::ENTRIES),
    ("Running a plan", execute::ENTRIES),
];

/// Declares the enum and the list of its variants.
macro_rules! variants {
    ($($code:ident,)*) => {
        /// Identifies a rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code { $(
            #[allow(missing_docs, reason = "the catalogue says what each code means")]
            $code,
        )* }

        impl Code {
            #[cfg(test)]
            pub(super) const VARIANTS: &[Self] = &[$(Self::$code,)*];
        }
    };
}

variants! {
    // record
    NoRanks,
    RankOutOfRange,
    BadSpecification,
    ChunkOutOfRange,
    ReversedSlice,
    EmptyChunk,
    WrongRank,
    SizeMismatch,
    OverlappingCopy,
    EmptyList,
    ThreadBlockOutOfRange,
    BadGroup,
    BadBarrier,
    SelfChannel,
    NotAMember,
    NestedPipeline,
    BadPipeline,
    TooLarge,
    NotScratch,
    ForeignHandle,
    MixedSizes,
    WrongChannel,
    NonContiguousChunks,
    // evaluate
    BadAttribute,
    BadSignature,
    NotInSubset,
    UnresolvedName,
    TypeError,
    Panicked,
    Overflow,
    DivisionByZero,
    NoSuchElement,
    LossyCast,
    TooManySteps,
    RecursionLimit,
    TooManyElements,
    Internal,
    // check
    UnmatchedWait,
    IndexOutOfRange,
    BadOperands,
    BadLoop,
    BarrierMismatch,
    ChunkCountMismatch,
    UnbalancedSemaphore,
    Deadlock,
    OverLimit,
    Race,
    CrossLaunchRace,
    EarlyAccess,
    LateAccess,
    WrongResult,
    DoubleCounted,
    UninitializedRead,
    ClobberedInput,
    AnalysisLimit,
    PacketsNeedLl,
    MixedScratch,
    PlainDoubleScratch,
    TooFewThreads,
    Undecided,
    ContradictingExpectations,
    AcrossNodes,
    NoPostcondition,
    ShortChunk,
    MixedAverage,
    RedundantTransfer,
    MissingCounts,
    CountMismatch,
    NotCountable,
    SplitRow,
    RepeatedNorm,
    NotNormalized,
    // format
    NotJson,
    MissingKey,
    WrongType,
    UnknownName,
    UnknownKey,
    DuplicateKey,
    InconsistentValue,
    BadReference,
    NestedLoop,
    BadImage,
    NotInReference,
    NotPlanText,
    // execute
    Stalled,
    WrongNumberOfRanks,
    MalformedPlan,
    MessageOutOfRange,
    IndivisibleCount,
    MessageTooLarge,
    FixedReduction,
    NoSuchReduction,
    WrongBuffers,
    InPlaceMismatch,
    ReadOnlyInput,
    OutOfResources,
    ExecutorFault,
    LostRank,
    CallMismatch,
    NoAlgorithm,
    InvalidCall,
    CallPanicked,
    NotResident,
    NoDevice,
    DriverFailed,
    NotCompiled,
    NoPeerAccess,
    Capturing,
    CountOverflow,
}
