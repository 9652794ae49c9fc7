//! The page image lines of a plan's text, and the values that are derived from a handwritten body.

use super::lines::{Fields, TextError};
use crate::plan::{PageImages, PageSource, Plan, PlanBuffer, ReadClasses, Rewrite, RewriteKind};
use replay_core::{Action, Actions, ReadClass, width_mask};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trace_core::PAGE_SIZE;
use trace_core::recording::{Digest, Page, ZERO_PAGE, zero_digest};

/// Bytes per printed line.
const ROW: usize = 32;

/// Maximum number of page images of a text: 256 MiB. A line of few bytes can create one.
const MAX_CONTENTS: usize = 1 << 16;

/// Reads files that a plan's text refers to.
pub trait Files {
    /// Returns the file's bytes, of which at most `max` are needed.
    ///
    /// # Errors
    /// A message why they cannot be read.
    fn read(&self, name: &str, max: u64) -> Result<Vec<u8>, String>;
}

/// No files.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &str, _: u64) -> Result<Vec<u8>, String> {
        Err("files cannot be read here".to_owned())
    }
}

fn hex(digest: &Digest) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().to_string()
}

/// Page images by their name in the text: a digest, or any other name in quotes.
pub(super) struct Contents {
    by_name: BTreeMap<String, Box<Page>>,
}

impl Contents {
    /// Reads the `content` lines before the body.
    pub fn read<'t>(rows: impl Iterator<Item = (usize, &'t str)>, files: &dyn Files) -> Result<Self, TextError> {
        let mut by_name: BTreeMap<String, Box<Page>> = BTreeMap::new();
        let mut named = Vec::new();
        for (line, text) in rows {
            let mut f = Fields::new(line, text, None);
            match f.any("a word")?.as_str() {
                "content" => {}
                "body" => break,
                _ => continue,
            }
            let name = match f.is_quoted() {
                true => f.text("the name")?,
                false => {
                    let name = f.any("the name")?;
                    let digest = blake3::Hash::from_hex(&name).map_err(|e| f.error(format!("the digest: {e}")))?;
                    named.push((line, *digest.as_bytes()));
                    digest.to_hex().to_string()
                }
            };
            if by_name.len() >= MAX_CONTENTS && !by_name.contains_key(&name) {
                return Err(f.error(format!(
                    "there are more than {MAX_CONTENTS} page images; split the plan into several"
                )));
            }
            let page = by_name.entry(name).or_insert_with(|| Box::new(ZERO_PAGE));
            let place = f.any("`file`, or a place in the page")?;
            let (at, bytes) = if place == "file" {
                let file = f.text("the file")?;
                let bytes = files.read(&file, PAGE_SIZE as u64 + 1);
                (0, bytes.map_err(|e| f.error(format!("{file}: {e}")))?)
            } else {
                let at: usize = f.parse(&place, "the place in the page")?;
                let digits = f.any("the bytes")?;
                let bytes =
                    bytes(&digits).ok_or_else(|| f.error("the bytes are not pairs of hexadecimal digits".into()))?;
                (at, bytes)
            };
            let to = at.checked_add(bytes.len()).and_then(|end| page.get_mut(at..end));
            to.ok_or_else(|| f.error(format!("{} bytes at {at:#x} do not fit a page of 4096", bytes.len())))?
                .copy_from_slice(&bytes);
            f.end()?;
        }
        for (line, digest) in named {
            let is = by_name.get(&hex(&digest)).map(|p| *blake3::hash(&**p).as_bytes());
            if is != Some(digest) {
                return Err(TextError {
                    line,
                    column: 1,
                    reason: format!("the content of {} has another digest", hex(&digest)),
                });
            }
        }
        Ok(Self { by_name })
    }

    fn page(&self, f: &mut Fields<'_>) -> Result<&Page, TextError> {
        let name = f.text("the name")?;
        let page = self.by_name.get(&name);
        page.map(|p| &**p)
            .ok_or_else(|| f.error(format!("there is no content \"{name}\"")))
    }

    /// Parses a digest, or the name of a page image.
    pub fn digest(&self, f: &mut Fields<'_>) -> Result<Digest, TextError> {
        if f.is_quoted() {
            return Ok(*blake3::hash(self.page(f)?).as_bytes());
        }
        let hex = f.any("the digest")?;
        let hash = blake3::Hash::from_hex(&hex).map_err(|e| f.error(format!("the digest: {e}")))?;
        Ok(*hash.as_bytes())
    }

    /// Parses a digest, or the name of a page image for the digest of its first bytes.
    pub fn digest_of(&self, f: &mut Fields<'_>, bytes: u64) -> Result<Digest, TextError> {
        if !f.is_quoted() {
            return self.digest(f);
        }
        let page = self.page(f)?;
        let part = usize::try_from(bytes).ok().and_then(|n| page.get(..n));
        let part = part.ok_or_else(|| f.error(format!("{bytes} bytes are more than a page image has")))?;
        Ok(*blake3::hash(part).as_bytes())
    }

    /// Returns all of them by digest.
    pub fn pages(self) -> PageImages {
        let all = self
            .by_name
            .into_values()
            .map(|p| (*blake3::hash(&*p).as_bytes(), p.into()));
        all.filter(|(d, _)| *d != zero_digest()).collect()
    }
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let pair = std::str::from_utf8(pair)
                .ok()
                .filter(|p| p.len() == 2 && !p.starts_with('+'))?;
            u8::from_str_radix(pair, 16).ok()
        })
        .collect()
}

