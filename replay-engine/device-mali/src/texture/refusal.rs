//! Reasons why a texture, an image or an attribute is not read or written.

use super::format::Arch;
use super::names::format_name;

/// Unsupported feature that a descriptor requests. It is never replaced by something else: the job stops with this
/// reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A descriptor of another kind, or none. Hardware also reports an invalid descriptor.
    #[error("a {what} descriptor has type {found}, expected {expected}")]
    DescriptorType {
        /// What should have been read.
        what: &'static str,
        /// Type in the descriptor.
        found: u32,
        /// Expected type.
        expected: u32,
    },
    /// A pixel format that cannot be read, written or sampled.
    #[error("pixel format {index} ({}) of architecture {arch} is not implemented", format_name(*arch, *index))]
    Format {
        /// Architecture whose table the number is from.
        arch: Arch,
        /// Number in the table of formats.
        index: u8,
    },
    /// A format whose texels are not stored individually, where a single texel is accessed.
    #[error("pixel format {index} ({}) cannot be loaded or stored as an attribute or image", format_name(*arch, *index))]
    BlockAccess {
        /// Architecture whose table the number is from.
        arch: Arch,
        /// Number in the table of formats.
        index: u8,
    },
    /// A format that can be read but not written.
    #[error("storing pixel format {index} ({}) is not implemented", format_name(*arch, *index))]
    Store {
        /// Architecture whose table the number is from.
        arch: Arch,
        /// Number in the table of formats.
        index: u8,
    },
    /// A descriptor bit with an unknown effect.
    #[error("{0} is not implemented")]
    Feature(&'static str),
    /// A value of a descriptor field without a known meaning.
    #[error("{field} has the value {value:#x}, which is not implemented")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u32,
    },
    /// A read of float or fixed-point texels as integers, or a store of the reverse.
    #[error("a conversion between {from} and {to} is not implemented")]
    Conversion {
        /// Existing kind of number.
        from: &'static str,
        /// Requested kind of number.
        to: &'static str,
    },
    /// An address that exceeds 64 bits.
    #[error("the address of a texel or element leaves the address range")]
    Address,
    /// An operation on a texture that does not support it.
    #[error("{operation} on a {dimension} texture is not implemented")]
    Operation {
        /// The operation.
        operation: &'static str,
        /// Dimension of the texture.
        dimension: &'static str,
    },
}

/// Error of a texture access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TexError<E> {
    /// Memory could not be read, for the reason of the memory.
    #[error("memory of a texture, image or attribute could not be read")]
    Memory(E),
    /// The access is not supported.
    #[error("{0}")]
    Refused(Refusal),
}

impl<E> From<Refusal> for TexError<E> {
    fn from(r: Refusal) -> Self {
        Self::Refused(r)
    }
}
