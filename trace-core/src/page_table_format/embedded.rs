//! The embedded descriptions.

use super::described::DescribedFormat;
use super::format::PageTableFormat;
use std::sync::LazyLock;

/// An embedded description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedFormat {
    /// Its name in arguments.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(EmbeddedFormat {
            name: $name,
            text: include_str!(concat!("../../../assets/page-tables/", $name, ".toml")),
        }),*]
    };
}

/// The two formats of Mali GPUs, which recordings name without a description.
const MALI: &[EmbeddedFormat] = embedded!["aarch64-4k", "mali-lpae"];

/// All others.
const OTHERS: &[EmbeddedFormat] = embedded![
    "nvidia-v2",
    "nvidia-v3",
    "amd-gfx9",
    "amd-gfx10",
    "amd-gfx12",
    "v3d",
    "etnaviv-v2",
    "intel-gen8",
    "intel-gen12",
    "intel-ggtt",
    "intel-ggtt-gen12",
    "x86-64",
    "x86-64-la57",
    "arm-4k",
    "arm-4k-39",
    "arm-4k-upper",
    "arm-4k-39-upper",
    "arm-16k",
    "arm-64k",
];

/// Returns the embedded descriptions, those of Mali GPUs first.
pub fn embedded_formats() -> impl Iterator<Item = EmbeddedFormat> {
    MALI.iter().chain(OTHERS).copied()
}

/// Returns the embedded description of a name that is no format of Mali GPUs, or `None` if there is none.
#[must_use]
pub fn find_embedded(name: &str) -> Option<DescribedFormat> {
    let found = OTHERS.iter().find(|f| f.name == name)?;
    DescribedFormat::parse(found.text).ok()
}

/// Returns the description of a format of Mali GPUs.
fn mali(name: &str) -> PageTableFormat {
    let text = MALI.iter().find(|f| f.name == name).map_or("", |f| f.text);
    match PageTableFormat::parse(text) {
        Ok(format) => format,
        Err(e) => unreachable!("the embedded description {name}: {e}"),
    }
}

/// Armv8 stage-1 tables with a 4 KiB granule, as GPUs use them.
pub(crate) fn aarch64_4k() -> &'static PageTableFormat {
    static FORMAT: LazyLock<PageTableFormat> = LazyLock::new(|| mali("aarch64-4k"));
    &FORMAT
}

/// The format of Mali GPUs that derives from LPAE.
pub(crate) fn mali_lpae() -> &'static PageTableFormat {
    static FORMAT: LazyLock<PageTableFormat> = LazyLock::new(|| mali("mali-lpae"));
    &FORMAT
}
