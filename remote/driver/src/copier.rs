//! Copies between the program's memory and the staging area. A second thread takes half of each part of a large copy: one
//! processor copies more slowly than the device.

use crate::CallResult;
use crate::errors::DEVICE_UNAVAILABLE;
use remote_ring::{Region, has_spare_processors};
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Minimum size of a copy with a second thread, bytes: starting and ending it costs as much as the copy of a mebibyte. The
/// processor's caches do not hold such a copy, so that it is written past them: it would push out what they do hold.
const MIN_LARGE_BYTES: usize = 8 << 20;
/// Alignment of the second half of a part, bytes: a page.
const HALF_ALIGNMENT: usize = 4096;
/// How long the second thread looks for the next part before it sleeps: parts follow each other at about this interval.
const SPIN: Duration = Duration::from_micros(200);
/// Number of checks between two other actions of a wait.
const CHECKS: u32 = 64;

/// Half of a part.
enum Job<'s> {
    ToStaging { offset: u64, bytes: &'s [u8] },
    FromStaging { offset: u64, bytes: &'s mut [u8] },
}

impl Job<'_> {
    fn run(self, region: &Region) -> CallResult {
        let copied = match self {
            Self::ToStaging { offset, bytes } => region.copy_to_staging(offset, bytes),
            Self::FromStaging { offset, bytes } => region.copy_from_staging_uncached(offset, bytes),
        };
        copied.map_err(|_| DEVICE_UNAVAILABLE)
    }
}

/// What the second thread has done.
#[derive(Default)]
struct Progress {
    done: AtomicU64,
    has_failed: AtomicBool,
}

/// The second thread, as the first one sees it.
struct SecondThread<'s> {
    jobs: Sender<Job<'s>>,
    given: u64,
    progress: Arc<Progress>,
}

impl<'s> SecondThread<'s> {
    /// Runs two halves of a part, one on each thread.
    fn run(&mut self, region: &Region, first: Job<'s>, second: Job<'s>) -> CallResult {
        if let Err(back) = self.jobs.send(second) {
            // The thread has ended.
            first.run(region)?;
            return back.0.run(region);
        }
        self.given += 1;
        let copied = first.run(region);
        while self.progress.done.load(Ordering::Acquire) < self.given {
            for _ in 0..CHECKS {
                spin_loop();
            }
            thread::yield_now();
        }
        copied?;
        match self.progress.has_failed.load(Ordering::Relaxed) {
            true => Err(DEVICE_UNAVAILABLE),
            false => Ok(()),
        }
    }
}

/// Copies the parts of one copy.
pub struct Copier<'s> {
    region: &'s Region,
    is_large: bool,
    second: Option<SecondThread<'s>>,
}

impl<'s> Copier<'s> {
    /// Copies a part to the staging area.
    ///
    /// # Errors
    /// If the range is not in the staging area.
    pub fn copy_to_staging(&mut self, offset: u64, bytes: &'s [u8]) -> CallResult {
        let Some(second) = &mut self.second else {
            return Job::ToStaging { offset, bytes }.run(self.region);
        };
        let (first, rest) = bytes.split_at(half_of(bytes.len()));
        let first_job = Job::ToStaging { offset, bytes: first };
        let offset = offset.saturating_add(first.len() as u64);
        second.run(self.region, first_job, Job::ToStaging { offset, bytes: rest })
    }

    /// Copies a part from the staging area.
    ///
    /// # Errors
    /// If the range is not in the staging area.
    pub fn copy_from_staging(&mut self, offset: u64, bytes: &'s mut [u8]) -> CallResult {
        let Some(second) = &mut self.second else {
            let copied = match self.is_large {
                true => self.region.copy_from_staging_uncached(offset, bytes),
                false => self.region.copy_from_staging(offset, bytes),
            };
            return copied.map_err(|_| DEVICE_UNAVAILABLE);
        };
        let (first, rest) = bytes.split_at_mut(half_of(bytes.len()));
        let behind = offset.saturating_add(first.len() as u64);
        let first = Job::FromStaging { offset, bytes: first };
        let rest = Job::FromStaging {
            offset: behind,
            bytes: rest,
        };
        second.run(self.region, first, rest)
    }
}

