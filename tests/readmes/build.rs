//! Collects the Rust examples of all READMEs of the workspace as modules, for `tests/examples.rs`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Folders without READMEs of crates.
const SKIPPED: [&str; 5] = ["target", "docs", "assets", "sample-traces", "node_modules"];

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut readmes = Vec::new();
    find_readmes(&root, &mut readmes)?;
    readmes.sort();
    let mut modules = String::new();
    let mut names = Vec::new();
    for readme in &readmes {
        println!("cargo::rerun-if-changed={}", readme.display());
        let text = fs::read_to_string(readme)?;
        for (n, example) in examples(&text).into_iter().enumerate() {
            let folder = readme
                .parent()
                .and_then(|f| f.strip_prefix(&root).ok())
                .unwrap_or(Path::new("root"));
            let name = format!("{}_{n}", folder.display().to_string().replace(['/', '-'], "_"));
            let _ = writeln!(
                modules,
                "#[allow(dead_code, unsafe_code, clippy::all, clippy::pedantic, clippy::restriction)]\nmod {name} {{\n{example}}}"
            );
            names.push(folder.display().to_string());
        }
    }
    let _ = writeln!(
        modules,
        "/// Folders of the READMEs with an example.\nconst FOLDERS: &[&str] = &{names:?};"
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("examples.rs"), modules)
}

fn find_readmes(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&&*name) {
                find_readmes(&entry.path(), found)?;
            }
        } else if name == "README.md" {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// Returns the Rust blocks of a document.
fn examples(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines() {
        match &mut block {
            Some(code) if line == "```" => {
                all.push(std::mem::take(code));
                block = None;
            }
            Some(code) => {
                code.push_str(line);
                code.push('\n');
            }
            None if line.starts_with("```rust") => block = Some(String::new()),
            None => {}
        }
    }
    all
}
