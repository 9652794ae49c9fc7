//! Import of register maps (CMSIS-SVD, rules-ng-ng of envytools and freedreno, Mesa's genxml) into the project's own
//! format, `docs/register-map.md`, and discovery and reload of the user's maps.
//!
//! Information of a file that the format cannot express becomes a [`Loss`] with its position.
#![forbid(unsafe_code)]

mod compact;
mod draft;
mod error;
mod genxml;
mod map_text;
pub mod naming;
mod options;
mod rnn;
mod source;
mod svd;
mod svd_elements;
mod user_maps;
mod variants;
mod write;

pub use error::{FilePosition, ImportError, Loss, LossKind};
pub use options::{Format, Options};
pub use user_maps::{SUFFIX, UserMap, UserMaps, WatchedFiles, sibling_map_path};

pub use source::{Folder, NoSources, Sources};
pub use write::ImportedMap;

use draft::Draft;
use source::{LoadedFiles, Tree};

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
