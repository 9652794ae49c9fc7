//! Locations of input bytes in a plan's memory, found by compiling the recording with generated contents and checked
//! against another compilation. This needs no knowledge of how a plan is compiled.

use super::ProgramError;
use super::contents::{Contents, InputByte};
use replay_core::{Action, Actions};
use replay_engine::plan::{AccessPlan, Body, BodyBuilder, CompileError, Compiled, PageSource};
use std::collections::BTreeMap;
use trace_core::PAGE_SIZE;
use trace_core::progress::Progress;
use trace_core::recording::{Digest, Page, ZERO_PAGE};

/// Contiguous bytes of a buffer in the program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the input or output.
    pub buffer: u32,
    /// Offset of the first byte in the buffer.
    pub at: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Byte offset in the program's memory.
    pub offset: u64,
}

/// Contiguous bytes of an input in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePiece {
    /// Number of the image.
    pub image: u32,
    /// Offset of the first byte in the image.
    pub place: u32,
    /// Index of the input.
    pub buffer: u32,
    /// Offset of the first byte in the input.
    pub at: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// Memory contents of a plan, with the locations of its inputs.
#[derive(Clone, Debug, Default)]
pub struct InputLayout {
    /// Initial pages by page number in the memory, as recorded.
    pub pages: BTreeMap<u64, Box<Page>>,
    /// Locations of inputs in the pages.
    pub pieces: Vec<Piece>,
    /// Images from which memory changes take bytes, as recorded.
    pub images: Vec<Box<Page>>,
    /// Locations of inputs in the images, sorted by image.
    pub image_pieces: Vec<ImagePiece>,
    /// For each image, the input whose absence makes the replay skip the image, if there is one. Such a copy exists
    /// only because that input differs from its recorded contents.
    pub owners: Vec<Option<u32>>,
    /// The actions.
    pub body: Body,
    /// Number of actions.
    pub actions: u64,
}

fn depends_on_contents<T>(place: impl Into<String>) -> Result<T, ProgramError> {
    Err(ProgramError::DependsOnContents { place: place.into() })
}

fn page<'c>(compiled: &'c Compiled, digest: &Digest, place: impl Fn() -> String) -> Result<&'c Page, ProgramError> {
    compiled
        .pages
        .page(digest)
        .ok_or_else(|| ProgramError::MissingPage { place: place() })
}

/// Run of input bytes in a page: offset in the page, first byte, number of bytes.
type InputRun = (usize, InputByte, u64);

/// Merges a page as it is under each of the contents. Returns the recorded page and its runs of input bytes.
fn merge_page(seen: &[&Page], contents: &Contents) -> Option<(Box<Page>, Vec<InputRun>)> {
    let (first, rest) = seen.split_first()?;
    let mut recorded = Box::new(**first);
    let mut runs: Vec<InputRun> = Vec::new();
    if rest.iter().all(|p| p == first) {
        return Some((recorded, runs));
    }
    let mut values = vec![0; seen.len()];
    for (at, byte) in recorded.iter_mut().enumerate() {
        for (value, page) in values.iter_mut().zip(seen) {
            *value = *page.get(at)?;
        }
        let Some(place) = contents.find_input_byte(&values) else {
            continue;
        };
        let place = place?;
        *byte = place.recorded;
        match runs.last_mut() {
            Some((from, first, bytes))
                if *from + *bytes as usize == at
                    && first.input == place.input
                    && first.offset + *bytes == place.offset =>
            {
                *bytes += 1;
            }
            _ => runs.push((at, place, 1)),
        }
    }
    Some((recorded, runs))
}

