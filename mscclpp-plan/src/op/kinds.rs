//! The kinds of operations, each declared once with its properties. Checks, passes, executors and formats derive what
//! they do from these; where the compiler reports a `match`, a new value of a property needs its own code.

use super::properties::*;
use crate::types::ChannelKind::{Memory, Port, Switch};

/// Declares [`OpKind`] and the properties of each kind.
macro_rules! op_kinds {
    ($($(#[doc = $doc:literal])* $kind:ident = $name:literal, $functions:literal: $properties:expr;)*) => {
        /// Kind of an operation. `docs/plan-format.md` lists the operands, channels and attributes of each kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum OpKind { $($(#[doc = $doc])* $kind,)* }

        impl OpKind {
            /// All kinds, in the order of their discriminants.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Returns the name used in plan JSON, in plan text and in messages.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Returns the kind with a name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$kind),)* _ => None }
            }

            /// Returns the functions of the authoring API that record this kind, for messages.
            pub const fn functions(self) -> &'static str {
                match self { $(Self::$kind => $functions,)* }
            }

            /// Returns what an operation of this kind does, in a sentence.
            #[doc(hidden)]
            pub const fn description(self) -> &'static str {
                match self { $(Self::$kind => concat!($($doc),*),)* }
            }
        }

        pub(super) static PROPERTIES: [Properties; OpKind::ALL.len()] = [$($properties),*];
    };
}

