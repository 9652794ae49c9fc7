//! No two top-level modules of a crate use each other, and no more than three files of a crate use each other in a
//! circle.

use std::path::{Path, PathBuf};
use whole_program_tests::module_graph::ModuleGraph;
use whole_program_tests::root;

/// Maximum number of files of a circle: a parent and two children that share its types.
const MAX_CIRCLE: usize = 3;

/// Adds the source folders of the crates in a folder.
fn find_crates(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !path.is_dir() || path.is_symlink() || name.starts_with('.') || ["target", "src", "assets"].contains(&&*name)
        {
            continue;
        }
        if path.join("Cargo.toml").exists() && path.join("src").is_dir() {
            all.push(path.join("src"));
        }
        find_crates(&path, all);
    }
}

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let mut crates = Vec::new();
    find_crates(&root(), &mut crates);
    assert!(crates.len() > 20, "{crates:?}");
    let mut failures = Vec::new();
    for src in crates {
        let graph = ModuleGraph::read(&src).unwrap();
        let name = src.strip_prefix(root()).unwrap().display().to_string();
        for (a, b) in graph.mutual_pairs(&src) {
            failures.push(format!("{name}: {a} and {b} use each other"));
        }
        for circle in graph.circles().into_iter().filter(|c| c.len() > MAX_CIRCLE) {
            let files: Vec<_> = circle
                .iter()
                .map(|f| f.strip_prefix(&src).unwrap().display().to_string())
                .collect();
            failures.push(format!(
                "{name}: {} files in a circle: {}",
                files.len(),
                files.join(", ")
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Writes a crate of these files, and returns its graph as pairs of file names.
fn uses(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let short = |f: &PathBuf| f.strip_prefix(folder.path()).unwrap().display().to_string();
    let graph = ModuleGraph::read(folder.path()).unwrap();
    let pairs = graph
        .uses
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    pairs.map(|(from, to)| (short(from), short(to))).collect()
}

fn pair(from: &str, to: &str) -> (String, String) {
    (from.to_owned(), to.to_owned())
}

#[test]
fn uses_are_of_the_file_that_defines_the_item() {
    let files = [
        ("lib.rs", "mod a; mod b; pub use a::Item;"),
        ("a.rs", "mod part; pub use part::*; pub struct Item;"),
        (
            "a/part.rs",
            "use super::Item; pub fn help() {} pub(in crate::b) fn seen() {}",
        ),
        (
            "b.rs",
            "use crate::a::{self, help as aid}; fn f(_: crate::Item) { aid() }",
        ),
    ];
    // The re-exports of lib.rs and a.rs are no uses, `help` is found through the glob, and `pub(in …)` uses nothing.
    let expected = [
        pair("a/part.rs", "a.rs"),
        pair("b.rs", "a/part.rs"),
        pair("b.rs", "a.rs"),
    ];
    assert_eq!(uses(&files), expected);
}

#[test]
fn comments_strings_and_tests_use_nothing() {
    let text = "// use crate::b::X;\n/* use crate::b::X; */ const S: &str = \"use crate::b::X;\"; const R: &str = \
                r#\"crate::b::X\"#; fn f<'a>(_: &'a str) -> char { '\"' }\n#[cfg(test)]\nmod tests { use crate::b::X; }";
    assert_eq!(
        uses(&[("lib.rs", "mod a; mod b;"), ("a.rs", text), ("b.rs", "pub struct X;")]),
        []
    );
}

#[test]
fn inline_modules_count_as_their_file() {
    let a = "pub mod inner { pub struct X; use super::super::b::Y; }";
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", a),
        ("b.rs", "pub struct Y; use crate::a::inner::X;"),
    ];
    assert_eq!(uses(&files), [pair("a.rs", "b.rs"), pair("b.rs", "a.rs")]);
}
