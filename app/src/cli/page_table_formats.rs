//! Formats of page tables as arguments: names of embedded descriptions, and files of users.

use crate::cli::Failure;
use std::io::Read as _;
use std::path::Path;
use trace_core::page_table_format::{DescribedFormat, MAX_FORMAT_BYTES, MemoryName, embedded_formats};
use trace_core::recording::MmuFormat;

/// Returns the names and titles of the embedded formats, one per line.
pub fn list_formats() -> String {
    embedded_formats()
        .filter_map(|embedded| Some((embedded.name, MmuFormat::from_name(embedded.name)?)))
        .map(|(name, format)| {
            let description = format.description();
            let (levels, bits) = (description.levels(), description.address_bits());
            let levels = match levels {
                1 => "1 level".to_owned(),
                n => format!("{n} levels"),
            };
            format!("  {name:<18}{}, {levels}, {bits} address bits\n", description.title())
        })
        .collect()
}

/// Returns the text of an embedded format.
pub fn find_text(name: &str) -> Result<&'static str, Failure> {
    let found = embedded_formats().find(|embedded| embedded.name == name);
    found.map(|embedded| embedded.text).ok_or_else(|| unknown(name))
}

/// Returns the format that an argument names: an embedded one, or that of a file. `memory` is the memory that a dump
/// holds, if it is not the one of the description.
pub fn find_format(argument: &str, memory: Option<MemoryName>) -> Result<MmuFormat, Failure> {
    let format = match MmuFormat::from_name(argument) {
        Some(format) => format,
        None if Path::new(argument).exists() => MmuFormat::Described(read_file(Path::new(argument))?),
        None => return Err(unknown(argument)),
    };
    let Some(memory) = memory else { return Ok(format) };
    match format {
        MmuFormat::Described(described) => {
            let changed = described.with_memory(memory).map(MmuFormat::Described);
            changed.map_err(|e| Failure::usage(format!("--memory {}: {e}", memory.name())))
        }
        _ => Err(Failure::usage(format!(
            "--memory {}: the format {} has one memory",
            memory.name(),
            format.name()
        ))),
    }
}

fn unknown(argument: &str) -> Failure {
    let names: Vec<&str> = embedded_formats().map(|embedded| embedded.name).collect();
    Failure::usage(format!(
        "'{argument}' is neither a file nor a format of page tables (expected {})",
        names.join(", ")
    ))
}

/// Reads the description in a file.
fn read_file(path: &Path) -> Result<DescribedFormat, Failure> {
    let file = std::fs::File::open(path).map_err(|e| Failure::file(path, e))?;
    let mut text = String::new();
    // One byte more than the limit, so that a longer file is refused by its length.
    let limit = MAX_FORMAT_BYTES as u64 + 1;
    file.take(limit)
        .read_to_string(&mut text)
        .map_err(|e| Failure::file(path, e))?;
    DescribedFormat::parse(&text).map_err(|e| Failure::file(path, e))
}
