//! The page of functions that remote CUDA programs find: what the built libraries export, and which programs test it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use object::{Object as _, ObjectSymbol as _};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use whole_program_tests::{program, root};

const PAGE: &str = "docs/reference/remote-cuda.md";
/// Endings of the functions whose default stream is per thread.
const TWINS: [&str; 2] = ["_ptsz", "_ptds"];

/// Returns the exported functions of a library with these beginnings of names, without twins; the flag says whether there
/// is a twin.
fn exported(library: &str, beginnings: &[&str]) -> BTreeMap<String, bool> {
    let bytes = std::fs::read(program(library)).unwrap();
    let file = object::File::parse(bytes.as_slice()).unwrap();
    let names: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .filter(|name| beginnings.iter().any(|beginning| name.starts_with(beginning)))
        .collect();
    let is_twin = |name: &str| TWINS.iter().any(|twin| name.ends_with(twin));
    let functions = names.iter().filter(|name| !is_twin(name));
    functions
        .map(|name| {
            (
                name.clone(),
                TWINS.iter().any(|twin| names.contains(&format!("{name}{twin}"))),
            )
        })
        .collect()
}

/// Returns the sources below a folder with an ending, by the names of the programs that they are.
fn sources(folder: &str, ending: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = std::fs::read_dir(root().join(folder))
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == ending))
        .map(|path: PathBuf| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    all.sort();
    all
}

/// Returns the names of the sources that use a function.
fn users<'s>(function: &str, sources: &'s [(String, String)]) -> Vec<&'s str> {
    let uses = |text: &str| {
        text.match_indices(function).any(|(at, _)| {
            let after = text[at + function.len()..].chars().next();
            let before = text[..at].chars().next_back();
            let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            !is_part(before) && !is_part(after)
        })
    };
    sources
        .iter()
        .filter(|(_, text)| uses(text))
        .map(|(name, _)| name.as_str())
        .collect()
}

/// Adds the functions of cuBLAS and cuRAND.
fn add_libraries(page: &mut String, clients: &[(String, String)]) {
    page.push_str(
        "\n## cuBLAS, `libcublas.so.12` and `libcublas.so.13`, and cuRAND, `libcurand.so.10`\n\n\
         NVIDIA's libraries run these functions where the device is.\n\
         Tests are programs of `tests/cuda/clients/src/programs/`.\n\n\
         | function | library | tests |\n|---|---|---|\n",
    );
    let cublas = exported("libkinescope_remote_cublas_13.so", &["cublas"]);
    assert_eq!(cublas, exported("libkinescope_remote_cublas_12.so", &["cublas"]));
    let curand = exported("libkinescope_remote_curand.so", &["curand"]);
    let lines = cublas.keys().map(|name| ("cuBLAS 12, 13", name));
    for (library, name) in lines.chain(curand.keys().map(|name| ("cuRAND 10", name))) {
        writeln!(page, "| `{name}` | {library} | {} |", users(name, clients).join(", ")).unwrap();
    }
}

fn render() -> String {
    let mut page = String::from(
        "# Functions that remote CUDA programs find\n\n\
         [`kinescope run`](../running-cuda.md) gives a program these functions.\n\
         A test makes this page from the built libraries and the sources of the programs that test them.\n\
         A function with a mark in *twin* also exists with a default stream for each thread.\n\n\
         ## Driver API, `libcuda.so.1`\n\n\
         Tests are programs of `tests/cuda/clients/src/programs/`.\n\
         They give the same results with a remote device as without.\n\n\
         | function | twin | tests |\n|---|---|---|\n",
    );
    let mut clients = sources("tests/cuda/clients/src/programs", "rs");
    clients.extend(
        sources("tests/cuda/clients/src", "rs")
            .into_iter()
            .filter(|(name, _)| name == "gpu"),
    );
    for (name, has_twin) in exported("libkinescope_remote_cuda.so", &["cu"]) {
        let tests = users(&name, &clients).join(", ");
        let twin = if has_twin { "✓" } else { "" };
        writeln!(page, "| `{name}` | {twin} | {tests} |").unwrap();
    }
    page.push_str(
        "\n`gpu` is the part that all programs share.\n\n\
         ## Runtime API, `libcudart.so.12` and `libcudart.so.13`\n\n\
         Tests are those of `remote/runtime/tests/it/`, and `runtime_calls` in `tests/cuda/programs/`.\n\n\
         | function | CUDA | twin | tests |\n|---|---|---|---|\n",
    );
    let (twelve, thirteen) = (
        exported("libkinescope_remote_cudart_12.so", &["cuda", "__cuda"]),
        exported("libkinescope_remote_cudart_13.so", &["cuda", "__cuda"]),
    );
    let mut tests = sources("remote/runtime/tests/it", "rs");
    tests.extend(sources("tests/cuda/programs", "cu"));
    let names: BTreeSet<&String> = twelve.keys().chain(thirteen.keys()).collect();
    for name in names {
        let versions = match (twelve.contains_key(name), thirteen.contains_key(name)) {
            (true, true) => "12, 13",
            (true, false) => "12",
            _ => "13",
        };
        let has_twin = twelve.get(name).or(thirteen.get(name)).copied().unwrap_or(false);
        let twin = if has_twin { "✓" } else { "" };
        writeln!(
            page,
            "| `{name}` | {versions} | {twin} | {} |",
            users(name, &tests).join(", ")
        )
        .unwrap();
    }
    add_libraries(&mut page, &clients);
    page
}

#[test]
fn page_of_functions_matches_the_libraries() {
    let path = root().join(Path::new(PAGE));
    let expected = render();
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, expected).unwrap();
        return;
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let line = page.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert!(
        page == expected,
        "{PAGE} differs from the libraries (first lines that differ: {line:?}); \
         `UPDATE_SNAPSHOTS=1 cargo test -p whole-program-tests --test it remote_functions` renews it"
    );
}
