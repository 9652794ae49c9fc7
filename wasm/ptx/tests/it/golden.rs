//! Texts of small programs, as they were when they were last read by a person.

use std::path::{Path, PathBuf};
use wasm_ptx::{CellSize, ModuleRole, Options, ProgramBuilder};

/// Names of the programs in the folder `golden`.
const PROGRAMS: &[&str] = &["arithmetic", "memory", "branches", "calls", "host"];

fn path(name: &str, extension: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden");
    folder.join(name).with_extension(extension)
}

fn translate(name: &str) -> String {
    let bytes = wat::parse_file(path(name, "wat")).unwrap();
    let mut builder = ProgramBuilder::new(Options {
        cell: CellSize::Four,
        ..Options::default()
    });
    for (module, name, signature) in builder.unresolved_functions(name, &bytes, ModuleRole::User).unwrap() {
        builder
            .define_host_function(&module, &name, &signature.params, &signature.results)
            .unwrap();
    }
    builder.add_module(name, &bytes, ModuleRole::User).unwrap();
    builder.translate().unwrap().text
}

#[test]
fn texts_of_small_programs_stay_as_they_are() {
    let mut changed = Vec::new();
    for name in PROGRAMS {
        let text = translate(name);
        let path = path(name, "ptx");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if text != expected {
            let line = text.lines().zip(expected.lines()).position(|(a, b)| a != b);
            changed.push(format!("{name}.ptx, line {:?}", line.map(|n| n + 1)));
        }
    }
    assert!(
        changed.is_empty(),
        "{changed:?}: read the changes, then `UPDATE_SNAPSHOTS=1 cargo test -p wasm-ptx` renews the files"
    );
}

#[test]
fn translations_are_the_same_each_time() {
    for name in PROGRAMS {
        assert!(translate(name) == translate(name), "{name}");
    }
}
