//! Import of register maps (CMSIS-SVD, rules-ng-ng of envytools and freedreno, Mesa's genxml) into the project's own
//! format, `docs/register-map.md`, and discovery and reload of the user's maps.
//!
//! Information of a file that the format cannot express becomes a [`Loss`] with its position.
#![forbid(unsafe_code)]

mod compact;
mod draft;
mod error;
mod genxml;
pub mod naming;
mod rnn;
mod source;
mod svd;
mod svd_elements;
mod user_maps;
mod variants;
mod write;

pub use error::{FilePosition, ImportError, Loss, LossKind};
pub use user_maps::{SUFFIX, UserMap, UserMaps, WatchedFiles, sibling_map_path};

pub use source::{Folder, NoSources, Sources};

use draft::Draft;
use source::{LoadedFiles, Tree};

/// A foreign format of register maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// CMSIS-SVD, which vendors of microcontrollers publish: `<device>`.
    Svd,
    /// rules-ng-ng of envytools and freedreno: `<database>`.
    Rnn,
    /// Mesa's descriptions of packets and registers: `<genxml>`, `<vcxml>`, `<panxml>`.
    Genxml,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Svd, Self::Rnn, Self::Genxml];

    /// Returns the format's name on the command line: `svd`, `rnn`, `genxml`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Svd => "svd",
            Self::Rnn => "rnn",
            Self::Genxml => "genxml",
        }
    }

    /// Returns the format of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }

    fn from_root_tag(tag: &str) -> Option<Self> {
        match tag {
            "device" => Some(Self::Svd),
            "database" => Some(Self::Rnn),
            "genxml" | "vcxml" | "panxml" => Some(Self::Genxml),
            _ => None,
        }
    }
}

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format; `None`: detected by the root element.
    pub format: Option<Format>,
    /// The requested variant: `A6XX`, `NV50`; the version for Mesa's `vcxml`, `42`.
    pub variant: Option<String>,
    /// The requested parts: peripherals of an SVD, domains of rules-ng-ng. Empty: the format's reader chooses.
    pub blocks: Vec<String>,
    /// Name of the map; `None`: taken from the file.
    pub name: Option<String>,
    /// Name of the space that the registers are in, `bar0`; may be empty.
    pub space: String,
    /// PCI devices of the map: vendor and device.
    pub pci: Vec<(u16, u16)>,
    /// Device-tree `compatible` strings of the map.
    pub compatible: Vec<String>,
    /// Upper halves of the GPU id registers of the map.
    pub gpu: Vec<u16>,
    /// Whether to write a built-in map: arrays of registers as arrays, a block for each first word of the register
    /// names (`RB` of `RB_CNTL`), and no descriptions.
    pub compact: bool,
}

/// An imported map.
#[derive(Clone, Debug)]
pub struct ImportedMap {
    /// The format of the file.
    pub format: Format,
    /// Name of the map.
    pub name: String,
    /// Its text, the input of `RegisterMap::parse`.
    pub text: String,
    /// Number of imported registers, array members counted. A 64-bit register counts once.
    pub registers: usize,
    /// Number of fields of all registers.
    pub fields: usize,
    /// Number of layouts of descriptors and entries.
    pub layouts: usize,
    /// Number of fields of all layouts.
    pub layout_fields: usize,
    /// Number of enumerations.
    pub enums: usize,
    /// Losses in the order of detection.
    pub losses: Vec<Loss>,
    /// Number of losses beyond the listed ones.
    pub more_losses: usize,
    /// Bus address of the register window, if the file gives bus addresses.
    pub window_at: Option<u64>,
}

/// Imports a file as the text of a map. `file` is its name in messages; `sources` gives the files that it imports.
///
/// # Errors
///
/// The first reason why the file is no map, with line and column, or the limit that it exceeds.
pub fn import(
    file: &str,
    text: &str,
    options: &Options,
    sources: &mut dyn Sources,
) -> Result<ImportedMap, ImportError> {
    let loaded = LoadedFiles::read(file, text, options.format, sources)?;
    let trees = loaded.parse()?;
    let format = match options.format {
        Some(format) => format,
        None => {
            let root = trees.first().map(Tree::root);
            let tag = root.map(|r| r.tag_name().name()).unwrap_or_default();
            Format::from_root_tag(tag).ok_or_else(|| ImportError::Unknown {
                file: file.to_owned(),
                root: tag.chars().take(40).collect(),
            })?
        }
    };
    let mut draft = Draft::new(file, options);
    for (name, place) in &loaded.missing {
        draft.lose(place.clone(), LossKind::Import, || {
            format!("the imported file {name} was not found")
        });
    }
    match format {
        Format::Svd => svd::read(&trees, options, &mut draft)?,
        Format::Rnn => rnn::read(&trees, options, &mut draft)?,
        Format::Genxml => genxml::read(&trees, options, &mut draft)?,
    }
    write::finish(draft, format, options)
}
