//! What precedes the data of a message.

use std::fmt::{self, Display, Formatter};

use bytemuck::{Pod, Zeroable};
use mscclpp_exec::ElementName;

use crate::tensor::View;

/// Tag, type and length of a message, by which it is matched and compared with its receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Header {
    pub(super) tag: i64,
    pub(super) bytes: u64,
    /// Bytes of an element.
    element: u64,
    /// Name of the type of the elements.
    name: ElementName,
}

impl Header {
    pub(super) fn new(tag: i64, view: &View) -> Self {
        Self { tag, bytes: view.bytes as u64, element: view.kind.size() as u64, name: view.kind.name() }
    }
}

impl Display for Header {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { bytes, element, name, .. } = self;
        write!(f, "{bytes} bytes ({} {name})", bytes / (*element).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Kind;
    use mscclpp_exec::DataType;

    #[test]
    fn headers_of_other_types_differ_and_name_them() {
        let header = |kind, bytes| Header::new(3, &View { address: 0, bytes, kind, device: None });
        let complex = [DataType::F16, DataType::F32, DataType::F64].map(Kind::Complex);
        let kinds = DataType::ALL.iter().map(|dtype| Kind::Plain(*dtype)).chain(complex);
        let others = [Kind::Bool, Kind::Short { is_signed: true }, Kind::Short { is_signed: false }];
        // Two of one size.
        let opaque = [(14, 8, 1), (7, 8, 1), (u8::MAX, u8::MAX, u16::MAX), (u8::MAX, u8::MAX, u16::MAX - 8)];
        let opaque = opaque.map(|(code, bits, lanes)| Kind::Opaque { code, bits, lanes });
        let mut names: Vec<_> = kinds.chain(others).chain(opaque).map(|kind| header(kind, 16).to_string()).collect();
        assert!(names.contains(&"16 bytes (4 f32)".to_owned()) && names.contains(&"16 bytes (4 i32)".to_owned()));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }
}
