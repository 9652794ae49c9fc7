//! The code of a launch: its bytes as far as the recording holds them, and its instructions if a disassembler is there.

use super::DriverData;
use crate::text;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use trace_core::GpuVa;
use trace_core::driver_trace::{DecodedSubmission, GpuWork, Submission};
use trace_core::families::find_family;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{EventKind, Recording, StoredContent};

/// Maximum size of the code that is read, bytes.
const MAX_CODE_BYTES: usize = 64 << 10;
/// Size of an instruction since compute capability 7.0, bytes.
const INSTRUCTION_BYTES: usize = 16;
/// Name of NVIDIA's disassembler.
const DISASSEMBLER: &str = "nvdisasm";
/// Folder of the disassembler, if no folder of `PATH` has it.
const TOOLKIT_FOLDER: &str = "/usr/local/cuda/bin";
/// Number of bytes in a line of a hexdump.
const BYTES_PER_LINE: usize = 16;

/// The code of a launch as lines of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramText {
    /// Instructions, or a hexdump without a disassembler; empty if the recording does not hold the code.
    pub lines: Vec<String>,
    /// What the lines are, or why there are none.
    pub note: String,
}

/// Reads the code at an address just before a submission, and disassembles it if NVIDIA's `nvdisasm` is installed.
/// `class` is the class of the compute engine.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn read_program(
    recording: &Recording,
    data: &DriverData,
    submission: &Submission,
    (program, class): (GpuVa, Option<u16>),
    progress: &Progress,
) -> Result<ProgramText, Cancelled> {
    let code = find_code(recording, data, submission, program, progress)?;
    progress.check()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|f| f.is_absolute());
    let mut folders = folders.chain([PathBuf::from(TOOLKIT_FOLDER)]);
    let tool = folders.find_map(|f| Some(f.join(DISASSEMBLER)).filter(|p| p.is_file()));
    Ok(describe_code(program, &code, class, tool.as_deref()))
}

/// Makes the lines of code.
fn describe_code(program: GpuVa, code: &[u8], class: Option<u16>, tool: Option<&Path>) -> ProgramText {
    let without_lines = |note: String| ProgramText {
        lines: Vec::new(),
        note,
    };
    if code.is_empty() {
        let note = format!(
            "The recording does not hold the code at {program}: no upload, copy or saved memory before the launch writes it."
        );
        return without_lines(note);
    }
    if code.iter().all(|b| *b == 0) {
        let note = format!("The code at {program} is not in the recording: its bytes were set to zero.");
        return without_lines(note);
    }
    let size = text::bytes(code.len() as u64);
    let hexdump = |why: String| ProgramText {
        lines: format_hexdump(program, code),
        note: format!("{size} at {program}, not disassembled: {why}."),
    };
    let Some(architecture) = class.and_then(find_architecture) else {
        return hexdump("the instruction set of its class is unknown".to_owned());
    };
    let Some(tool) = tool else {
        return hexdump(format!("{DISASSEMBLER} of NVIDIA's CUDA toolkit is not in PATH"));
    };
    match disassemble(tool, architecture, code) {
        Ok(lines) => ProgramText {
            lines,
            note: format!("{size} at {program}, disassembled for {architecture} by {DISASSEMBLER}"),
        },
        Err(why) => hexdump(why),
    }
}

/// Returns the name of the instruction set of a compute class.
fn find_architecture(class: u16) -> Option<&'static str> {
    Some(match class {
        0xc3c0 | 0xc4c0 => "SM70",
        0xc5c0 => "SM75",
        0xc6c0 => "SM80",
        0xc7c0 => "SM86",
        0xc9c0 => "SM89",
        0xcbc0 => "SM90",
        0xcdc0 => "SM100",
        0xcec0 => "SM120",
        _ => return None,
    })
}

/// Runs a disassembler on code. The error is a part of a sentence.
fn disassemble(tool: &Path, architecture: &str, code: &[u8]) -> Result<Vec<String>, String> {
    let fail = |e: std::io::Error| format!("{DISASSEMBLER} does not run: {e}");
    let mut file = tempfile::NamedTempFile::new().map_err(fail)?;
    file.write_all(code).map_err(fail)?;
    let run = Command::new(tool)
        .args(["--binary", architecture])
        .arg(file.path())
        .output();
    let output = run.map_err(fail)?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let first = errors
            .lines()
            .next()
            .unwrap_or("without a message")
            .trim_end_matches('.');
        return Err(format!("{DISASSEMBLER} failed: {first}"));
    }
    let listing = String::from_utf8_lossy(&output.stdout);
    Ok(listing.lines().map(|l| l.trim_end().replace('\t', "    ")).collect())
}

