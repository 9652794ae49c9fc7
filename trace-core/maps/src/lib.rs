//! Import of register maps (CMSIS-SVD, rules-ng-ng of envytools and freedreno, Mesa's genxml and csbgen) into the
//! project's own format, `docs/register-map.md`, and discovery and reload of the user's maps.
//!
//! Information of a file that the format cannot express becomes a [`Loss`] with its position.
#![forbid(unsafe_code)]

mod compact;
mod csbgen;
mod decode;
mod draft;
mod error;
mod genxml;
mod map_text;
mod mend;
pub mod naming;
mod options;
mod overlaps;
mod rnn;
mod source;
mod sources;
mod svd;
mod svd_elements;
mod text;
mod user_maps;
mod variants;
mod write;

pub use error::{FilePosition, ImportError, Loss, LossKind};
pub use options::{Format, Options};
pub use user_maps::{SUFFIX, UserMap, UserMaps, WatchedFiles, sibling_map_path};

pub use sources::{Folder, NoSources, Sources};
pub use write::ImportedMap;

use draft::Draft;
use source::{LoadedFiles, Tree};

/// Imports a file as the text of a map. `file` is its name in messages; `content` is in UTF-8, or in the encoding that
/// it declares; `sources` gives the files that it imports.
///
/// An element that contradicts its format is reported and left out; the others are imported.
///
/// # Errors
///
/// The first reason why the file is no map, with line and column, or the limit that it exceeds.
pub fn import(
    file: &str,
    content: impl AsRef<[u8]>,
    options: &Options,
    sources: &mut dyn Sources,
) -> Result<ImportedMap, ImportError> {
    let mut loaded = LoadedFiles::read(file, content.as_ref(), options.format, sources)?;
    let mut draft = Draft::new(file, options);
    for (name, place) in &loaded.missing {
        draft.lose(place.clone(), LossKind::Import, || {
            format!("the imported file {name} was not found")
        });
    }
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
    for tree in &trees {
        for (place, what) in tree.mistakes() {
            draft.lose(place, LossKind::Mistake, || what);
        }
        draft.more_losses = draft.more_losses.saturating_add(tree.more_mistakes());
    }
    match format {
        Format::Svd => svd::read(&trees, options, &mut draft)?,
        Format::Rnn => rnn::read(&trees, options, &mut draft)?,
        Format::Genxml => genxml::read(&trees, options, &mut draft)?,
        Format::Csbgen => csbgen::read(&trees, options, &mut draft)?,
    }
    write::finish(draft, format, options)
}
