//! Runs of a channel plan on one player: each but the first begins with the memory that the first began with.

use crate::memory_baseline::{MemoryBaseline, PlanImageSource};
use nvidia_client::steps::{PAGE_BYTES, Step, StepError, Steps};
use nvidia_client::{Kernel, PlayError, Player};
use std::time::{Duration, Instant};
use trace_core::recording::ZERO_PAGE;

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan's body does not decode.
    #[error(transparent)]
    Steps(#[from] StepError),
    /// A step cannot be played. After [`PlayError::Fault`], [`Player::recover`] creates new channels for the next run.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// An output cannot be stored.
    #[error("{0}")]
    Output(String),
}

/// What was restored before a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoredMemory {
    /// Number of 4 KiB pages that were written.
    pub pages: u64,
    /// Number of 4 KiB pages that were compared with their initial contents.
    pub compared_pages: u64,
    /// Number of written pages that runs before did not restore, because they changed later for the first time.
    pub late_pages: u64,
    /// Time of the restore.
    pub time: Duration,
}

/// A run that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanRun {
    /// Time of the run, without mapping and restore.
    pub time: Duration,
    /// Time that mapping memory took.
    pub map_time: Duration,
    /// Memory that was mapped, bytes.
    pub mapped: u64,
    /// What was restored before it; `None` for the first run.
    pub restored: Option<RestoredMemory>,
}

/// Runs of one plan. Client, channels and mapped memory stay between them.
///
/// Before the second run and before the last, all mapped pages are compared with their initial contents, and pages that
/// differ are written. Before other runs, the pages that differed after the first run are written without a comparison:
/// the same work changes the same pages. Outputs of the last run are therefore exact even if this is wrong;
/// [`RestoredMemory::late_pages`] counts such pages.
pub struct PlanRuns<'p, S> {
    body: &'p [u8],
    images: &'p S,
    /// Number of runs that are planned.
    count: u32,
    compute_class: u16,
    /// Memory before the first work, from the second run on.
    baseline: Option<MemoryBaseline<'p>>,
    /// Number of ranges that are mapped.
    mapped: usize,
    /// Number of runs that were begun.
    begun: u32,
    /// Whether the last run ended without an error.
    is_complete: bool,
    /// GPU addresses of the pages that a complete run changes, in ascending order within each range.
    changed: Option<Vec<u64>>,
}

impl<'p, S: PlanImageSource> PlanRuns<'p, S> {
    /// Prepares `count` runs of a plan's body, at least one.
    #[must_use]
    pub fn new(body: &'p [u8], compute_class: u16, count: u32, images: &'p S) -> Self {
        Self {
            body,
            images,
            count: count.max(1),
            compute_class,
            baseline: None,
            mapped: 0,
            begun: 0,
            is_complete: false,
            changed: None,
        }
    }

    /// Leaves out the first `ranges` steps that map memory: the player has played them.
    #[must_use]
    pub fn with_mapped(self, ranges: usize) -> Self {
        Self { mapped: ranges, ..self }
    }

    /// Restores memory, and plays the plan once. `output` gets the number and the bytes of each output.
    ///
    /// # Errors
    /// Why the run ended early. The next run restores what it changed.
    pub fn play_next<K: Kernel>(
        &mut self,
        player: &mut Player<'_, K>,
        mut output: impl FnMut(u32, &[u8]) -> Result<(), String>,
    ) -> Result<PlanRun, RunError> {
        let is_first = self.begun == 0;
        self.begun = self.begun.saturating_add(1);
        // The first run restores nothing, so that a single run does not look for initial writes.
        let baseline = match is_first {
            true => None,
            false => Some(self.take_baseline()?),
        };
        let restored = match &baseline {
            None => None,
            Some(baseline) => Some(self.restore(player, baseline)?),
        };
        // A run that ended early may have left memory unmapped, so that its contents are not restored.
        let initial = baseline.as_ref().filter(|b| self.mapped == b.ranges.len());
        let mut run = PlanRun {
            restored,
            ..PlanRun::default()
        };
        let begin = Instant::now();
        let mut maps = 0;
        for (number, step) in Steps::new(self.body).enumerate() {
            match step? {
                step @ Step::Map { bytes, .. } => {
                    if maps >= self.mapped {
                        let before = Instant::now();
                        player.play(&step, |n| self.images.image(n))?;
                        self.mapped += 1;
                        run.mapped = run.mapped.saturating_add(bytes);
                        run.map_time += before.elapsed();
                    }
                    maps += 1;
                }
                Step::Write { .. } | Step::WritePages { .. } if initial.is_some_and(|b| b.is_initial(number)) => {}
                Step::Read {
                    output: number,
                    va,
                    bytes,
                } => {
                    let length = usize::try_from(bytes);
                    let length = length.map_err(|_| RunError::Output(format!("output {number} is too long")))?;
                    let mut data = vec![0; length];
                    player.read(va, &mut data)?;
                    output(number, &data).map_err(RunError::Output)?;
                }
                step => player.play(&step, |n| self.images.image(n))?,
            }
        }
        run.time = begin.elapsed().saturating_sub(run.map_time);
        self.is_complete = true;
        self.baseline = baseline;
        Ok(run)
    }

