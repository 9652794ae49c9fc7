//! Compares the disassembly of every shader of Mesa's driver in the recordings with the text of Mesa's own
//! disassembler, line by line.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use bifrost::{clause_text, disassemble};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn recordings() -> PathBuf {
    std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings"),
        PathBuf::from,
    )
}

fn folders(root: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for path in entries.map(|e| e.unwrap().path()).filter(|p| p.is_dir()) {
        folders(&path, into);
        if path.join("spec.json").exists() {
            into.push(path);
        }
    }
}

/// Returns the disassembly texts by shader address.
fn texts(decoded: &str) -> BTreeMap<String, Vec<String>> {
    let mut texts = BTreeMap::new();
    let mut lines = decoded.lines();
    while let Some(line) = lines.next() {
        let Some(at) = line.split("(GPU VA ").nth(1).and_then(|r| r.split(')').next()) else {
            continue;
        };
        if !line.starts_with("Shader ") {
            continue;
        }
        let code = lines
            .by_ref()
            .take_while(|l| !l.starts_with("State") && !l.starts_with("Shader"));
        let code = code
            .map(|l| l.trim_end().to_owned())
            .filter(|l| !l.is_empty())
            .collect();
        texts.insert(at.to_owned(), code);
    }
    texts
}

#[test]
fn disassembly_matches_mesas_text_for_every_shader() {
    let mut all = Vec::new();
    folders(&recordings().join("panfrost"), &mut all);
    if all.is_empty() {
        println!("skipped: {} is missing", recordings().join("panfrost").display());
        return;
    }
    let (mut shaders, mut operations) = (0, 0);
    for folder in all {
        let names = || fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path());
        let name = |p: &Path| p.file_name().unwrap().to_string_lossy().into_owned();
        let mut expected = BTreeMap::new();
        for path in names().filter(|p| name(p).starts_with("pandecode")) {
            expected.append(&mut texts(&fs::read_to_string(path).unwrap()));
        }
        for path in names().filter(|p| name(p).starts_with("shader_")) {
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            let at = stem.rsplit('_').next().unwrap();
            let expected_lines = expected
                .get(at)
                .unwrap_or_else(|| panic!("no text for {}", path.display()));
            let shader = disassemble(&fs::read(&path).unwrap());
            assert_eq!(shader.stopped, None, "{}", path.display());
            let lines: Vec<String> = shader
                .clauses
                .iter()
                .flat_map(|c| {
                    assert!(c.is_sound(), "{}", clause_text(c, 0));
                    operations += 2 * c.tuples.len();
                    clause_text(c, 0).lines().map(str::to_owned).collect::<Vec<_>>()
                })
                .collect();
            for (line, expected_line) in lines.iter().zip(expected_lines) {
                assert_eq!(line, expected_line, "{}", path.display());
            }
            assert_eq!(lines.len(), expected_lines.len(), "{}", path.display());
            shaders += 1;
        }
    }
    assert!(
        shaders >= 30 && operations > 1000,
        "{shaders} shaders, {operations} operations"
    );
}
