//! What makes a file no map, and what a map of the project's form cannot say; each with its place.

use std::fmt;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// The file's name.
    pub file: std::sync::Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why a file did not become a map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The XML itself is damaged, or has a document type, which none of the formats needs.
    #[error("{place}: {reason}")]
    Xml {
        /// Where.
        place: FilePosition,
        /// What is wrong.
        reason: String,
    },
    /// The root element is of none of the formats.
    #[error(
        "{file}: its root element <{root}> is of no known format (<device> of SVD, <database> of rules-ng-ng, <genxml>, <vcxml>, <panxml> of Mesa)"
    )]
    Unknown {
        /// The file.
        file: String,
        /// Name of its root element.
        root: String,
    },
    /// Something in the file contradicts its format.
    #[error("{place}: {reason}")]
    Wrong {
        /// Where.
        place: FilePosition,
        /// What is wrong.
        reason: String,
    },
    /// Too much of something.
    #[error("{place}: {what}; at most {most} are taken")]
    TooMuch {
        /// Where.
        place: FilePosition,
        /// Of what.
        what: String,
        /// The limit.
        most: u64,
    },
    /// A person has to choose.
    #[error("{file}: {reason}")]
    Choose {
        /// The file.
        file: String,
        /// Among what, and how.
        reason: String,
    },
    /// What was made is no map of the project's form: a fault of the importer.
    #[error("{file}: the imported map does not read back, {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the form's reader says.
        reason: String,
    },
}

/// What a map cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossKind {
    /// A register that shares bytes with one that was met before.
    Overlap,
    /// A register that does not lie in the window or is not aligned to its width.
    Outside,
    /// A register of a width that registers do not have.
    Width,
    /// An array that is too long.
    Array,
    /// Fields that share bits with others, or leave the register.
    Field,
    /// How a value is to be read: signs, fractions.
    Kind,
    /// Values of an enumeration.
    Value,
    /// A second name for the same.
    Name,
    /// Something that is there on some variants alone.
    Variant,
    /// Packets and structures, where the form cannot hold them.
    Layout,
    /// A file that was not found.
    Import,
    /// Something that the file refers to and does not hold.
    Reference,
    /// Elements without a counterpart: interrupts, address blocks, the processor.
    Element,
}

impl LossKind {
    /// What such losses are called in a summary.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Overlap => "registers that share bytes with another",
            Self::Outside => "registers outside the window or not aligned",
            Self::Width => "registers of an unusual width",
            Self::Array => "arrays that are memory",
            Self::Field => "fields that overlap or leave their register",
            Self::Kind => "ways to read a value",
            Self::Value => "values of enumerations",
            Self::Name => "names",
            Self::Variant => "variants",
            Self::Layout => "structures",
            Self::Import => "imported files",
            Self::Reference => "references to what is not there",
            Self::Element => "elements without a counterpart",
        }
    }
}

/// Something that was not carried over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Where it stands in the file.
    pub place: FilePosition,
    /// Of what kind it is.
    pub kind: LossKind,
    /// What was lost, and what became of it.
    pub what: String,
}