impl InputLayout {
    /// Compares the compilations under contents 0, 1, … with each other and with `plain`, the compilation without
    /// generated contents.
    ///
    /// # Errors
    /// When the compilations differ in more than the locations of input bytes.
    pub fn find(
        plain: &Compiled,
        compiled: &[Compiled],
        contents: &Contents,
        progress: &Progress,
    ) -> Result<Self, ProgramError> {
        let Some(first) = compiled.first() else {
            return Ok(Self::default());
        };
        let mut this = Self::default();
        let start = find_accesses(first)?;
        let base = start.arena.base.frame();
        for (n, p) in start.pages.iter().enumerate() {
            progress.check()?;
            let place = || format!("page {:#x} of memory", p.frame.saturating_sub(base));
            let mut seen = Vec::new();
            for c in compiled {
                match find_accesses(c)?
                    .pages
                    .get(n)
                    .filter(|q| (q.frame, q.role) == (p.frame, p.role))
                {
                    Some(q) => seen.push(page(c, &q.digest, place)?),
                    None => return depends_on_contents(place()),
                }
            }
            let Some((recorded, runs)) = merge_page(&seen, contents) else {
                return depends_on_contents(place());
            };
            let number = p.frame.saturating_sub(base);
            let start = number.saturating_mul(PAGE_SIZE as u64);
            this.pieces.extend(runs.into_iter().map(|(at, place, bytes)| Piece {
                buffer: place.input,
                at: place.offset,
                bytes,
                offset: start.saturating_add(at as u64),
            }));
            this.pages.insert(number, recorded);
        }
        let count_pages = |c: &Compiled| c.plan.accesses().map(|a| a.pages.len());
        let same_lists =
            |c: &Compiled| (count_pages(c), c.plan.images.len()) == (count_pages(first), first.plan.images.len());
        if !compiled.iter().all(same_lists) {
            return depends_on_contents("the lists of pages");
        }
        this.same_start(plain)?;
        this.merge();
        this.body(plain, compiled, contents, progress)?;
        Ok(this)
    }

    /// Checks that the initial memory without inputs is the recording's.
    fn same_start(&self, plain: &Compiled) -> Result<(), ProgramError> {
        let accesses = find_accesses(plain)?;
        let base = accesses.arena.base.frame();
        let mut left = self.pages.clone();
        for p in &accesses.pages {
            let number = p.frame.saturating_sub(base);
            let place = || format!("page {number:#x} of memory");
            let made = left.remove(&number).unwrap_or_else(|| Box::new(ZERO_PAGE));
            if *made != *page(plain, &p.digest, place)? {
                return depends_on_contents(place());
            }
        }
        match left.iter().find(|(_, page)| ***page != ZERO_PAGE) {
            Some((number, _)) => depends_on_contents(format!("page {number:#x} of memory")),
            None => Ok(()),
        }
    }

    fn image(&mut self, page: Box<Page>, owner: Option<u32>) -> Result<u32, ProgramError> {
        let image = u32::try_from(self.images.len()).map_err(|_| ProgramError::TooMany {
            what: "images",
            count: self.images.len() as u64,
        })?;
        self.images.push(page);
        self.owners.push(owner);
        Ok(image)
    }

