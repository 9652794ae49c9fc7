//! The index of a program's processes, each with its own recording: `F.processes.json` next to `F.kine`.
//!
//! The index opens as the recording of the process with the most launches; that recording lists the others.

use super::error::ImportError;
use super::json_head::begins_as_json;
use std::path::{Path, PathBuf};
use trace_core::container;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{ProcessEntry, ProcessIndex, Recording};

/// Maximum size of an index, bytes.
const MAX_INDEX: u64 = 16 << 20;
/// Maximum number of processes of an index.
const MAX_PROCESSES: usize = 1 << 16;

/// Returns the index that belongs to a recording: `F.processes.json` for `F.kine`.
#[must_use]
pub fn index_of(recording: &Path) -> PathBuf {
    recording.with_extension("processes.json")
}

/// Returns whether a file is a process index, by its first bytes.
#[must_use]
pub fn fits(path: &Path) -> bool {
    begins_as_json(path, |text| {
        memchr::memmem::find(text, b"\"kinescope_processes\"").is_some()
    })
}

/// Returns the recordings that an index names.
#[must_use]
pub fn parts(path: &Path) -> Vec<PathBuf> {
    read(path).map_or_else(
        |_| Vec::new(),
        |index| index.processes.iter().map(|p| sibling_path(path, p)).collect(),
    )
}

fn sibling_path(index: &Path, process: &ProcessEntry) -> PathBuf {
    index.parent().unwrap_or(Path::new("")).join(&process.file)
}

/// Reads an index.
///
/// # Errors
///
/// When the file cannot be read, is no index, names files outside of its folder, or is of a later version.
pub fn read(path: &Path) -> Result<ProcessIndex, ImportError> {
    let io = |source| ImportError::Io {
        path: path.to_owned(),
        source,
    };
    let wrong = |what: String| io(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
    let file = std::fs::File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.len() > MAX_INDEX {
        return Err(wrong(format!("an index of processes has at most {MAX_INDEX} bytes")));
    }
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_INDEX), &mut text).map_err(io)?;
    let index: ProcessIndex = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    if index.kinescope_processes != 1 {
        return Err(wrong(format!(
            "the index has version {} (expected 1): a newer version of kinescope wrote it",
            index.kinescope_processes
        )));
    }
    if index.processes.is_empty() || index.processes.len() > MAX_PROCESSES {
        return Err(wrong(format!("the index lists {} processes", index.processes.len())));
    }
    let is_name = |p: &ProcessEntry| p.file.components().count() == 1 && p.file.file_name().is_some();
    if let Some(p) = index.processes.iter().find(|p| !is_name(p)) {
        return Err(wrong(format!(
            "{}: the recordings of an index must be in its own folder",
            p.file.display()
        )));
    }
    Ok(index)
}

/// Opens an index as the recording of the process with the most launches.
///
/// # Errors
///
/// When the index or that recording cannot be read.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let index = read(path)?;
    let main = index.main().cloned().unwrap_or_default();
    let file = sibling_path(path, &main);
    let mut recording = container::open_with(&file, progress).map_err(|e| ImportError::container(&file, e))?;
    let count = index.processes.len();
    recording.metadata.findings.push(Finding::new(
        FindingKind::NotUsed,
        main.file.display().to_string(),
        format!(
            "this is process {} of {count}; open the file of another process to see it",
            main.process
        ),
    ));
    recording.metadata.processes = Some(index);
    Ok(recording)
}

/// Returns the index that lists a recording, with its path, if it is next to the recording: `F.processes.json` for
/// `F.kine` and for `F-PID.kine`.
#[must_use]
pub fn listing(recording: &Path) -> Option<(PathBuf, ProcessIndex)> {
    let (stem, file) = (recording.file_stem()?.to_str()?, recording.file_name()?);
    let first = stem
        .rsplit_once('-')
        .filter(|(_, pid)| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()));
    let stems = std::iter::once(stem).chain(first.map(|(first, _)| first));
    stems
        .map(|stem| index_of(&recording.with_file_name(format!("{stem}.kine"))))
        .filter(|path| fits(path))
        .filter_map(|path| read(&path).ok().map(|index| (path, index)))
        .find(|(_, index)| index.processes.iter().any(|p| p.file.as_os_str() == file))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics when it fails")]
mod tests {
    use super::*;

    #[test]
    fn process_index_names_only_files_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.processes.json");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write(r#"{"kinescope_processes": 1, "processes": [{"file": "a.kine", "process": 7}]}"#);
        assert!(fits(&path));
        assert_eq!(read(&path).unwrap().processes[0].process, 7);
        assert_eq!(parts(&path), [folder.path().join("a.kine")]);
        assert!(import(&path, &Progress::new()).is_err(), "the recording is not there");
        write(
            r#"{"kinescope_processes": 1, "processes": [
                {"file": "a.kine", "process": 7, "launches": 1},
                {"file": "a-8.kine", "process": 8, "launches": 2},
                {"file": "a-9.kine", "process": 9, "launches": 2}]}"#,
        );
        assert_eq!(read(&path).unwrap().main().unwrap().process, 8);
        for (file, listed) in [
            ("a.kine", true),
            ("a-8.kine", true),
            ("a-7.kine", false),
            ("b.kine", false),
        ] {
            let found = listing(&folder.path().join(file));
            assert_eq!(found.map(|(p, _)| p), listed.then(|| path.clone()), "{file}");
        }
        for invalid in [
            r#"{"kinescope_processes": 1, "processes": [{"file": "../a.kine"}]}"#,
            r#"{"kinescope_processes": 1, "processes": [{"file": "/a.kine"}]}"#,
            r#"{"kinescope_processes": 1, "processes": []}"#,
            r#"{"kinescope_processes": 2, "processes": [{"file": "a.kine"}]}"#,
            "{\"kinescope_processes\"",
        ] {
            write(invalid);
            assert!(read(&path).is_err(), "{invalid}");
        }
    }
}