op_kinds! {
    /// Synchronizes all threads of the block.
    Nop = "nop", "a block sync": control(OpClass::BlockSync);
    /// Synchronizes all threads of several blocks.
    Barrier = "barrier", "`barrier`": control(OpClass::Barrier).with_ids(&[], IdList::Barrier);
    /// Copies local data to a local buffer.
    Copy = "copy", "`copy`": pairs(LOCAL, LOCAL);
    /// Copies local plain data to packets in the rank's own scratch.
    CopyPackets = "cpkt", "`copy_packets`": pairs(LOCAL, LOCAL.packets());
    /// Copies packets in the rank's own scratch to local plain data.
    UnpackPackets = "upkt", "`unpack_packets`": pairs(LOCAL.packets(), LOCAL);
    /// Copies local data to a remote buffer.
    Put = "put", "`put`":
        pairs(LOCALS, REMOTES).with_ids(&[Memory, Port], IdList::ChannelPerPortDestination);
    /// Port put followed by a signal.
    PutWithSignal = "pws", "`put_with_signal`": port_put(false);
    /// Port put followed by a signal and a flush.
    PutWithSignalAndFlush = "pwsf", "`put_with_signal_and_flush`": port_put(true);
    /// Copies local plain data to packets in remote scratch.
    PutPackets = "ppkt", "`put_packets`":
        pairs(LOCALS, REMOTES.packets()).with_ids(&[Memory, Port], IdList::ChannelPerPortDestination);
    /// Copies packets in the rank's own scratch to packets in remote scratch.
    ReadPutPackets = "rppkt", "`read_put_packets`":
        spread(LOCAL.packets(), REMOTES.packets())
            .with_ids(&[Memory, Port], IdList::ChannelPerPortDestination);
    /// Copies remote data to a local buffer.
    Get = "get", "`get`": pairs(REMOTES, LOCALS).with_ids(&[Memory], IdList::ChannelPerPair);
    /// Reduces local sources into a local destination.
    Reduce = "re", "`reduce`": combine(SOURCES, LOCAL);
    /// `Reduce` whose result is also written to remote destinations.
    ReduceSend = "res", "`reduce` (fused with `put`)":
        combine(SOURCES, LOCAL.and_remotes()).over(&[Memory]);
    /// Reduces a local source with remote sources into a local destination.
    ReadReduce = "rre", "`reduce`": combine(LOCAL.and_remotes(), LOCAL).over(&[Memory]);
    /// `ReadReduce` whose result is also written to remote destinations.
    ReadReduceSend = "rres", "`reduce` (fused with `put`)":
        combine(LOCAL.and_remotes(), LOCAL.and_remotes()).over(&[Memory]);
    /// Reduces a plain source with packets in the rank's own scratch into plain data.
    ReducePackets = "repkt", "`reduce_packets`": combine(SOURCES.rest_packets(), LOCAL);
    /// `ReducePackets` whose result is also written as packets to remote scratch.
    ReduceSendPackets = "respkt", "`reduce_packets` (fused with `put_packets`)":
        combine(SOURCES.rest_packets(), LOCAL.and_remotes().rest_packets()).over(&[Memory]);
    /// `ReducePackets` whose result is also written as packets to the rank's own scratch.
    ReduceCopyPackets = "recpkt", "`reduce_packets` (fused with `copy_packets`)":
        combine(SOURCES.rest_packets(), TWO_LOCAL.rest_packets());
    /// `ReduceCopyPackets` whose result is also written as packets to remote scratch.
    ReduceCopySendPackets = "recspkt", "`reduce_packets` (fused with `copy_packets` and `put_packets`)":
        combine(SOURCES.rest_packets(), TWO_LOCAL.and_remotes().rest_packets()).over(&[Memory]);
    /// Multicast load-reduce into a local destination.
    SwitchReduce = "glre", "`reduce`": combine(WINDOW, LOCAL).over(&[Switch]).not_in_reference(
        "is not fused with a broadcast, which the reference executor requires",
        "broadcast its result directly after it, so that the two operations are fused",
    );
    /// Multicast load-reduce, multicast store.
    SwitchReduceBroadcast = "glres", "`reduce` (fused with `broadcast`)":
        combine(WINDOW, WINDOW).over(&[Switch]);
    /// Multicast store of local data.
    SwitchBroadcast = "gstore", "`broadcast`": spread(LOCAL, WINDOW).over(&[Switch]);
    /// Multicast store of packets in the rank's own scratch.
    SwitchBroadcastPackets = "gstorepkt", "`broadcast_packets`":
        spread(LOCAL.packets(), WINDOW.packets()).over(&[Switch]);
    /// Increments the peer's counter; publishes earlier writes.
    Signal = "signal", "`signal`": channels(OpClass::Signal { relaxed: false }, &[Memory, Port]);
    /// Waits for one signal; published writes become visible.
    Wait = "wait", "`wait`": channels(OpClass::Wait { relaxed: false }, &[Memory, Port]);
    /// A signal that publishes nothing.
    RelaxedSignal = "rlxsignal", "the relaxed `signal`": channels(OpClass::Signal { relaxed: true }, &[Memory, Port]);
    /// A wait that makes no writes visible.
    RelaxedWait = "rlxwait", "the relaxed `wait`": channels(OpClass::Wait { relaxed: true }, &[Memory, Port]);
    /// Waits until earlier port operations have read their sources.
    Flush = "flush", "`flush`": channels(OpClass::Flush, &[Port]);
    /// Takes one unit of a semaphore, waiting until one is available.
    SemaphoreAcquire = "sem_acquire", "`acquire`": control(OpClass::Acquire).with_ids(&[], IdList::Semaphores);
    /// Returns one unit to a semaphore.
    SemaphoreRelease = "sem_release", "`release`": control(OpClass::Release).with_ids(&[], IdList::Semaphores);
    /// Repeats its body over windows of the message.
    Pipeline = "pipeline", "`pipeline`": control(OpClass::Pipeline);
    /// Gives the rank's row of counts to all ranks, and waits for the rows of all.
    ExchangeCounts = "counts", "`exchange_counts`": counted(control(OpClass::ExchangeCounts));
    /// Copies the counted elements of a local chunk to a local chunk.
    CopyCounted = "copyv", "`copy_counted`": counted(pairs(LOCAL, LOCAL));
    /// Copies the counted elements of a local chunk to a remote chunk.
    PutCounted = "putv", "`put_counted`":
        counted(pairs(LOCAL, REMOTE).with_ids(&[Memory, Port], IdList::ChannelPerPortDestination));
    /// Copies the counted elements of a remote chunk to a local chunk.
    GetCounted = "getv", "`get_counted`": counted(pairs(REMOTE, LOCAL).over(&[Memory]));
    /// Adds the residual to every row of a local chunk, and normalizes the rows into a chunk of the output.
    RowNorm = "row_norm", "`row_norm`": data(Flow::Pairs, Function::RowNorm, LOCAL, LOCAL)
        .not_in_reference("is unknown to the reference executor", "run the plan with this runtime");
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpClass {
    /// Synchronizes the threads of its block.
    BlockSync,
    /// Synchronizes the threads of several blocks.
    Barrier,
    /// Moves or combines data.
    Data(Flow, Function),
    /// Increments the peers' counters of its channels.
    Signal {
        /// Whether it publishes no writes.
        relaxed: bool,
    },
    /// Waits for a signal on each of its channels.
    Wait {
        /// Whether it makes no writes visible.
        relaxed: bool,
    },
    /// Waits until the proxy has read the sources of earlier puts.
    Flush,
    /// Takes a unit of each of its semaphores.
    Acquire,
    /// Returns a unit to each of its semaphores.
    Release,
    /// Repeats its body.
    Pipeline,
    /// Exchanges the rows of counts of all ranks.
    ExchangeCounts,
}

/// From which sources a data operation computes each destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Destination i from source i.
    Pairs,
    /// Each from all sources.
    All,
}

