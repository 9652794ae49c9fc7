//! Layouts of arguments by branch.

use super::DriverBranch;
use super::table::TABLES;

/// Type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// An unsigned number of this many bytes.
    Unsigned(u8),
    /// A signed number of this many bytes.
    Signed(u8),
    /// A pointer of 8 bytes, in the address space of the program.
    Pointer,
}

impl FieldKind {
    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Unsigned(bytes) | Self::Signed(bytes) => usize::from(bytes),
            Self::Pointer => 8,
        }
    }
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructureField {
    /// Name, as NVIDIA's headers have it. A field of a struct within has the name of that struct before a dot.
    pub name: &'static str,
    /// Offset in bytes.
    pub offset: usize,
    /// Type of the field, or of an element.
    pub kind: FieldKind,
    /// Number of elements, for an array. Structs in arrays are arrays of bytes.
    pub count: Option<usize>,
}

/// A struct of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// Name, as NVIDIA's headers have it.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: usize,
    /// Branches that have this form.
    pub(super) branches: Vec<DriverBranch>,
    /// Fields in the order of their offsets.
    pub fields: Vec<StructureField>,
}

impl Structure {
    /// Returns a struct of a branch, or `None` if the branch has none of this name.
    #[must_use]
    pub fn find(name: &str, branch: DriverBranch) -> Option<&'static Self> {
        let structures = TABLES.as_ref().ok()?.structures.get(name)?;
        structures.iter().find(|s| s.branches.contains(&branch))
    }

    /// Returns the field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&StructureField> {
        self.fields.iter().find(|f| f.name == name)
    }
}
