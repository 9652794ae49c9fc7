//! The location of the sample recording.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the path of the sample recording, if one exists. Searches the working folder, the folder of the program, the
/// shared folder of an installation, and the build folder, once.
#[must_use]
pub fn path() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Option<PathBuf> {
    let sibling = std::env::current_exe()
        .ok()
        .and_then(|e| e.parent().map(Path::to_owned));
    let built = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map(Path::to_owned);
    let installed = sibling.as_ref().map(|b| b.join("../share/kinescope"));
    let here = std::env::current_dir().ok();
    let folders = [here, sibling, installed, built]
        .into_iter()
        .flatten()
        .map(|f| f.join("sample-traces"));
    for folder in folders {
        let Ok(list) = std::fs::read_dir(&folder) else { continue };
        let mut files: Vec<PathBuf> = list
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.extension().is_some_and(|x| x == "kine"))
            .collect();
        files.sort();
        // Prefer the sample with inputs to edit and a visible output.
        let named = files.iter().find(|p| p.ends_with("vecadd.kine")).or(files.first());
        if let Some(p) = named {
            return Some(p.clone());
        }
    }
    None
}