/// Prints the images of a plan. Rows of zeros are left out.
pub(super) fn print(plan: &Plan, pages: &dyn PageSource, out: &mut String) {
    for digest in plan.digests() {
        let Some(page) = pages.page(&digest) else { continue };
        for (n, row) in page.chunks(ROW).enumerate().filter(|(_, r)| r.iter().any(|b| *b != 0)) {
            let digits: String = row.iter().map(|b| format!("{b:02x}")).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(out, "content {} {:#05x} {digits}", hex(&digest), n * ROW);
        }
    }
}

/// The counts of a body, and what it waits for.
pub(super) struct BodyCounts {
    pub reads: ReadClasses,
    pub interrupts: u64,
    pub rewrites: Vec<Rewrite>,
}

/// Counts the operations of a body, and lists its waits and the outputs as rewrites.
pub(super) fn count(body: &[u8], outputs: &[PlanBuffer]) -> BodyCounts {
    let mut reads = ReadClasses::default();
    let (mut interrupts, mut rewrites) = (0, Vec::new());
    let mut waits = |kind, event: u32, detail: String| {
        rewrites.push(Rewrite {
            kind,
            event: Some(event.into()),
            detail,
        });
    };
    for action in Actions::new(body).map_while(Result::ok) {
        match action {
            Action::Read { class, width, .. } => {
                *match class {
                    ReadClass::Equal => &mut reads.equal,
                    ReadClass::Before(mask) if mask == width_mask(width) => &mut reads.equal,
                    ReadClass::Masked(_) | ReadClass::Before(_) => &mut reads.masked,
                    ReadClass::Any => &mut reads.any,
                    ReadClass::Feeds(_) => &mut reads.feeds,
                } += 1;
            }
            Action::Until { event, reads: 0, .. } => {
                waits(
                    RewriteKind::WaitAdded,
                    event,
                    "a wait for the device, as the text has it".to_owned(),
                );
            }
            Action::Until { event, reads: n, .. } => {
                reads.until += u64::from(n);
                waits(RewriteKind::ReadToWait, event, "a poll, as the text has it".to_owned());
            }
            Action::WaitInterrupt { event, lines, .. } => {
                interrupts += 1;
                let what = format!("a wait for interrupt lines {lines:#x}, as the text has it");
                waits(RewriteKind::WaitAdded, event, what);
            }
            _ => {}
        }
    }
    rewrites.extend(outputs.iter().map(|o| Rewrite {
        kind: RewriteKind::Output,
        event: None,
        detail: format!("`{}` at {}: {} bytes are copied out at the end", o.name, o.va, o.bytes),
    }));
    BodyCounts {
        reads,
        interrupts,
        rewrites,
    }
}