fn format_hexdump(program: GpuVa, code: &[u8]) -> Vec<String> {
    let lines = code.chunks(BYTES_PER_LINE).enumerate();
    let lines = lines.map(|(n, bytes)| {
        let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let at = program.saturating_add((n * BYTES_PER_LINE) as u64);
        format!("{at}  {}", hex.join(" "))
    });
    lines.collect()
}

/// Memory behind an address, as far as it is known.
struct KnownCode {
    start: GpuVa,
    bytes: Vec<u8>,
    known: Vec<bool>,
}

impl KnownCode {
    /// Stores what bytes at an address have in common with this memory.
    fn write(&mut self, va: GpuVa, bytes: &[u8]) {
        let (skipped, at) = match va.offset_from(self.start) {
            Some(at) => (0, at),
            None => (self.start.offset_from(va).unwrap_or(u64::MAX), 0),
        };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let rest = bytes.get(skipped..).unwrap_or_default();
        let (to, known) = (self.bytes.get_mut(at..), self.known.get_mut(at..));
        for ((to, known), byte) in to
            .unwrap_or_default()
            .iter_mut()
            .zip(known.unwrap_or_default())
            .zip(rest)
        {
            (*to, *known) = (*byte, true);
        }
    }

    /// Whether a range has bytes in common with this memory.
    fn overlaps(&self, va: GpuVa, bytes: u64) -> bool {
        let end = self.start.saturating_add(self.bytes.len() as u64);
        va < end && va.saturating_add(bytes) > self.start
    }

    /// Returns the known bytes from the start up to the end of the kernel.
    fn into_code(self) -> Vec<u8> {
        let known = self.known.iter().take_while(|k| **k).count();
        let mut code = self.bytes;
        code.truncate(known);
        code.truncate(find_kernel_end(&code));
        code
    }
}

/// Returns the size of the first kernel: compilers end it with a jump to itself.
fn find_kernel_end(code: &[u8]) -> usize {
    let instructions = code.chunks_exact(INSTRUCTION_BYTES);
    let jump = instructions.enumerate().find(|(_, i)| {
        let words = i.first_chunk::<8>().map(|w| u64::from_le_bytes(*w));
        words.is_some_and(|w| w & 0xffff == 0x7947 && w >> 32 >= 0xffff_fff0)
    });
    jump.map_or(code.len(), |(n, _)| (n + 1) * INSTRUCTION_BYTES)
}

/// Finds the bytes of a program before a submission runs. Saved memory comes first, because later work replaces it.
fn find_code(
    recording: &Recording,
    data: &DriverData,
    submission: &Submission,
    program: GpuVa,
    progress: &Progress,
) -> Result<Vec<u8>, Cancelled> {
    let mut code = KnownCode {
        start: program,
        bytes: vec![0; MAX_CODE_BYTES],
        known: vec![false; MAX_CODE_BYTES],
    };
    let saved = find_saved_memory(recording, submission.event);
    for (va, stored) in &saved {
        copy_saved(recording, stored, *va, stored.bytes, *va, &mut code);
    }
    let Some(mut decoder) = find_family(recording).submission_decoder(recording, &data.trace) else {
        return Ok(Vec::new());
    };
    progress.set_total(u64::from(submission.index) + 1);
    let all = data.trace.submissions().iter();
    for s in all.take(submission.index as usize + 1) {
        let decoded = decoder.decode(s);
        for work in &decoded.work {
            match work {
                GpuWork::Upload { word, to, bytes } if code.overlaps(*to, *bytes) => {
                    code.write(*to, &uploaded_bytes(&decoded, *word, *bytes));
                }
                GpuWork::Copy {
                    from: Some(from),
                    to,
                    bytes,
                    ..
                } if code.overlaps(*to, *bytes) => {
                    if let Some((_, stored)) = saved.range(..=*from).next_back() {
                        copy_saved(recording, stored, *from, *bytes, *to, &mut code);
                    }
                }
                _ => {}
            }
        }
        progress.advance(1)?;
    }
    Ok(code.into_code())
}

/// Returns the memory that the recorder saved before an event, by its first address.
fn find_saved_memory(recording: &Recording, event: u64) -> BTreeMap<GpuVa, StoredContent> {
    let events = &recording.events;
    let end = usize::try_from(event).unwrap_or(usize::MAX).min(events.len());
    let kinds = events.kind.iter_range(0..end).enumerate();
    let saved = kinds.filter(|(_, kind)| *kind == EventKind::SavedMemory as u8);
    let saved = saved.filter_map(|(n, _)| events.stored_content(n).map(|s| (s.va, s)));
    saved.collect()
}

