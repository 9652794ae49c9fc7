//! Register maps from elsewhere: CMSIS-SVD, rules-ng-ng (envytools, freedreno) and Mesa's genxml become the text of a
//! map in the project's own form, `docs/register-map.md`; and the maps that a person keeps are found and watched.
//!
//! Whatever a file says that the form has no word for is told as a [`Loss`], with its place.
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

/// A form that register maps of others come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// CMSIS-SVD, what vendors of microcontrollers give: `<device>`.
    Svd,
    /// rules-ng-ng of envytools and freedreno: `<database>`.
    Rnn,
    /// Mesa's descriptions of packets and registers: `<genxml>`, `<vcxml>`, `<panxml>`.
    Genxml,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Svd, Self::Rnn, Self::Genxml];

    /// The name that a person forces it with: `svd`, `rnn`, `genxml`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Svd => "svd",
            Self::Rnn => "rnn",
            Self::Genxml => "genxml",
        }
    }

    /// The format of this name.
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

/// What an import is told beside the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format; by the root element where it is not told.
    pub format: Option<Format>,
    /// The variant that is wanted: `A6XX`, `NV50`, of Mesa's `vcxml` the version, `42`.
    pub variant: Option<String>,
    /// Parts that are wanted: peripherals of an SVD, domains of rules-ng-ng. Empty: as the format's reader chooses.
    pub blocks: Vec<String>,
    /// Name of the map; by the file where it is not told.
    pub name: Option<String>,
    /// Name of the space that the registers are in, `bar0`; may be empty.
    pub space: String,
    /// Devices of a PCI bus that the map is for: vendor and device.
    pub pci: Vec<(u16, u16)>,
    /// Strings of the device tree that the map is for.
    pub compatible: Vec<String>,
    /// Upper halves of id registers that the map is for.
    pub gpu: Vec<u16>,
    /// Writes a map to keep with a program: arrays of registers as arrays, a block for each first word of the
    /// registers' names (`RB` of `RB_CNTL`), and no descriptions.
    pub compact: bool,
}

/// An imported map.
#[derive(Clone, Debug)]
pub struct ImportedMap {
    /// The format that it was read as.
    pub format: Format,
    /// Name of the map.
    pub name: String,
    /// Its text, which `RegisterMap::parse` takes.
    pub text: String,
    /// Places in the file that became registers, arrays counted by their members. A 64-bit register counts once.
    pub registers: usize,
    /// Fields of them all.
    pub fields: usize,
    /// Descriptors and entries.
    pub layouts: usize,
    /// Fields of those.
    pub layout_fields: usize,
    /// Enumerations.
    pub enums: usize,
    /// What was not carried over, in the order in which it was met.
    pub losses: Vec<Loss>,
    /// Losses beyond the most that are listed.
    pub more_losses: usize,
    /// Where the window begins on the device's bus, where the file gives addresses there.
    pub window_at: Option<u64>,
}

/// Turns a file into the text of a map. `file` is its name in messages; what it imports is asked of `sources`.
///
/// # Errors
/// The first thing that makes the file no map, with line and column; what is too much of anything.
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
            format!("{name}, which it imports, was not found")
        });
    }
    match format {
        Format::Svd => svd::read(&trees, options, &mut draft)?,
        Format::Rnn => rnn::read(&trees, options, &mut draft)?,
        Format::Genxml => genxml::read(&trees, options, &mut draft)?,
    }
    write::finish(draft, format, options)
}