    /// Merges the actions. Actions that the recording has without inputs are the same under all contents. The other
    /// actions write bytes where an input lies, and are skipped when that input is not given.
    fn body(
        &mut self,
        plain: &Compiled,
        compiled: &[Compiled],
        contents: &Contents,
        progress: &Progress,
    ) -> Result<(), ProgramError> {
        let mut all = compiled.iter().map(Steps::new).collect::<Result<Vec<_>, _>>()?;
        let mut plain = Steps::new(plain)?;
        let mut own = plain.next()?;
        // Each image of the recording keeps one number.
        let mut kept: BTreeMap<u32, u32> = BTreeMap::new();
        let mut body = BodyBuilder::new();
        loop {
            let step = all.iter_mut().map(Steps::next).collect::<Result<Vec<_>, _>>()?;
            let Some(Some((action, bytes))) = step.first() else {
                if own.is_some() || step.iter().any(Option::is_some) {
                    return depends_on_contents("the end of the actions");
                }
                break;
            };
            if body.actions().is_multiple_of(4096) {
                progress.check()?;
            }
            let place = || format!("event {}", action.event());
            let alike = |other: &Option<Step>| {
                other
                    .as_ref()
                    .is_some_and(|o| is_same_step(o, &(*action, bytes.clone())))
            };
            if alike(&own) && step.iter().all(alike) {
                let action = match (own.take(), *action) {
                    (
                        Some((Action::Copy { image: theirs, .. }, _)),
                        Action::Copy {
                            event, offset, bytes, ..
                        },
                    ) => {
                        let image = match kept.get(&theirs) {
                            Some(known) => *known,
                            None => {
                                let page = plain.image(theirs).ok_or_else(|| ProgramError::MissingPage {
                                    place: format!("image {theirs}"),
                                })?;
                                let number = self.image(Box::new(*page), None)?;
                                kept.insert(theirs, number);
                                number
                            }
                        };
                        Action::Copy {
                            event,
                            offset,
                            bytes,
                            image,
                        }
                    }
                    _ => *action,
                };
                body.push(&action)?;
                own = plain.next()?;
                continue;
            }
            let (Some(offset), Some(first)) = (target(action), bytes) else {
                return depends_on_contents(place());
            };
            let others = step.iter().map(|s| match s {
                Some((a, Some(b)))
                    if (a.event(), target(a), b.len()) == (action.event(), Some(offset), first.len()) =>
                {
                    Some(b.as_slice())
                }
                _ => None,
            });
            let Some(values) = others.collect::<Option<Vec<&[u8]>>>() else {
                return depends_on_contents(place());
            };
            for copy in self
                .input_copies(offset, &values, contents)
                .ok_or(())
                .or_else(|()| depends_on_contents(place()))?
            {
                let image = self.image(copy.page, Some(copy.owner))?;
                self.image_pieces
                    .extend(copy.pieces.into_iter().map(|p| ImagePiece { image, ..p }));
                body.push(&Action::Copy {
                    event: action.event(),
                    offset: copy.offset,
                    bytes: copy.bytes,
                    image,
                })?;
            }
        }
        (self.body, self.actions) = body.finish();
        Ok(())
    }

    /// Returns the copies of bytes that are written because of inputs, given their values under each of the contents:
    /// one copy for each input involved. Returns `None` if the bytes come from no input.
    fn input_copies(&self, offset: u64, values: &[&[u8]], contents: &Contents) -> Option<Vec<InputCopy>> {
        let mut copies: Vec<InputCopy> = Vec::new();
        let mut seen = vec![0; values.len()];
        for n in 0..values.first()?.len() {
            let at = offset.checked_add(n as u64)?;
            for (to, v) in seen.iter_mut().zip(values) {
                *to = *v.get(n)?;
            }
            let place = contents.find_input_byte(&seen);
            let (owner, byte) = match place {
                Some(place) => {
                    let place = place?;
                    (place.input, place.recorded)
                }
                // The recorded bytes return where an input was.
                None => {
                    let holds = |p: &&Piece| p.offset <= at && at < p.offset.saturating_add(p.bytes);
                    (self.pieces.iter().find(holds)?.buffer, *seen.first()?)
                }
            };
            let in_page = (at % PAGE_SIZE as u64) as usize;
            match copies.last_mut() {
                Some(c) if c.owner == owner && c.offset + u64::from(c.bytes) == at && in_page != 0 => c.bytes += 1,
                _ => copies.push(InputCopy {
                    offset: at,
                    bytes: 1,
                    owner,
                    page: Box::new(ZERO_PAGE),
                    pieces: Vec::new(),
                }),
            }
            let copy = copies.last_mut()?;
            *copy.page.get_mut(in_page)? = byte;
            let Some(Some(place)) = place else { continue };
            match copy.pieces.last_mut() {
                Some(p) if p.place as u64 + p.bytes == in_page as u64 && p.at + p.bytes == place.offset => p.bytes += 1,
                _ => copy.pieces.push(ImagePiece {
                    image: 0,
                    place: in_page as u32,
                    buffer: place.input,
                    at: place.offset,
                    bytes: 1,
                }),
            }
        }
        Some(copies)
    }

