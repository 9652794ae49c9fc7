//! Archives: several files in one, as tar or zip make them. They are unpacked into a temporary folder.

mod member_names;
mod tar;
#[cfg(test)]
mod tests;
mod unpack;
mod zip;

pub(crate) use unpack::unpack;

use super::packing::Packing;
use super::unpacked_file::{packing_of, read_head};
use std::fs::File;
use std::path::Path;

/// Maximum number of members of an archive that are unpacked.
pub(crate) const MAX_MEMBERS: usize = 10_000;

/// What a file is, before any importer looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    /// One file, or a folder.
    None,
    /// One packed file.
    Packed(Packing),
    /// A tar archive, packed or not.
    Tar,
    /// A zip archive.
    Zip,
}

/// Returns what a path is, by its first bytes.
pub(crate) fn detect_container(path: &Path) -> Container {
    if !path.is_file() {
        return Container::None;
    }
    let head = read_head(path, tar::BLOCK_BYTES).unwrap_or_default();
    if tar::is_header(&head) {
        return Container::Tar;
    }
    if zip::is_archive(&head) {
        return Container::Zip;
    }
    let packing = File::open(path).ok().as_ref().and_then(packing_of);
    packing.map_or(Container::None, Container::Packed)
}
