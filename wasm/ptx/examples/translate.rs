//! Prints the PTX text of a module: `translate FILE [4|8|16]`. The file is a module in binary or text form.

use std::error::Error;
use std::io::Write as _;

use wasm_ptx::{CellSize, ModuleRole, Options, ProgramBuilder};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: translate FILE [4|8|16]")?;
    let cell = match arguments.next().as_deref() {
        Some("8") => CellSize::Eight,
        Some("16") => CellSize::Sixteen,
        _ => CellSize::Four,
    };
    let bytes = wat::parse_bytes(&std::fs::read(&path)?)?.into_owned();
    let mut builder = ProgramBuilder::new(Options {
        cell,
        ..Options::default()
    });
    for (module, name, signature) in builder.unresolved_functions(&path, &bytes, ModuleRole::User)? {
        builder.define_host_function(&module, &name, &signature.params, &signature.results)?;
    }
    builder.add_module(&path, &bytes, ModuleRole::User)?;
    let start = std::time::Instant::now();
    let program = builder.translate()?;
    let seconds = start.elapsed().as_secs_f64();
    std::io::stdout().write_all(program.text.as_bytes())?;
    writeln!(
        std::io::stderr(),
        "{} bytes of module, {} of text, {seconds:.4} s, {} uncounted frames",
        bytes.len(),
        program.text.len(),
        program.uncounted_frames
    )?;
    Ok(())
}
