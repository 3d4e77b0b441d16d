//! Posts the calls of a rank to its call ring, and compares them with those of its peers.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

use mscclpp_bootstrap::{Bootstrap, place};

use crate::communicator::forced::Variant;
use crate::communicator::point_to_point::describe_transfer;
use mscclpp_base::dtype::{DataType, ElementType};
use mscclpp_base::error::Error;
use mscclpp_base::experts::ExpertShape;
use mscclpp_base::interpret::RowForm;
use mscclpp_base::numeric::AccumType;
use mscclpp_exec::cuda::PayloadForm;
use mscclpp_exec::cuda::channels::ChannelOptions;
use mscclpp_exec::process::{CallRing, CallText};
use mscclpp_select::Request;

/// Maximum number of kinds of calls whose texts are kept.
const MAX_TEXTS: usize = 1024;

/// Position of registered memory: the allocation's number, and the first byte in it.
pub(super) type Position = (u64, u64);

/// What travels in a call; ranks make the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Travels {
    /// Rows of tokens to experts, as they are.
    Rows,
    /// Rows of e4m3, with scales.
    Scaled,
    /// Rows back from experts.
    Results,
}

impl Travels {
    pub(super) fn of(form: PayloadForm) -> Self {
        match form {
            PayloadForm::Plain => Self::Rows,
            PayloadForm::Scaled => Self::Scaled,
        }
    }

    /// Describes the call.
    pub(super) fn describe(self, dtype: DataType, shape: &ExpertShape) -> String {
        let ExpertShape { hidden, num_experts, top_k, max_tokens } = shape;
        let call = match self {
            Self::Rows => "dispatch",
            Self::Scaled => "dispatch of e4m3",
            Self::Results => "combine",
        };
        let rows = format!("rows of {hidden} {}, {top_k} of {num_experts} experts", dtype.name());
        format!("{call}, {rows}, at most {max_tokens} tokens of a rank, on devices")
    }
}

/// A kind of call. Ranks make the same call if its kind is equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A collective, on registered input and output or on other memory, by one of the algorithms that were set.
    Collective(Request, [Option<Position>; 2], Variant),
    /// A collective whose rows, of this number of elements, are added in a type and normalized.
    RowNorm(Request, u32, AccumType, RowForm),
    /// An allocation of this number of bytes.
    Alloc(u64),
    /// A registration of this number of bytes.
    Register(u64),
    /// A window of this number of bytes.
    Window(u64),
    /// A mapping of this number of bytes of all ranks in one range of addresses.
    FlatMapping(u64),
    /// A mapping of ranges of all ranks.
    Regions,
    /// Channels of kernels over this number of bytes.
    Channels(ChannelOptions, u64),
    /// An agreement whether a collective is made in place.
    Agreement(Request),
    /// A collective on slices.
    OnSlices(Request),
    /// A transfer of this number of elements from one of two ranks.
    Transfer(u64, ElementType, u32),
    /// A gather of this number of elements of each rank to a root.
    Gather(usize, ElementType, u32),
    /// A scatter of this number of elements to each rank from a root.
    Scatter(usize, ElementType, u32),
    /// Parts of elements from each rank to each other one.
    AllToAllV(ElementType),
    /// Rows of elements of a type to experts, or back.
    Experts(Travels, DataType, ExpertShape),
    /// A barrier of the host.
    Barrier,
}

impl Kind {
    /// Describes the call, the same on all ranks.
    pub(super) fn describe(&self) -> String {
        self.describe_chosen("")
    }

    /// Describes the call, with the choice of an algorithm that follows the description of a request.
    fn describe_chosen(&self, choice: &str) -> String {
        let (request, positions) = match self {
            Self::Alloc(bytes) => return format!("alloc of {bytes} bytes on devices"),
            Self::Register(bytes) => return format!("registration of {bytes} bytes on devices"),
            Self::Window(bytes) => return format!("window of {bytes} bytes on devices"),
            Self::FlatMapping(bytes) => return format!("mapping of {bytes} bytes of all ranks in one range"),
            Self::Regions => return "mapping of memory of all ranks".into(),
            Self::Channels(options, bytes) => return format!("channels over {bytes} bytes on devices, {options}"),
            Self::RowNorm(request, hidden, accumulator, form) => {
                let accumulator = accumulator.name();
                let rows = format!("normalized rows of {hidden}, accumulator {accumulator}, {form}");
                return format!("{request:#} with {rows}, on devices");
            }
            Self::Agreement(request) => return format!("agreement about {request:#}, on devices"),
            Self::OnSlices(request) => return format!("{request:#}, on slices"),
            Self::Transfer(len, elements, from) => return describe_transfer(*len, *elements, *from),
            Self::Gather(len, elements, root) => {
                return format!("gather of {len} {elements} to rank {root}, on devices");
            }
            Self::Scatter(len, elements, root) => {
                return format!("scatter of {len} {elements} from rank {root}, on devices");
            }
            Self::AllToAllV(elements) => return format!("all_to_all_v of {elements}, on devices"),
            Self::Experts(travels, dtype, shape) => return travels.describe(*dtype, shape),
            Self::Barrier => return "barrier".into(),
            Self::Collective(request, positions, _) => (request, positions),
        };
        let mut text = format!("{request:#}{choice}, on devices");
        for (name, position) in ["input", "output"].into_iter().zip(positions) {
            if let Some((allocation, offset)) = position {
                text += &format!(", {name} at byte {offset} of allocation {allocation}");
            }
        }
        text
    }
}

/// A kind of call, address of its source location, and the name that messages state instead.
type Key = (Kind, usize, Option<&'static str>);

/// The calls of a rank, as its peers see them.
pub(super) struct PostedCalls {
    pub(super) ring: CallRing,
    texts: HashMap<Key, Arc<CallText>>,
    /// That of the last call: most often the next one has it too.
    last: Option<(Key, Arc<CallText>)>,
}

impl PostedCalls {
    pub(super) fn new(ring: CallRing) -> Self {
        Self { ring, texts: HashMap::new(), last: None }
    }

    /// Records that this rank makes a call, and compares the calls of all ranks so far. `choice` describes the algorithm that was chosen for
    /// it.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] with the mismatch, of which the other ranks do not know yet.
    pub(super) fn post(
        &mut self,
        kind: Kind,
        choice: impl FnOnce() -> String,
        place: &'static Location<'static>,
        bootstrap: &Bootstrap,
    ) -> Result<(), Error> {
        let (at, name) = (std::ptr::from_ref(place).addr(), place::name());
        let key = (kind, at, name);
        if self.last.as_ref().is_none_or(|(last, _)| *last != key) {
            if self.texts.len() >= MAX_TEXTS {
                self.texts.clear();
            }
            let place = || name.map_or_else(|| place.to_string(), str::to_owned);
            let describe = || CallText::new(&kind.describe_chosen(&choice()), &place());
            let text = self.texts.entry(key).or_insert_with(|| Arc::new(describe()));
            self.last = Some((key, Arc::clone(text)));
        }
        if let Some((_, text)) = &self.last {
            self.ring.post(text);
        }
        Ok(self.ring.compare(bootstrap)?)
    }
}