    /// Merges pieces that are adjacent both in their buffer and in memory.
    fn merge(&mut self) {
        let mut merged: Vec<Piece> = Vec::with_capacity(self.pieces.len());
        for p in std::mem::take(&mut self.pieces) {
            match merged.last_mut() {
                Some(l) if (l.buffer, l.at + l.bytes, l.offset + l.bytes) == (p.buffer, p.at, p.offset) => {
                    l.bytes += p.bytes;
                }
                _ => merged.push(p),
            }
        }
        self.pieces = merged;
    }

    /// Compares the layout with what the compiler generates for other contents.
    ///
    /// # Errors
    /// When the program would behave differently with these inputs.
    pub fn check(&self, inputs: &[&[u8]], compiled: &Compiled) -> Result<(), ProgramError> {
        let given = |buffer: u32, at: u64, bytes: u64| {
            let (at, bytes) = (usize::try_from(at).ok()?, usize::try_from(bytes).ok()?);
            inputs.get(buffer as usize)?.get(at..at.checked_add(bytes)?)
        };
        let mut pages = self.pages.clone();
        for p in &self.pieces {
            let mut done = 0;
            while done < p.bytes {
                let to = p.offset + done;
                let (number, place) = (to / PAGE_SIZE as u64, (to % PAGE_SIZE as u64) as usize);
                let part = (p.bytes - done).min((PAGE_SIZE - place) as u64);
                let from = given(p.buffer, p.at + done, part);
                let page = pages
                    .get_mut(&number)
                    .and_then(|p| p.get_mut(place..place + part as usize));
                let (Some(to), Some(from)) = (page, from) else {
                    return depends_on_contents(format!("page {number:#x} of memory"));
                };
                to.copy_from_slice(from);
                done += part;
            }
        }
        let accesses = find_accesses(compiled)?;
        let base = accesses.arena.base.frame();
        if accesses.pages.len() != pages.len() {
            return depends_on_contents("the list of pages");
        }
        for p in &accesses.pages {
            let number = p.frame.saturating_sub(base);
            let place = || format!("page {number:#x} of memory");
            if pages.get(&number).map(|q| &**q) != Some(page(compiled, &p.digest, place)?) {
                return depends_on_contents(place());
            }
        }
        self.same_actions(&given, compiled)
    }

    fn same_actions<'i>(
        &self,
        given: &impl Fn(u32, u64, u64) -> Option<&'i [u8]>,
        compiled: &Compiled,
    ) -> Result<(), ProgramError> {
        let mut images = self.images.clone();
        for p in &self.image_pieces {
            let place = p.place as usize;
            let image = images.get_mut(p.image as usize);
            let to = image.and_then(|i| i.get_mut(place..place + p.bytes as usize));
            let (Some(to), Some(from)) = (to, given(p.buffer, p.at, p.bytes)) else {
                return depends_on_contents(format!("image {}", p.image));
            };
            to.copy_from_slice(from);
        }
        let mut ours = Steps {
            actions: Actions::new(&self.body),
            images: images.iter().map(|i| &**i).collect(),
        };
        let mut theirs = Steps::new(compiled)?;
        // Writes in addition to the recording may be split differently, but are never ordered differently.
        let (mut here, mut there) = (Pending::default(), Pending::default());
        loop {
            let own = here.flush(&mut ours)?;
            let other = there.flush(&mut theirs)?;
            let event = own.or(other).map_or(0, |a| a.event());
            if own != other || here.take() != there.take() {
                return depends_on_contents(format!("event {event}"));
            }
            if own.is_none() {
                return Ok(());
            }
        }
    }
}

/// Bytes that are written to memory because of an input.
struct InputCopy {
    offset: u64,
    bytes: u32,
    owner: u32,
    page: Box<Page>,
    pieces: Vec<ImagePiece>,
}

/// Returns the accesses of a plan.
///
/// # Errors
/// When the plan has driver calls.
pub(crate) fn find_accesses(compiled: &Compiled) -> Result<&AccessPlan, ProgramError> {
    Ok(compiled.plan.accesses().ok_or(CompileError::NothingToReplay)?)
}

/// An action, with the bytes that it writes to memory, if it does.
type Step = (Action, Option<Vec<u8>>);

/// Iterator over the actions of a plan.
struct Steps<'a> {
    actions: Actions<'a>,
    images: Vec<&'a Page>,
}

