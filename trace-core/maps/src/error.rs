//! Import errors and losses of register maps, with their file positions.

use std::fmt;

/// A position in a file.
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

/// The reason why a file cannot be imported as a map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The XML itself is damaged, or has a document type, which none of the formats needs.
    #[error("{place}: {reason}")]
    Xml {
        /// The position.
        place: FilePosition,
        /// The reason.
        reason: String,
    },
    /// The root element belongs to no known format.
    #[error(
        "{file}: the root element <{root}> belongs to no known format (<device> of SVD, <database> of rules-ng-ng, \
         <genxml>, <agxml>, <vcxml>, <panxml>, <csbgen> of Mesa)"
    )]
    Unknown {
        /// The file.
        file: String,
        /// Name of its root element.
        root: String,
    },
    /// The file contradicts its format.
    #[error("{place}: {reason}")]
    Wrong {
        /// The position.
        place: FilePosition,
        /// The reason.
        reason: String,
    },
    /// The file exceeds a limit.
    #[error("{place}: {what}; the maximum is {max}")]
    TooMuch {
        /// The position.
        place: FilePosition,
        /// What exceeds the limit.
        what: String,
        /// The limit.
        max: u64,
    },
    /// The user has to choose.
    #[error("{file}: {reason}")]
    Choose {
        /// The file.
        file: String,
        /// The choices, and how to choose.
        reason: String,
    },
    /// The imported map cannot be read back: an error of the importer.
    #[error("{file}: the imported map cannot be read again, {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// The error of the map reader.
        reason: String,
    },
}

/// A kind of information that a map cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossKind {
    /// A register that shares bytes with an earlier one.
    Overlap,
    /// A register outside the register window, or not aligned to its width.
    Outside,
    /// A register of an unsupported width.
    Width,
    /// An array that is too long.
    Array,
    /// Fields that share bits with others, or leave the register.
    Field,
    /// The interpretation of a value: signs, fractions.
    Kind,
    /// Values of an enumeration.
    Value,
    /// A second name for the same item.
    Name,
    /// An item that only some variants have.
    Variant,
    /// Packets and structures that the format cannot hold.
    Layout,
    /// An imported file that was not found.
    Import,
    /// A reference to something that is not in the file.
    Reference,
    /// Elements without a counterpart: interrupts, address blocks, the processor.
    Element,
    /// Arrays whose offsets are only known at run time.
    Placement,
    /// Elements that contradict their format, and mistakes in the XML.
    Mistake,
}

impl LossKind {
    /// Returns the name of such losses in a summary.
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
            Self::Reference => "references to missing items",
            Self::Element => "elements without a counterpart",
            Self::Placement => "arrays that are placed at run time",
            Self::Mistake => "mistakes in the file",
        }
    }
}

/// Information that was not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Position in the file.
    pub place: FilePosition,
    /// The kind of loss.
    pub kind: LossKind,
    /// What was lost, and the consequence.
    pub what: String,
}
