//! Launch bounds written into PTX text, for performance experiments.

use std::ops::Range;

use super::{Entry, Ptx};
use crate::Error;

/// Maximum number of threads of a block on any device so far.
const MAX_THREADS: u64 = 1024;
/// Maximum number of registers that a thread can have.
const MAX_REGISTERS: u32 = 255;

/// A launch-bound directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// `.maxntid`
    MaxThreads,
    /// `.reqntid`
    RequiredThreads,
    /// `.minnctapersm`
    MinBlocks,
    /// `.maxnreg`
    MaxRegisters,
}

impl Bound {
    /// Returns the directive of this name.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        Some(match text {
            b".maxntid" => Self::MaxThreads,
            b".reqntid" => Self::RequiredThreads,
            b".minnctapersm" => Self::MinBlocks,
            b".maxnreg" => Self::MaxRegisters,
            _ => return None,
        })
    }
}

/// The change of one directive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// Keep it, present or not.
    #[default]
    Keep,
    /// Remove it.
    Remove,
    /// Set this value.
    Set(T),
}

impl<T: Copy> Change<T> {
    /// Returns the value after the change of `now`.
    fn then(self, now: Option<T>) -> Option<T> {
        match self {
            Self::Keep => now,
            Self::Remove => None,
            Self::Set(value) => Some(value),
        }
    }
}

/// Changes of a kernel's launch bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchBounds {
    /// `.maxntid`: maximum number of threads of a block, x, y and z, each at least 1 and together at most 1024.
    pub max_threads: Change<[u32; 3]>,
    /// `.minnctapersm`: minimum number of blocks that must fit a multiprocessor, at least 1.
    pub min_blocks: Change<u32>,
    /// `.maxnreg`: maximum number of registers of a thread, 1 to 255.
    pub max_registers: Change<u32>,
}

/// Returns the text with other launch bounds of the kernel `name`. Everything else stays as it is, byte for byte; zero
/// bytes at the end and what follows them are removed.
///
/// # Errors
///
/// Same as [`Ptx::parse`]. [`Error::Bounds`] for a missing kernel; for values out of range; for `.maxntid` together
/// with `.reqntid`, which PTX forbids; and for `.minnctapersm` without either, which compilers ignore.
pub fn with_launch_bounds(text: &[u8], name: &str, change: &LaunchBounds) -> Result<Vec<u8>, Error> {
    let ptx = Ptx::parse(text)?;
    let entry = ptx
        .entry(name)
        .ok_or(Error::Bounds("the text has no kernel of that name"))?;
    check(entry, change)?;

    let threads = |[x, y, z]: [u32; 3]| format!(".maxntid {x}, {y}, {z}");
    let mut edits = Vec::<(Range<usize>, String)>::new();
    let mut new = String::new();
    edit(
        entry,
        Bound::MaxThreads,
        change.max_threads,
        threads,
        &mut edits,
        &mut new,
    );
    edit(
        entry,
        Bound::MinBlocks,
        change.min_blocks,
        |n| format!(".minnctapersm {n}"),
        &mut edits,
        &mut new,
    );
    edit(
        entry,
        Bound::MaxRegisters,
        change.max_registers,
        |n| format!(".maxnreg {n}"),
        &mut edits,
        &mut new,
    );
    if !new.is_empty() {
        // Inserts before the text between declaration and body: a comment there may reach to the end of its line.
        edits.push((entry.head_end..entry.head_end, new));
    }
    edits.sort_by_key(|(range, _)| (range.start, range.end));

    let len = text.iter().position(|&b| b == 0).unwrap_or(text.len());
    let added: usize = edits.iter().map(|(_, text)| text.len()).sum();
    let mut out = Vec::with_capacity(len + added);
    let mut at = 0;
    for (range, new) in &edits {
        out.extend_from_slice(text.get(at..range.start).unwrap_or_default());
        out.extend_from_slice(new.as_bytes());
        at = range.end;
    }
    out.extend_from_slice(text.get(at..len).unwrap_or_default());
    Ok(out)
}

/// Checks that the resulting bounds are valid.
fn check(entry: &Entry<'_>, change: &LaunchBounds) -> Result<(), Error> {
    if let Change::Set(threads) = change.max_threads {
        let all = threads.iter().map(|&n| u64::from(n)).try_fold(1, u64::checked_mul);
        if !all.is_some_and(|n| (1..=MAX_THREADS).contains(&n)) {
            return Err(Error::Bounds("a block has 1 to 1024 threads"));
        }
        if entry.required_threads.is_some() {
            return Err(Error::Bounds(
                "the kernel has \".reqntid\", which excludes \".maxntid\"",
            ));
        }
    }
    if let Change::Set(registers) = change.max_registers
        && !(1..=MAX_REGISTERS).contains(&registers)
    {
        return Err(Error::Bounds("a thread has 1 to 255 registers"));
    }
    if let Change::Set(blocks) = change.min_blocks {
        if blocks == 0 {
            return Err(Error::Bounds("a multiprocessor has at least one block"));
        }
        if change.max_threads.then(entry.max_threads).is_none() && entry.required_threads.is_none() {
            return Err(Error::Bounds(
                "\".minnctapersm\" needs \".maxntid\" or \".reqntid\" as well",
            ));
        }
    }
    Ok(())
}

/// Collects the edits of one change: the first directive of its kind is replaced, further ones are removed, and a new
/// one is added to `new`.
fn edit<T>(
    entry: &Entry<'_>,
    bound: Bound,
    change: Change<T>,
    text: impl Fn(T) -> String,
    edits: &mut Vec<(Range<usize>, String)>,
    new: &mut String,
) {
    let mut text = match change {
        Change::Keep => return,
        Change::Remove => None,
        Change::Set(value) => Some(text(value)),
    };
    for (_, range) in entry.directives.iter().filter(|(b, _)| *b == bound) {
        edits.push((range.clone(), text.take().unwrap_or_default()));
    }
    if let Some(text) = text {
        new.push('\n');
        new.push_str(&text);
    }
}
