//! A program's shaders and buffers as files, and their list, `spec.json`, in the same folder.

use crate::session::BufferResult;
use crate::work::{BufferData, Kind, Role, Work};
use serde_json::{Value, json};
use std::io;
use std::path::Path;

fn describe(b: &BufferData) -> Value {
    json!({
        "name": b.name,
        "kind": match b.kind { Kind::Storage => "ssbo", Kind::Uniform => "ubo" },
        "binding": b.binding,
        "bytes": b.init.len(),
        "type": b.element.name(),
        "shape": b.shape,
        "role": b.role.map(Role::name),
        "init": format!("{}.init.bin", b.name),
        "expected": b.expected.as_ref().map(|_| format!("{}.expected.bin", b.name)),
        "compare": b.expected.as_ref().map_or_else(|| "none".to_owned(), |(_, t)| t.to_string()),
    })
}

/// Writes a program's shaders, the buffers before a run, and their expected contents after it.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn write_before(dir: &Path, program: &str, work: &Work, gpu: &(String, String)) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    for s in &work.steps {
        std::fs::write(dir.join(format!("{}.comp", s.name)), s.source)?;
    }
    for (i, t) in work.textures.iter().enumerate() {
        let name = format!("texture{i}_r32ui_{}x{}.bin", t.width, t.height);
        std::fs::write(dir.join(name), crate::work::words(&t.pixels))?;
    }
    for b in &work.buffers {
        std::fs::write(dir.join(format!("{}.init.bin", b.name)), &b.init)?;
        if let Some((expected, _)) = &b.expected {
            std::fs::write(dir.join(format!("{}.expected.bin", b.name)), expected)?;
        }
    }
    let spec = json!({
        "program": program,
        "renderer": gpu.0,
        "gl_version": gpu.1,
        "buffers": work.buffers.iter().map(describe).collect::<Vec<_>>(),
    });
    std::fs::write(dir.join("spec.json"), format!("{spec:#}\n"))
}

/// Writes the contents of the storage buffers after a run, as `NAME.after.bin`.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn write_after(dir: &Path, results: &[BufferResult]) -> io::Result<()> {
    for r in results {
        std::fs::write(dir.join(format!("{}.after.bin", r.name)), &r.contents)?;
    }
    Ok(())
}
