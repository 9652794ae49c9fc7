//! Expected results of a replay in files of the user: contents of outputs, and a picture of the screen.

use super::request::{ExpectedOutput, ExpectedScreen};
use crate::plan_file::FileError;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use trace_core::screen::{MAX_FILE, Picture};

/// Reads the expected contents of outputs, each with the name of its output.
///
/// # Errors
/// Returns the first file that cannot be read.
pub fn read_outputs(files: &[(String, PathBuf)]) -> Result<Vec<ExpectedOutput>, FileError> {
    let read = |(name, file): &(String, PathBuf)| {
        Ok(ExpectedOutput {
            name: name.clone(),
            bytes: std::fs::read(file).map_err(|e| FileError::new(file, e))?,
            source: file.display().to_string(),
        })
    };
    files.iter().map(read).collect()
}

/// Reads an expected picture, a binary PPM.
///
/// # Errors
/// Returns an error if the file cannot be read, is too large or is no such picture.
pub fn read_screen(file: &Path) -> Result<ExpectedScreen, FileError> {
    Ok(ExpectedScreen {
        picture: read_picture(file)?,
        source: file.display().to_string(),
    })
}

/// Reads a picture, a binary PPM.
///
/// # Errors
/// The same as [`read_screen`].
pub fn read_picture(file: &Path) -> Result<Picture, FileError> {
    let failed = |e: &dyn std::fmt::Display| FileError::new(file, e);
    let from = std::fs::File::open(file).map_err(|e| failed(&e))?;
    let mut bytes = Vec::new();
    from.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| failed(&e))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(failed(&format!(
            "larger than the maximum of {MAX_FILE} bytes for a picture"
        )));
    }
    Picture::from_ppm(&bytes).map_err(|e| failed(&e))
}