/// Writes saved memory from `from` on, up to `bytes` bytes, to another address of the code.
fn copy_saved(recording: &Recording, stored: &StoredContent, from: GpuVa, bytes: u64, to: GpuVa, code: &mut KnownCode) {
    let Some(offset) = from.offset_from(stored.va).filter(|o| *o < stored.bytes) else {
        return;
    };
    // Bytes before the program are not read.
    let skipped = code.start.offset_from(to).unwrap_or(0);
    let available = bytes.min(stored.bytes - offset);
    let Some(wanted) = available.checked_sub(skipped).filter(|n| *n > 0) else {
        return;
    };
    let mut content = vec![0; wanted.min(MAX_CODE_BYTES as u64) as usize];
    let Some(at) = offset.checked_add(skipped) else { return };
    if code.overlaps(to, available) && recording.read_content(stored, at, &mut content) {
        code.write(to.saturating_add(skipped), &content);
    }
}

/// Returns the bytes of an upload: the words that follow the method that starts it.
fn uploaded_bytes(decoded: &DecodedSubmission, word: u32, bytes: u64) -> Vec<u8> {
    let first = decoded.methods.partition_point(|m| m.word <= word);
    let rest = decoded.methods.get(first..).unwrap_or_default();
    let is_data = |name: &Option<String>| name.as_deref() == Some("LOAD_INLINE_DATA");
    let words = rest.iter().take_while(|m| is_data(&m.name));
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    words.flat_map(|m| m.value.to_le_bytes()).take(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: GpuVa = GpuVa::new(0x7000);

    fn instruction(low: u64) -> Vec<u8> {
        let high = 0x000f_c000_0383_ffffu64;
        [low.to_le_bytes(), high.to_le_bytes()].concat()
    }

    #[test]
    fn kernel_ends_at_its_jump_to_itself() {
        let exit = instruction(0x794d);
        let jump = instruction(0xffff_fffc_00fc_7947);
        let forward = instruction(0x0000_0100_00fc_7947);
        let code = [exit.clone(), forward, jump, exit].concat();
        assert_eq!(find_kernel_end(&code), 48);
        assert_eq!(find_kernel_end(&code[..32]), 32);
    }

    #[test]
    fn writes_keep_what_overlaps() {
        let mut code = KnownCode {
            start: PROGRAM,
            bytes: vec![0; 8],
            known: vec![false; 8],
        };
        assert!(code.overlaps(GpuVa::new(0x6ff0), 0x11) && !code.overlaps(GpuVa::new(0x6ff0), 0x10));
        code.write(GpuVa::new(0x6ffe), &[1, 2, 3, 4]);
        code.write(GpuVa::new(0x7002), &[5]);
        code.write(GpuVa::new(0x7006), &[6, 7, 8]);
        assert_eq!(code.into_code(), [3, 4, 5], "the byte after them is not known");
    }

    #[test]
    fn unknown_code_says_why_it_is_not_shown() {
        let note = |code: &[u8], class| describe_code(PROGRAM, code, class, None);
        assert!(
            note(&[], None)
                .note
                .starts_with("The recording does not hold the code at 0x7000")
        );
        assert!(note(&[0; 32], None).note.contains("set to zero"));
        let hexdump = note(&instruction(0x794d), Some(0xcbc0));
        assert_eq!(
            hexdump.lines,
            ["0x7000  4d 79 00 00 00 00 00 00 ff ff 83 03 00 c0 0f 00"]
        );
        assert!(
            hexdump
                .note
                .ends_with("nvdisasm of NVIDIA's CUDA toolkit is not in PATH.")
        );
        assert!(note(&[1], Some(0x1234)).note.contains("class is unknown"));
    }

    #[cfg(unix)]
    #[test]
    fn disassembler_gets_the_code_and_its_architecture() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let tool = folder.path().join(DISASSEMBLER);
        let script = "#!/bin/sh\n[ \"$1\" = --binary ] || exit 2\n[ \"$2\" = SM90 ] || { echo 'bad target.' >&2; exit 1; }\n\
                      printf '\\t.headerflags\\n'; wc -c < \"$3\"\n";
        std::fs::write(&tool, script).unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        let found = describe_code(PROGRAM, &instruction(0x794d), Some(0xcbc0), Some(&tool));
        assert_eq!(found.lines[0], "    .headerflags");
        assert_eq!(found.lines[1].trim(), "16");
        assert!(found.note.ends_with("disassembled for SM90 by nvdisasm"));
        let other = describe_code(PROGRAM, &instruction(0x794d), Some(0xc6c0), Some(&tool));
        assert!(other.note.ends_with("nvdisasm failed: bad target."), "{}", other.note);
    }
}
