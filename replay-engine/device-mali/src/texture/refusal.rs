//! Why a texture, an image or an attribute is not read or written.

use super::format::Arch;
use super::names::format_name;

/// Something that a descriptor asks for and that is not computed. Nothing else is computed in its place: the job stops
/// with this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A descriptor of another kind, or none: hardware reports an invalid descriptor too.
    #[error("a {what} descriptor has type {found}, expected {expected}")]
    DescriptorType {
        /// What was to be read.
        what: &'static str,
        /// The type in it.
        found: u32,
        /// The type of such a descriptor.
        expected: u32,
    },
    /// A pixel format that is not read, written or sampled.
    #[error("pixel format {index} ({}) of architecture {arch} is not implemented", format_name(*arch, *index))]
    Format {
        /// The architecture whose table the number is from.
        arch: Arch,
        /// Number in the table of formats.
        index: u8,
    },
    /// A format whose texels are not stored one by one where a single one is wanted.
    #[error("pixel format {index} ({}) cannot be loaded or stored as an attribute or image", format_name(*arch, *index))]
    BlockAccess {
        /// The architecture whose table the number is from.
        arch: Arch,
        /// Number in the table of formats.
        index: u8,
    },
    /// A format that is read and not written.
    #[error("storing pixel format {index} ({}) is not implemented", format_name(*arch, *index))]
    Store {
        /// The architecture whose table the number is from.
        arch: Arch,
        /// Number in the table of formats.
        index: u8,
    },
    /// A bit of a descriptor whose effect is not known.
    #[error("{0} is not implemented")]
    Feature(&'static str),
    /// A value of a descriptor's field that has no known meaning.
    #[error("{field} has the value {value:#x}, which is not implemented")]
    Value {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
    },
    /// Texels of floating point or fixed point read as integers, or the reverse of it stored.
    #[error("a conversion between {from} and {to} is not implemented")]
    Conversion {
        /// What there is.
        from: &'static str,
        /// What is wanted.
        to: &'static str,
    },
    /// An address that does not fit in 64 bits.
    #[error("the address of a texel or element leaves the address range")]
    Address,
    /// An operation on a texture that cannot take it.
    #[error("{operation} on a {dimension} texture is not implemented")]
    Operation {
        /// What was to be done.
        operation: &'static str,
        /// The texture's dimension.
        dimension: &'static str,
    },
}

/// A texture access failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TexError<E> {
    /// Memory could not be read: the reason is the memory's own.
    #[error("memory of a texture, image or attribute could not be read")]
    Memory(E),
    /// It is not computed.
    #[error("{0}")]
    Refused(Refusal),
}

impl<E> From<Refusal> for TexError<E> {
    fn from(r: Refusal) -> Self {
        Self::Refused(r)
    }
}