/// What a data operation computes of its sources, for every element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The source itself.
    Copy,
    /// The element of the source's row once the residual is added and the row normalized, so of its whole row.
    RowNorm,
    /// The reduction of all sources.
    Reduce,
}

#[doc(hidden)]
impl OpKind {
    /// Returns the opcode of an operation of this kind; `port`: over port channels, which have no relaxed forms.
    pub const fn opcode(self, port: bool) -> Opcode {
        match self.class() {
            OpClass::BlockSync => Opcode::Nop,
            OpClass::Barrier => Opcode::Barrier,
            OpClass::Signal { .. } if port => Opcode::PortSignal,
            OpClass::Signal { relaxed } => Opcode::Signal { relaxed },
            OpClass::Wait { relaxed } => Opcode::Wait { relaxed: relaxed && !port },
            OpClass::Flush => Opcode::Flush,
            OpClass::Acquire => Opcode::Acquire,
            OpClass::Release => Opcode::Release,
            OpClass::Pipeline => Opcode::Loop,
            OpClass::ExchangeCounts => Opcode::ExchangeCounts,
            OpClass::Data(..) if self.is_counted() && !port => Opcode::Transfer(Transfer::CopyCounted),
            OpClass::Data(Flow::Pairs, Function::Copy) if port || self.signals() => {
                Opcode::Port { signal: self.signals(), flush: self.then_flushes() }
            }
            OpClass::Data(flow, Function::Copy) => match (flow, self.srcs().packets, self.dsts().packets) {
                (Flow::Pairs, Packets::All, _) => Opcode::Transfer(Transfer::Unpack),
                (Flow::Pairs, _, Packets::All) => Opcode::Transfer(Transfer::Pack),
                (Flow::Pairs, ..) => Opcode::Transfer(Transfer::Copy),
                (Flow::All, Packets::All, _) if port => Opcode::PortForward,
                (Flow::All, Packets::All, _) => Opcode::Transfer(Transfer::Forward),
                // A reduction of one source stores it unchanged.
                (Flow::All, ..) => Opcode::Transfer(Transfer::Reduce),
            },
            OpClass::Data(_, Function::RowNorm) => Opcode::Transfer(Transfer::RowNorm),
            OpClass::Data(_, Function::Reduce) => Opcode::Transfer(Transfer::Reduce),
        }
    }
}

