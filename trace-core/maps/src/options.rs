//! What an import reads: the format, and which part of the file as which map.

/// A foreign format of register maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// CMSIS-SVD, which vendors of microcontrollers publish: `<device>`.
    Svd,
    /// rules-ng-ng of envytools and freedreno: `<database>`.
    Rnn,
    /// Mesa's descriptions of packets and registers: `<genxml>`, `<agxml>`, `<vcxml>`, `<panxml>`.
    Genxml,
    /// Mesa's descriptions of PowerVR structures: `<csbgen>`.
    Csbgen,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Svd, Self::Rnn, Self::Genxml, Self::Csbgen];

    /// Returns the format's name on the command line: `svd`, `rnn`, `genxml`, `csbgen`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Svd => "svd",
            Self::Rnn => "rnn",
            Self::Genxml => "genxml",
            Self::Csbgen => "csbgen",
        }
    }

    /// Returns the format of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }

    /// Returns the format whose files have this root element.
    pub(crate) fn from_root_tag(tag: &str) -> Option<Self> {
        match tag {
            "device" => Some(Self::Svd),
            "database" => Some(Self::Rnn),
            "genxml" | "agxml" | "vcxml" | "panxml" => Some(Self::Genxml),
            "csbgen" => Some(Self::Csbgen),
            _ => None,
        }
    }
}

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format; `None`: detected by the root element.
    pub format: Option<Format>,
    /// The requested variant: `A6XX`, `NV50`; the version for Mesa's `vcxml`, `42`; the features for `csbgen`,
    /// `ROGUEXE,NUM_TA=4`.
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
