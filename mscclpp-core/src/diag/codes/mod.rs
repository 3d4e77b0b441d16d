//! All codes, by area: recording `M00xx`, evaluation `M01xx`, checks `M02xx`, formats `M03xx`, execution `M04xx`.

mod check;
mod evaluate;
mod execute;
mod format;
mod record;

use super::catalogue::Entry;

/// The areas in order of their numbers, with titles.
pub(super) const AREAS: &[(&str, &[(Code, Entry)])] = &[
    ("Recording a program", record::ENTRIES),
    ("Evaluating a program at compile time", evaluate::ENTRIES),
    ("Checking a plan", check::ENTRIES),
    ("Reading and writing plans", format::ENTRIES),
    ("Running a plan", execute::ENTRIES),
];

/// Declares the enum and the list of its variants.
macro_rules! variants {
    ($($code:ident,)*) => {
        /// Identifies a rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    BadSpec,
    ChunkOutOfRange,
    ReversedSlice,
    EmptyChunk,
    WrongRank,
    SizeMismatch,
    OverlappingCopy,
    EmptyList,
    BlockOutOfRange,
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
    ChunksApart,
    // evaluate
    BadAttribute,
    BadSignature,
    NotInSubset,
    OutsideName,
    TypeError,
    Panicked,
    Overflow,
    DivisionByZero,
    NoSuchElement,
    LossyCast,
    TooManySteps,
    TooDeep,
    TooManyElements,
    Internal,
    // check
    UnmatchedWait,
    IndexOutOfRange,
    BadOperands,
    BadLoop,
    BarrierMismatch,
    UnevenChunks,
    SemaphoreDrift,
    Deadlock,
    OverLimit,
    Race,
    Relaunch,
    EarlyAccess,
    OpenEnd,
    WrongResult,
    DoubleCounted,
    UninitialisedRead,
    ClobberedInput,
    TooIntricate,
    PacketsWithoutRoom,
    SharedScratch,
    PlainDoubleScratch,
    TooFewThreads,
    Undecided,
    ContradictingExpectations,
    AcrossNodes,
    NoPostcondition,
    // format
    NotJson,
    MissingKey,
    WrongType,
    UnknownName,
    UnknownKey,
    DuplicateKey,
    Contradiction,
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
    UnequalParts,
    MessageTooLarge,
    FixedReduction,
    NoSuchReduction,
    WrongBuffers,
    WrongPlace,
    ReadOnlyInput,
    OutOfResources,
    ExecutorFault,
    LostRank,
    DifferentCalls,
    NoAlgorithm,
    InvalidCall,
    CallPanicked,
    NotResident,
    NoDevice,
    DriverFailed,
    NotCompiled,
    NoPeerAccess,
    Capturing,
}
