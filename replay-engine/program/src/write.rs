//! Writer of a program as source code: a folder with a Rust crate, a C library and a README.

mod c;
mod files;
mod readme;
mod rust;

use crate::program::Program;
use files::File;
use std::io;
use std::path::{Path, PathBuf};

/// Summary of the written files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFiles {
    /// Files, relative to the folder, sorted by name.
    pub files: Vec<PathBuf>,
    /// Size of the program's own data, bytes: body, memory, images.
    pub data_bytes: u64,
}

/// Error of writing a program.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The folder is not empty.
    #[error("{}: the folder is not empty; name a folder that does not exist yet", .0.display())]
    NotEmpty(PathBuf),
    /// A file or folder could not be created.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
}

/// Writes a program to a folder that is empty or does not exist. The folder appears complete or not at all.
///
/// # Errors
/// When the folder is not empty or cannot be written.
pub fn write(program: &Program, folder: &Path) -> Result<WrittenFiles, WriteError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| WriteError::File { path, source }
    };
    let there = match std::fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            Some(_) => return Err(WriteError::NotEmpty(folder.to_owned())),
            None => true,
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => false,
        Err(e) => return Err(failed(folder)(e)),
    };
    let mut files = rust::files(program);
    files.extend(c::files(program));
    files.push(File::new("README.md", readme::format_readme(program)));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    // The temporary folder is next to the target, so that the last step is one rename.
    let parent = match folder.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let temporary = parent.join(format!(".{}.{}.part", program.name, std::process::id()));
    let result = write_files(&files, &temporary).and_then(|()| {
        if there {
            std::fs::remove_dir(folder).map_err(failed(folder))?;
        }
        std::fs::rename(&temporary, folder).map_err(failed(folder))
    });
    if let Err(e) = result {
        // A failed removal is ignored: the first error is the one that counts.
        let _ = std::fs::remove_dir_all(&temporary);
        return Err(e);
    }
    let memory = program.memory.iter().map(|(_, b)| b.len() as u64).sum::<u64>();
    Ok(WrittenFiles {
        files: files.into_iter().map(|f| f.path).collect(),
        data_bytes: memory + program.body.len() as u64 + program.images.len() as u64 * 4096,
    })
}

fn write_files(files: &[File], folder: &Path) -> Result<(), WriteError> {
    for f in files {
        let path = folder.join(&f.path);
        let write = || {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&path, &f.bytes)
        };
        write().map_err(|source| WriteError::File {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}
