//! What a handle of a rank states of the calls that are made through it. All ranks state the same.

use super::Communicator;
use mscclpp_base::dtype::{DataType, ElementName, ElementType};
use mscclpp_base::message::PacketType;
use mscclpp_base::numeric::AccumType;
use mscclpp_select::OrderPolicy;

impl Communicator {
    /// Returns a handle of this rank whose calls demand at least this of the order in which they reduce floats.
    #[must_use]
    #[doc(hidden)]
    pub fn with_order_at_least(&self, policy: OrderPolicy) -> Self {
        Self { least_order: policy, ..self.clone() }
    }

    /// Returns a handle of this rank whose calls use these packets, if their plans use packets. Results do not depend on it. Ranks that
    /// differ make different calls.
    #[must_use]
    #[doc(hidden)]
    pub fn with_packets(&self, packet: PacketType) -> Self {
        Self { packet, ..self.clone() }
    }

    /// Returns a handle of this rank whose calls with row norms ([`all_reduce_rms_norm`](Self::all_reduce_rms_norm) and others) add the
    /// rows of all ranks in this type, and round the sum once. By default they round after every addition. Other calls are made as
    /// before. Ranks that differ make different calls.
    #[must_use]
    pub fn with_row_accumulator(&self, accumulator: AccumType) -> Self {
        Self { row_accumulator: accumulator, ..self.clone() }
    }

    /// Returns a handle of this rank for calls whose elements have another type in the program than the one in which they are moved, such as
    /// booleans that are moved as bytes. Ranks whose names differ make different calls, and messages show the names.
    #[must_use]
    pub fn with_element_name(&self, name: ElementName) -> Self {
        Self { element_name: Some(name), ..self.clone() }
    }

    /// Returns the type of elements that are moved as `dtype`, as ranks compare it.
    pub(super) fn element_type(&self, dtype: DataType) -> ElementType {
        ElementType { dtype, name: self.element_name.filter(|name| *name != dtype.into()) }
    }
}