impl<'a> Steps<'a> {
    fn new(compiled: &'a Compiled) -> Result<Self, ProgramError> {
        let images = compiled.plan.images.iter().enumerate();
        let images = images.map(|(n, d)| page(compiled, d, || format!("image {n}")));
        Ok(Self {
            actions: Actions::new(&find_accesses(compiled)?.body),
            images: images.collect::<Result<_, _>>()?,
        })
    }

    fn image(&self, number: u32) -> Option<&'a Page> {
        self.images.get(number as usize).copied()
    }

    fn next(&mut self) -> Result<Option<Step>, ProgramError> {
        let action = loop {
            match self.actions.next().transpose()? {
                // A program cannot check effects.
                Some(Action::Check { .. }) => {}
                Some(action) => break action,
                None => return Ok(None),
            }
        };
        let bytes = match action {
            Action::Put { width, value, .. } => value.to_le_bytes().get(..usize::from(width)).map(<[u8]>::to_vec),
            Action::Copy {
                offset, bytes, image, ..
            } => {
                let place = (offset % PAGE_SIZE as u64) as usize;
                let page = self.image(image).ok_or_else(|| ProgramError::MissingPage {
                    place: format!("image {image}"),
                })?;
                page.get(place..place.saturating_add(bytes as usize))
                    .map(<[u8]>::to_vec)
            }
            _ => None,
        };
        Ok(Some((action, bytes)))
    }
}

/// Returns the memory offset that an action writes to, if it writes.
fn target(action: &Action) -> Option<u64> {
    match action {
        Action::Put { offset, .. } | Action::Copy { offset, .. } => Some(*offset),
        _ => None,
    }
}

/// Returns whether two actions do the same. Image numbers are specific to each plan and are not compared.
fn is_same_step(a: &Step, b: &Step) -> bool {
    let (Some(x), Some(y)) = (target(&a.0), target(&b.0)) else {
        return a == b;
    };
    (x, a.0.event(), &a.1) == (y, b.0.event(), &b.1)
}

/// Bytes that consecutive memory writes leave, up to the next action of another kind.
#[derive(Default)]
struct Pending(BTreeMap<u64, u8>);

impl Pending {
    /// Advances to the next action that writes no memory.
    fn flush(&mut self, steps: &mut Steps<'_>) -> Result<Option<Action>, ProgramError> {
        while let Some((action, bytes)) = steps.next()? {
            let Some(offset) = target(&action) else {
                return Ok(Some(action));
            };
            self.0.extend((offset..).zip(bytes.unwrap_or_default()));
        }
        Ok(None)
    }

    fn take(&mut self) -> BTreeMap<u64, u8> {
        std::mem::take(&mut self.0)
    }
}

/// Returns the pages as runs of bytes without long zeros, in ascending order. Only these must be written over zeroed
/// memory.
pub fn nonzero_runs(pages: &BTreeMap<u64, Box<Page>>) -> Vec<(u64, Vec<u8>)> {
    /// Maximum length of a run of zeros that is cheaper to store than a further run.
    const SHORT: usize = 32;
    let mut out: Vec<(u64, Vec<u8>)> = Vec::new();
    for (number, page) in pages {
        let start = number.saturating_mul(PAGE_SIZE as u64);
        let mut at = 0;
        while let Some(from) = page
            .get(at..)
            .and_then(|p| p.iter().position(|b| *b != 0))
            .map(|n| at + n)
        {
            let mut end = from;
            let mut zeros = 0;
            for (i, b) in page.iter().enumerate().skip(from) {
                zeros = if *b == 0 { zeros + 1 } else { 0 };
                if zeros == 0 {
                    end = i + 1;
                } else if zeros == SHORT {
                    break;
                }
            }
            let bytes = page.get(from..end).unwrap_or_default();
            let offset = start.saturating_add(from as u64);
            match out.last_mut() {
                Some((last, list)) if last.saturating_add(list.len() as u64) == offset => list.extend(bytes),
                _ => out.push((offset, bytes.to_vec())),
            }
            at = end;
        }
    }
    out
}
