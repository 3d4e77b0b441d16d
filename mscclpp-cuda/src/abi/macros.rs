//! Declares shared constants, enums and structs, and describes them for the header and for the hash.

/// Declares items and describes them in `CONSTANTS`, `ENUMS` and `STRUCTS`; `HASH` covers the descriptions.
///
/// An enum is a type for any number of its representation, with named constants: a device, or a corrupt table, may
/// contain others. In the header it is a scoped enum.
macro_rules! abi {
    (opcodes { $($opcodes:tt)* } constants { $($constants:tt)* } enums { $($enums:tt)* } structs { $($structs:tt)* }) => {
        abi! {
            constants { $($constants)* }
            enums {
                /// What an instruction does.
                Opcode: u8 { $($opcodes)* }
                $($enums)*
            }
            structs { $($structs)* }
        }
    };
    (
        constants { $($(#[doc = $constant_doc:literal])* $constant:ident: $constant_type:ident = $constant_value:literal;)* }
        enums {
            $($(#[doc = $enum_doc:literal])* $enum:ident: $repr:ident {
                $($(#[doc = $value_doc:literal])* $value:ident = $number:literal;)*
            })*
        }
        structs {
            $($(#[doc = $struct_doc:literal])* $struct:ident ($size:literal, $align:literal) {
                $($(#[doc = $field_doc:literal])* $field:ident: $type:tt,)*
            })*
        }
    ) => {
        $(
            $(#[doc = $constant_doc])*
            #[allow(dead_code, reason = "the device uses all of them, the host some")]
            #[doc(hidden)]
            pub const $constant: $constant_type = $constant_value;
        )*

        $(
            $(#[doc = $enum_doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, bytemuck::Pod, bytemuck::Zeroable)]
            #[repr(transparent)]
            pub struct $enum(pub $repr);

            #[allow(dead_code, reason = "the device uses all of them, the host some")]
            impl $enum {
                $($(#[doc = $value_doc])* pub const $value: Self = Self($number);)*
            }

            static_assertions::assert_impl_all!($enum: bytemuck::Pod, Send, Sync);
        )*

        $(
            $(#[doc = $struct_doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
            #[repr(C)]
            pub struct $struct { $($(#[doc = $field_doc])* pub $field: abi!(@rust $type),)* }

            static_assertions::const_assert_eq!(size_of::<$struct>(), $size);
            static_assertions::const_assert_eq!(align_of::<$struct>(), $align);
            static_assertions::assert_impl_all!($struct: bytemuck::Pod, Send, Sync);
        )*

        const CONSTANTS: &[Constant] = &[$(Constant {
            doc: &[$($constant_doc),*], name: stringify!($constant), kind: stringify!($constant_type), value: $constant_value,
        }),*];

        const ENUMS: &[Enum] = &[$(Enum {
            doc: &[$($enum_doc),*], name: stringify!($enum), kind: stringify!($repr),
            values: &[$(Constant {
                doc: &[$($value_doc),*], name: stringify!($value), kind: stringify!($repr), value: $number,
            }),*],
        }),*];

        const STRUCTS: &[Struct] = &[$(Struct {
            doc: &[$($struct_doc),*], name: stringify!($struct), size: size_of::<$struct>(), align: align_of::<$struct>(),
            fields: &[$(Field {
                doc: &[$($field_doc),*], name: stringify!($field), kind: abi!(@kind $type), count: abi!(@count $type),
                offset: std::mem::offset_of!($struct, $field),
            }),*],
        }),*];
    };
    (@rust [$type:ty; $count:expr]) => { [$type; $count] };
    (@rust $type:ty) => { $type };
    (@kind [$type:ident; $count:expr]) => { stringify!($type) };
    (@kind $type:ident) => { stringify!($type) };
    (@count [$type:ident; $count:expr]) => { $count };
    (@count $type:ident) => { 0 };
}
pub(super) use abi;

/// A shared constant, or a value of a shared enum.
pub(super) struct Constant {
    #[cfg_attr(not(test), expect(dead_code, reason = "the header has it"))]
    pub doc: &'static [&'static str],
    pub name: &'static str,
    /// Its type in Rust.
    pub kind: &'static str,
    pub value: u64,
}

/// A shared enum.
pub(super) struct Enum {
    #[cfg_attr(not(test), expect(dead_code, reason = "the header has it"))]
    pub doc: &'static [&'static str],
    pub name: &'static str,
    /// Its representation in Rust.
    pub kind: &'static str,
    pub values: &'static [Constant],
}

/// A shared struct.
pub(super) struct Struct {
    #[cfg_attr(not(test), expect(dead_code, reason = "the header has it"))]
    pub doc: &'static [&'static str],
    pub name: &'static str,
    pub size: usize,
    pub align: usize,
    pub fields: &'static [Field],
}

/// A field of a shared struct.
pub(super) struct Field {
    #[cfg_attr(not(test), expect(dead_code, reason = "the header has it"))]
    pub doc: &'static [&'static str],
    pub name: &'static str,
    /// Type of the field, or of the elements of an array.
    pub kind: &'static str,
    /// Number of elements of an array; 0 if the field is none.
    pub count: usize,
    pub offset: usize,
}

/// An FNV-1a hash that is computed by the compiler.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    const fn byte(self, byte: u8) -> Self {
        Self((self.0 ^ byte as u64).wrapping_mul(0x100_0000_01b3))
    }

    /// Adds a text and a number.
    const fn add(mut self, text: &str, number: u64) -> Self {
        let mut rest = text.as_bytes();
        while let [first, others @ ..] = rest {
            (self, rest) = (self.byte(*first), others);
        }
        // Separates texts, so that no two lists of them have the same bytes.
        self = self.byte(0xff);
        let mut at = 0;
        while at < 64 {
            self = self.byte((number >> at) as u8);
            at += 8;
        }
        self
    }

    const fn constants(mut self, mut rest: &[Constant]) -> Self {
        while let [Constant { name, kind, value, .. }, others @ ..] = rest {
            self = self.add(name, *value).add(kind, 0);
            rest = others;
        }
        self
    }

    const fn fields(mut self, mut rest: &[Field]) -> Self {
        while let [Field { name, kind, count, offset, .. }, others @ ..] = rest {
            self = self.add(name, *offset as u64).add(kind, *count as u64);
            rest = others;
        }
        self
    }
}

/// Returns a hash of all names, types, values, sizes and offsets.
pub(super) const fn hash(constants: &[Constant], mut enums: &[Enum], mut structs: &[Struct]) -> u64 {
    let mut hash = Hash(0xcbf2_9ce4_8422_2325).constants(constants);
    while let [Enum { name, kind, values, .. }, others @ ..] = enums {
        hash = hash.add(name, values.len() as u64).add(kind, 0).constants(values);
        enums = others;
    }
    while let [Struct { name, size, align, fields, .. }, others @ ..] = structs {
        hash = hash.add(name, *size as u64).add("", *align as u64).fields(fields);
        structs = others;
    }
    hash.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_depends_on_every_name_type_and_value() {
        let constant = |name, kind, value| Constant { doc: &[], name, kind, value };
        let of_constant = |name, kind, value| hash(&[constant(name, kind, value)], &[], &[]);
        let of_enum = |name, kind, values| hash(&[], &[Enum { doc: &[], name, kind, values }], &[]);
        let of_struct = |name, size, align, fields| hash(&[], &[], &[Struct { doc: &[], name, size, align, fields }]);
        const NOP: &[Constant] = &[Constant { doc: &[], name: "NOP", kind: "u8", value: 0 }];
        const COPY: &[Constant] = &[Constant { doc: &[], name: "COPY", kind: "u8", value: 0 }];
        const NOP_1: &[Constant] = &[Constant { doc: &[], name: "NOP", kind: "u8", value: 1 }];
        const RANK: &[Field] = &[Field { doc: &[], name: "rank", kind: "u32", count: 0, offset: 0 }];
        const BLOCK: &[Field] = &[Field { doc: &[], name: "block", kind: "u32", count: 0, offset: 0 }];
        const SIGNED: &[Field] = &[Field { doc: &[], name: "rank", kind: "i32", count: 0, offset: 0 }];
        const ARRAY: &[Field] = &[Field { doc: &[], name: "rank", kind: "u32", count: 1, offset: 0 }];
        const LATER: &[Field] = &[Field { doc: &[], name: "rank", kind: "u32", count: 0, offset: 4 }];
        let hashes = [
            hash(&[], &[], &[]),
            of_constant("FLAG", "u8", 1),
            of_constant("FLAG", "u8", 2),
            of_constant("FLAG", "u32", 1),
            of_constant("FLAGS", "u8", 1),
            of_enum("Opcode", "u8", NOP),
            of_enum("Opcode", "u32", NOP),
            of_enum("WaitKind", "u8", NOP),
            of_enum("Opcode", "u8", COPY),
            of_enum("Opcode", "u8", NOP_1),
            of_enum("Opcode", "u8", &[]),
            of_struct("Block", 4, 4, RANK),
            of_struct("Instr", 4, 4, RANK),
            of_struct("Block", 8, 4, RANK),
            of_struct("Block", 4, 8, RANK),
            of_struct("Block", 4, 4, BLOCK),
            of_struct("Block", 4, 4, SIGNED),
            of_struct("Block", 4, 4, ARRAY),
            of_struct("Block", 4, 4, LATER),
        ];
        for (number, one) in hashes.iter().enumerate() {
            assert!(!hashes[..number].contains(one), "{number}");
        }
    }
}