/// Opcode of an instruction of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the kinds of operations")]
pub enum Opcode {
    Nop,
    /// In memory, by the threads of the block.
    Transfer(Transfer),
    /// Through the proxy: source i to destination i, plain or packets, then a signal or flush as given.
    Port {
        signal: bool,
        flush: bool,
    },
    /// Through the proxy, once all packets of the source are present: to every destination.
    PortForward,
    Signal {
        relaxed: bool,
    },
    PortSignal,
    Wait {
        relaxed: bool,
    },
    Flush,
    Acquire,
    Release,
    Barrier,
    Loop,
    ExchangeCounts,
}

/// What the threads of a block do with operands in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Plain source i to plain destination i.
    Copy,
    /// Plain source i to packets i.
    Pack,
    /// Packets i to plain destination i.
    Unpack,
    /// The packets of one source to every destination.
    Forward,
    /// The counted elements of plain source 0 to plain destination 0.
    CopyCounted,
    /// Every row of plain source 0 to plain destination 0.
    RowNorm,
    /// All sources from left to right, into all destinations. With one plain source this is a broadcast.
    Reduce,
}

/// Calls a macro with the opcodes of instructions on devices, before its other arguments. `cuda::abi` declares them
/// for kernels.
#[doc(hidden)]
#[macro_export]
macro_rules! device_opcodes {
    ($then:ident! { $($rest:tt)* }) => {
        $then! {
            opcodes {
                NOP = 0;
                COPY = 1;
                PACK = 2;
                UNPACK = 3;
                FORWARD = 4;
                REDUCE = 5;
                PORT = 6;
                PORT_FORWARD = 7;
                /// `REDUCE` where operands may have multicast addresses.
                SWITCH = 8;
                /// `FORWARD` where destinations may have a multicast address.
                SWITCH_FORWARD = 9;
                SIGNAL = 10;
                PORT_SIGNAL = 11;
                WAIT = 12;
                FLUSH = 13;
                ACQUIRE = 14;
                RELEASE = 15;
                BARRIER = 16;
                LOOP = 17;
                EXCHANGE_COUNTS = 18;
                COPY_COUNTED = 19;
                ROW_NORM = 20;
            }
            $($rest)*
        }
    };
}

macro_rules! numbers {
    (opcodes { $($(#[doc = $doc:literal])* $name:ident = $number:literal;)* }) => {
        $(#[allow(dead_code, reason = "some are for devices alone")] const $name: u8 = $number;)*
    };
}

impl Opcode {
    /// Returns whether the instruction uses the proxy.
    pub const fn is_port(self) -> bool {
        self.is_port_send() || matches!(self, Self::Flush)
    }

    /// Returns whether the proxy sends data or signals for the instruction.
    pub const fn is_port_send(self) -> bool {
        matches!(self, Self::Port { .. } | Self::PortForward | Self::PortSignal)
    }

    /// Returns its number on devices.
    pub const fn on_device(self) -> u8 {
        device_opcodes! { numbers! {} }
        match self {
            Self::Nop => NOP,
            Self::Transfer(Transfer::Copy) => COPY,
            Self::Transfer(Transfer::Pack) => PACK,
            Self::Transfer(Transfer::Unpack) => UNPACK,
            Self::Transfer(Transfer::Forward) => FORWARD,
            Self::Transfer(Transfer::Reduce) => REDUCE,
            Self::Port { .. } => PORT,
            Self::PortForward => PORT_FORWARD,
            Self::Signal { .. } => SIGNAL,
            Self::PortSignal => PORT_SIGNAL,
            Self::Wait { .. } => WAIT,
            Self::Flush => FLUSH,
            Self::Acquire => ACQUIRE,
            Self::Release => RELEASE,
            Self::Barrier => BARRIER,
            Self::Loop => LOOP,
            Self::ExchangeCounts => EXCHANGE_COUNTS,
            Self::Transfer(Transfer::CopyCounted) => COPY_COUNTED,
            Self::Transfer(Transfer::RowNorm) => ROW_NORM,
        }
    }
}
