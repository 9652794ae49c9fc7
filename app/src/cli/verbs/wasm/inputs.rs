//! The inputs of a run: files, the files of folders, the lines of `.jsonl` files.

use crate::cli::Failure;
use crate::cli::out::format_count;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;
use wasm_run::Input;

/// Maximum number of inputs.
const MAX_INPUTS: usize = 1 << 20;

/// Reads the inputs that `paths` name, in their order. `by_line` makes each line of an input a request of `invoke`.
///
/// # Errors
/// When a path cannot be read, two inputs have the same name, or the inputs exceed the limit of memory.
pub fn read(paths: &[PathBuf], by_line: bool, progress: &Progress) -> Result<Vec<Input>, Failure> {
    let mut reader = Reader {
        inputs: Vec::new(),
        sources: BTreeMap::new(),
        bytes: 0,
        progress,
    };
    for path in paths {
        let kind = fs::metadata(path).map_err(|e| Failure::file(path, e))?;
        if kind.is_dir() {
            reader.add_folder(path)?;
        } else if path.extension() == Some(OsStr::new("jsonl")) {
            reader.add_lines(path)?;
        } else {
            reader.add_file(path)?;
        }
    }
    if by_line {
        reader.inputs.iter_mut().for_each(Input::split_requests);
    }
    Ok(reader.inputs)
}

struct Reader<'a> {
    inputs: Vec<Input>,
    /// The source of each name.
    sources: BTreeMap<String, PathBuf>,
    bytes: u64,
    progress: &'a Progress,
}

impl Reader<'_> {
    /// Adds the regular files of a folder in the order of their names.
    fn add_folder(&mut self, folder: &Path) -> Result<(), Failure> {
        let failed = |e: std::io::Error| Failure::file(folder, e);
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_file() {
                files.push(path);
            }
        }
        if files.is_empty() {
            return Err(Failure::file(folder, "the folder has no file"));
        }
        files.sort();
        files.iter().try_for_each(|file| self.add_file(file))
    }

    fn add_file(&mut self, path: &Path) -> Result<(), Failure> {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
        let name = name.ok_or_else(|| Failure::file(path, "the input has no file name"))?;
        let bytes = self.read_bytes(path)?;
        self.add(name, bytes, path)
    }

    /// Adds the lines of a file. The name of a line is its number in six digits; empty lines are no inputs.
    fn add_lines(&mut self, path: &Path) -> Result<(), Failure> {
        let bytes = self.read_bytes(path)?;
        let before = self.inputs.len();
        for (number, line) in bytes.split(|b| *b == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                self.add(format!("{:06}", number + 1), line.to_vec(), path)?;
            }
        }
        if self.inputs.len() == before {
            return Err(Failure::file(path, "the file has no line"));
        }
        Ok(())
    }

    fn read_bytes(&mut self, path: &Path) -> Result<Vec<u8>, Failure> {
        self.progress.check().map_err(|e| Failure::usage(e.to_string()))?;
        let bytes = fs::read(path).map_err(|e| Failure::file(path, e))?;
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        let limit = self.progress.unpack_limit();
        if self.bytes > limit {
            let message = format!("the inputs up to this one have more than {limit} bytes: give fewer inputs");
            return Err(Failure::file(path, message));
        }
        Ok(bytes)
    }

    fn add(&mut self, name: String, bytes: Vec<u8>, source: &Path) -> Result<(), Failure> {
        if let Some(other) = self.sources.insert(name.clone(), source.to_owned()) {
            let message = format!(
                "a second input has the name {name}; the first one is of {}",
                other.display()
            );
            return Err(Failure::file(source, message));
        }
        if self.inputs.len() >= MAX_INPUTS {
            let max = format_count(MAX_INPUTS as u64, "input");
            return Err(Failure::file(source, format!("more than {max}")));
        }
        self.inputs.push(Input {
            name,
            bytes,
            more_requests: Vec::new(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(inputs: &[Input]) -> Vec<&str> {
        inputs.iter().map(|i| i.name.as_str()).collect()
    }

    #[test]
    fn files_folders_and_lines_are_inputs_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("many/below")).unwrap();
        for name in ["many/b", "many/a.txt", "many/below/c", "single"] {
            fs::write(at(name), name).unwrap();
        }
        fs::write(at("lines.jsonl"), "{\"a\":1}\r\n\n[2]\n").unwrap();
        let paths = [at("single"), at("many"), at("lines.jsonl")];
        let inputs = read(&paths, false, &Progress::new()).unwrap();
        assert_eq!(names(&inputs), ["single", "a.txt", "b", "000001", "000003"]);
        assert_eq!(inputs[3].bytes, b"{\"a\":1}");
        assert_eq!(inputs[4].bytes, b"[2]");
        let twice = read(&[at("single"), at("single")], false, &Progress::new()).unwrap_err();
        assert!(
            twice.to_string().contains("a second input has the name single"),
            "{twice}"
        );
        let missing = read(&[at("none")], false, &Progress::new()).unwrap_err();
        assert!(missing.to_string().contains("none: No such file"), "{missing}");
        fs::write(at("empty.jsonl"), "\n\n").unwrap();
        assert!(read(&[at("empty.jsonl")], false, &Progress::new()).is_err());
        fs::create_dir(at("nothing")).unwrap();
        assert!(read(&[at("nothing")], false, &Progress::new()).is_err());
    }

    #[test]
    fn lines_are_requests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests");
        fs::write(&path, "one\n\nthree\n").unwrap();
        let input = read(&[path], true, &Progress::new()).unwrap().remove(0);
        assert_eq!(input.bytes, b"one");
        assert_eq!(input.more_requests, [b"".to_vec(), b"three".to_vec()]);
    }
}
