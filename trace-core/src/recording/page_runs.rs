//! Runs of physical frames with consecutive pages, or with one repeated page.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Index of a page image in a [`super::PageStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageId(pub u32);

impl PageId {
    /// The page of zeros: always there, never stored.
    pub const ZERO: Self = Self(0);
}

/// The role of the frames of a run. Memory that a source dumped is thus not counted together with the page tables that
/// translate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum FrameRole {
    /// Memory that the GPU works on.
    Data = 0,
    /// Page tables.
    Table = 1,
}

/// Frames with contents in a snapshot: `count` frames from `first_frame` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRun {
    /// Number of the first physical frame (address / 4096).
    pub first_frame: u64,
    /// Number of frames, at least 1.
    pub count: u32,
    /// Page of the first frame.
    pub first_page: PageId,
    /// `true`: every frame holds `first_page`. `false`: page ids increase with the frames.
    pub repeat: bool,
    /// Role of the frames.
    pub role: FrameRole,
}

impl PageRun {
    /// Returns one past the last frame.
    #[must_use]
    pub fn end_frame(&self) -> u64 {
        self.first_frame.saturating_add(u64::from(self.count))
    }

    /// Returns the page of a frame in this run.
    #[must_use]
    pub fn page(&self, frame: u64) -> Option<PageId> {
        let at = frame
            .checked_sub(self.first_frame)
            .filter(|d| *d < u64::from(self.count))?;
        if self.repeat {
            return Some(self.first_page);
        }
        u32::try_from(at)
            .ok()
            .and_then(|a| self.first_page.0.checked_add(a))
            .map(PageId)
    }
}

/// Returns the runs of `newer`, and those of `older` for frames that `newer` lacks. Time depends on runs, not on
/// frames: a run of a hostile file may cover billions.
pub(crate) fn overlay(newer: &[PageRun], older: &[PageRun]) -> Vec<PageRun> {
    let mut out = RunsBuilder::default();
    let mut newer = newer.iter().peekable();
    let mut free = 0;
    for run in older {
        let mut at = run.first_frame.max(free);
        while at < run.end_frame() {
            match newer.peek() {
                Some(n) if n.first_frame <= at => {
                    free = n.end_frame();
                    at = at.max(free);
                    out.push_run(**n);
                    newer.next();
                }
                next => {
                    let stop = next.map_or(run.end_frame(), |n| n.first_frame.min(run.end_frame()));
                    if let Some(first_page) = run.page(at) {
                        let count = (stop - at) as u32;
                        let repeat = run.repeat && count > 1;
                        out.push_run(PageRun {
                            first_frame: at,
                            count,
                            first_page,
                            repeat,
                            role: run.role,
                        });
                    }
                    at = stop;
                }
            }
        }
    }
    newer.for_each(|n| out.push_run(*n));
    out.finish()
}

/// A builder that merges frames in ascending order into runs.
#[derive(Debug, Default)]
pub struct RunsBuilder {
    runs: Vec<PageRun>,
}

impl RunsBuilder {
    /// Adds a frame; frames must come in ascending order.
    pub fn push(&mut self, frame: u64, page: PageId, role: FrameRole) {
        self.push_run(PageRun {
            first_frame: frame,
            count: 1,
            first_page: page,
            repeat: false,
            role,
        });
    }

    /// Adds a run; runs must come in ascending order.
    pub fn push_run(&mut self, run: PageRun) {
        if let Some(last) = self.runs.last_mut()
            && last.end_frame() == run.first_frame
            && last.role == run.role
            && let Some(count) = last.count.checked_add(run.count)
        {
            let same = last.first_page == run.first_page;
            if same && (last.repeat || last.count == 1) && (run.repeat || run.count == 1) {
                (last.repeat, last.count) = (true, count);
                return;
            }
            let next = last.first_page.0.checked_add(last.count).map(PageId);
            if !last.repeat && !run.repeat && Some(run.first_page) == next && run.first_page != PageId::ZERO {
                last.count = count;
                return;
            }
        }
        self.runs.push(run);
    }

    /// Adds the frames `part` of a run with another role; they come after those added before.
    pub fn push_part(&mut self, run: &PageRun, part: Range<u64>, role: FrameRole) {
        let count = part.end.min(run.end_frame()).saturating_sub(part.start);
        if let (Some(first_page), Ok(count @ 1..)) = (run.page(part.start), u32::try_from(count)) {
            self.push_run(PageRun {
                first_frame: part.start,
                count,
                first_page,
                repeat: run.repeat && count > 1,
                role,
            });
        }
    }

    /// Returns the runs.
    #[must_use]
    pub fn finish(self) -> Vec<PageRun> {
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Memory, PageStore, Snapshot};
    use std::sync::Arc;

    #[test]
    fn layered_page_runs_match_their_frames() {
        let run = |first_frame, count, page, repeat| {
            let role = if page % 5 == 4 {
                FrameRole::Table
            } else {
                FrameRole::Data
            };
            PageRun {
                first_frame,
                count,
                first_page: PageId(page),
                repeat,
                role,
            }
        };
        let levels = [
            vec![
                run(0, 20, 1, false),
                run(20, 10, 3, true),
                run(40, 5, 4, true),
                run(60, 4, 9, false),
            ],
            vec![
                run(2, 3, 7, true),
                run(10, 15, 2, false),
                run(42, 1, 4, false),
                run(50, 3, 0, true),
            ],
            vec![run(4, 1, 5, false), run(24, 30, 6, true), run(63, 9, 30, false)],
        ];
        let mut snapshots = Vec::new();
        for (i, runs) in levels.into_iter().enumerate() {
            let parent = i.checked_sub(1).map(|p| p as u32);
            snapshots.push(Snapshot {
                event: i as u64,
                parent,
                runs,
            });
        }
        let m = Memory {
            pages: PageStore::default(),
            snapshots: Arc::new(snapshots),
        };
        for event in 0..3 {
            let view = m.at(event);
            let runs = view.runs();
            assert!(
                runs.windows(2).all(|w| w[0].end_frame() <= w[1].first_frame),
                "{runs:?}"
            );
            for frame in 0..100 {
                let of_runs = runs.iter().find_map(|r| r.page(frame));
                assert_eq!(of_runs, view.page_id(frame), "event {event}, frame {frame}");
            }
        }
    }

    #[test]
    fn a_run_of_billions_of_frames_is_overlaid_at_once() {
        let role = FrameRole::Data;
        let wide = PageRun {
            first_frame: 0,
            count: u32::MAX,
            first_page: PageId::ZERO,
            repeat: true,
            role,
        };
        let one = PageRun {
            first_frame: 9,
            count: 1,
            first_page: PageId(1),
            repeat: false,
            role,
        };
        let snapshots = vec![
            Snapshot {
                event: 0,
                parent: None,
                runs: vec![wide],
            },
            Snapshot {
                event: 1,
                parent: Some(0),
                runs: vec![one],
            },
        ];
        let m = Memory {
            pages: PageStore::default(),
            snapshots: Arc::new(snapshots),
        };
        let runs = m.last().runs();
        assert_eq!(runs.iter().map(|r| r.count).collect::<Vec<_>>(), [9, 1, u32::MAX - 10]);
    }
}