    /// Takes the memory before the first work. A run that ends early does not return it, so that it is computed again.
    fn take_baseline(&mut self) -> Result<MemoryBaseline<'p>, StepError> {
        match self.baseline.take() {
            Some(baseline) => Ok(baseline),
            None => MemoryBaseline::from_steps(self.body, self.compute_class, self.images),
        }
    }

    /// Gives memory its initial contents.
    fn restore<K: Kernel>(
        &mut self,
        player: &mut Player<'_, K>,
        baseline: &MemoryBaseline<'p>,
    ) -> Result<RestoredMemory, RunError> {
        let begin = Instant::now();
        let is_complete = std::mem::take(&mut self.is_complete);
        // Pages that an incomplete run changed are not all that a complete one changes.
        let known = self.changed.take().filter(|_| is_complete);
        let is_last = self.begun >= self.count;
        let mut restored = RestoredMemory::default();
        let pages = match known {
            Some(known) if !is_last => known,
            known => {
                let found = find_changed(player, baseline, self.mapped)?;
                let ranges = mapped_ranges(baseline, self.mapped).map(|(_, bytes)| bytes / PAGE_BYTES as u64);
                restored.compared_pages = ranges.sum();
                restored.late_pages = known.map_or(0, |known| count_missing(&found, known));
                found
            }
        };
        restored.pages = pages.len() as u64;
        write_back(player, baseline, &pages)?;
        self.changed = is_complete.then_some(pages);
        restored.time = begin.elapsed();
        Ok(restored)
    }
}

/// Iterates over the first `count` ranges.
fn mapped_ranges(baseline: &MemoryBaseline<'_>, count: usize) -> impl Iterator<Item = (u64, u64)> {
    baseline.ranges.iter().take(count).copied()
}

/// Returns the GPU addresses of the pages of the first `count` ranges that do not have their initial contents.
fn find_changed<K: Kernel>(
    player: &mut Player<'_, K>,
    baseline: &MemoryBaseline<'_>,
    count: usize,
) -> Result<Vec<u64>, PlayError> {
    let mut changed = Vec::new();
    for (va, bytes) in mapped_ranges(baseline, count) {
        let mut contents = baseline.pages_in(va, bytes).peekable();
        player.visit_pages(va, bytes, |at, page| {
            let content = contents.next_if(|(first, _)| *first == at);
            if page != content.map_or(&ZERO_PAGE, |(_, content)| content) {
                changed.push(at);
            }
        })?;
    }
    Ok(changed)
}

/// Gives pages their initial contents. Neighbours that are zero are cleared together.
fn write_back<K: Kernel>(
    player: &mut Player<'_, K>,
    baseline: &MemoryBaseline<'_>,
    pages: &[u64],
) -> Result<(), PlayError> {
    const PAGE: u64 = PAGE_BYTES as u64;
    // First address and bytes of the zero pages that are next to each other.
    let mut zeros: Option<(u64, u64)> = None;
    for va in pages {
        let content = baseline.page(*va);
        zeros = match (zeros, content) {
            (Some((first, bytes)), None) if first.checked_add(bytes) == Some(*va) => {
                Some((first, bytes.saturating_add(PAGE)))
            }
            (before, content) => {
                if let Some((first, bytes)) = before {
                    player.clear_pages(first, bytes)?;
                }
                content.is_none().then_some((*va, PAGE))
            }
        };
        if let Some(content) = content {
            player.write(*va, content)?;
        }
    }
    match zeros {
        Some((first, bytes)) => player.clear_pages(first, bytes),
        None => Ok(()),
    }
}

/// Returns the number of addresses that are not among others.
fn count_missing(found: &[u64], mut others: Vec<u64>) -> u64 {
    others.sort_unstable();
    let missing = found.iter().filter(|va| others.binary_search(va).is_err());
    missing.count() as u64
}
