//! NVIDIA's assembler `ptxas`, if this machine has it: it checks texts as the driver's compiler does.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Environment variable with the path of the assembler.
const VARIABLE: &str = "KINESCOPE_PTXAS";

/// The assembler's program.
pub struct Assembler(PathBuf);

/// Returns the assembler from `KINESCOPE_PTXAS` or `PATH`. Without one, prints why a test is skipped.
pub fn find() -> Option<Assembler> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = named
        .into_iter()
        .chain(std::env::split_paths(&path).map(|folder| folder.join("ptxas")));
    let found = candidates.find(|candidate| candidate.is_file());
    if found.is_none() {
        println!("skipped: no ptxas in {VARIABLE} or PATH (PyPI: nvidia-cuda-nvcc)");
    }
    found.map(Assembler)
}

impl Assembler {
    /// Assembles a text for a GPU such as `sm_80`, and returns what the assembler prints about registers and stack.
    pub fn assemble(&self, text: &str, arch: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let source = folder.path().join("program.ptx");
        let mut file = std::fs::File::create(&source).map_err(|e| e.to_string())?;
        file.write_all(text.as_bytes()).map_err(|e| e.to_string())?;
        let output = Command::new(&self.0)
            .args(["-v", "-arch", arch, "-o"])
            .arg(folder.path().join("program.cubin"))
            .arg(&source)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return Ok(messages);
        }
        let head: String = messages.lines().take(4).collect::<Vec<_>>().join("\n");
        let context: Vec<String> = messages
            .lines()
            .filter_map(|line| {
                line.split("line ")
                    .nth(1)?
                    .split(';')
                    .next()?
                    .trim()
                    .parse::<usize>()
                    .ok()
            })
            .take(2)
            .filter_map(|number| Some(format!("{number}: {}", text.lines().nth(number.checked_sub(1)?)?)))
            .collect();
        Err(format!("{head}\n{}", context.join("\n")))
    }
}