/// Returns the size of the first half of a part.
const fn half_of(bytes: usize) -> usize {
    let half = bytes / 2;
    half - half % HALF_ALIGNMENT
}

/// Calls `work` with a copier for a copy of `bytes` bytes in parts.
pub fn with_copier<'s, R>(region: &'s Region, bytes: usize, work: impl FnOnce(Copier<'s>) -> R) -> R {
    let is_large = bytes >= MIN_LARGE_BYTES;
    match is_large && has_spare_processors() {
        true => with_second_thread(region, work),
        false => work(Copier {
            region,
            is_large,
            second: None,
        }),
    }
}

fn with_second_thread<'s, R>(region: &'s Region, work: impl FnOnce(Copier<'s>) -> R) -> R {
    thread::scope(|scope| {
        let (jobs, queue) = channel();
        let progress = Arc::<Progress>::default();
        let shared = Arc::clone(&progress);
        let builder = thread::Builder::new().name("kinescope-copy".into());
        let started = builder.spawn_scoped(scope, move || run_jobs(region, &queue, &shared));
        // Without a thread, this one copies everything.
        let second = started.ok().map(|_| SecondThread {
            jobs,
            given: 0,
            progress,
        });
        work(Copier {
            region,
            is_large: true,
            second,
        })
    })
}

fn run_jobs(region: &Region, queue: &Receiver<Job<'_>>, progress: &Progress) {
    while let Some(job) = next_job(queue) {
        if job.run(region).is_err() {
            progress.has_failed.store(true, Ordering::Relaxed);
        }
        progress.done.fetch_add(1, Ordering::Release);
    }
}

/// Returns the next job, or `None` after the last one.
fn next_job<'s>(queue: &Receiver<Job<'s>>) -> Option<Job<'s>> {
    let begun = Instant::now();
    while begun.elapsed() < SPIN {
        for _ in 0..CHECKS {
            match queue.try_recv() {
                Ok(job) => return Some(job),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => spin_loop(),
            }
        }
    }
    queue.recv().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use remote_ring::RegionLayout;

    fn region() -> Region {
        let layout = RegionLayout {
            staging_bytes: 1 << 20,
            ..RegionLayout::default()
        };
        Region::create(layout).unwrap()
    }

    #[test]
    fn both_threads_copy_all_of_each_part() {
        let region = region();
        let size = region.staging_bytes() as usize;
        for part in [1, 4095, 4096, 8191, 8193, 100_001, size] {
            let from: Vec<u8> = (0..3 * part + 7).map(|i| (i * 31 + i / 256) as u8).collect();
            let mut to = vec![0; from.len()];
            with_second_thread(&region, |mut copier| {
                let mut rest = &mut to[..];
                for bytes in from.chunks(part) {
                    let offset = (size - bytes.len()) as u64;
                    copier.copy_to_staging(offset, bytes).unwrap();
                    let target;
                    (target, rest) = std::mem::take(&mut rest).split_at_mut(bytes.len());
                    copier.copy_from_staging(offset, target).unwrap();
                }
            });
            assert!(from == to, "parts of {part} bytes");
        }
    }

    #[test]
    fn a_part_outside_of_the_area_is_an_error_of_either_thread() {
        let region = region();
        let size = region.staging_bytes();
        for (offset, bytes) in [(size, 8192), (size - 4096, 8192), (u64::MAX, 8192)] {
            let from = vec![1; bytes];
            let mut to = vec![0; bytes];
            with_second_thread(&region, |mut copier| {
                assert_eq!(copier.copy_to_staging(offset, &from), Err(DEVICE_UNAVAILABLE));
            });
            with_second_thread(&region, |mut copier| {
                assert_eq!(copier.copy_from_staging(offset, &mut to), Err(DEVICE_UNAVAILABLE));
            });
        }
    }
}
