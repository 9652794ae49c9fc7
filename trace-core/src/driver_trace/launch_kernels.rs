//! The kernels of launches in submissions, in a recording of both levels.

use super::{DriverWork, GpuWork, SubmissionCalls, SubmittedLaunch};
use crate::recording::{CALL_CAPTURED, CallEvent, LaunchRow, Recording};
use std::collections::{BTreeMap, HashMap};

/// The kernel of a launch in a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchedKernel {
    /// The function, an index into [`crate::recording::ApiTraceMetadata::functions`].
    pub function: u32,
    /// Event of the launch of the program. `None` if the call executed several launches of the function that cannot be told
    /// apart.
    pub event: Option<u64>,
}

/// The kernels of launches that are certain.
///
/// A launch has a kernel if the call that made its submission launched this kernel and no other one with the same blocks,
/// threads and arguments, at least as often as the GPU did. If arguments are unknown, it has one only if it is the one
/// launch of a call that is no graph launch. Other launches, such as those of fills, have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchKernels {
    /// By submission and offset of the launch in words.
    kernels: BTreeMap<(u32, u32), LaunchedKernel>,
    /// Submission, and offset in words, of each launch of the program that is certain.
    launches: HashMap<u64, (u32, u32)>,
}

/// A launch of the program.
struct CalledLaunch<'a> {
    event: u64,
    row: LaunchRow,
    /// Offset and size of each parameter, bytes.
    parameters: &'a [[u32; 2]],
    /// Argument bytes, if the recording holds them.
    arguments: Option<Vec<u8>>,
}

/// How a launch of the GPU compares with one of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    /// Blocks, threads or arguments differ.
    Differs,
    /// Blocks and threads are the same; some arguments are unknown, or there are none.
    Shape,
    /// All arguments are the same too.
    Arguments,
}

impl<'a> CalledLaunch<'a> {
    fn read(recording: &'a Recording, event: u64) -> Option<Self> {
        let functions = &recording.api()?.functions;
        match recording.events.call(usize::try_from(event).ok()?)? {
            CallEvent::Launch(row) if row.result == 0 && row.flags & CALL_CAPTURED == 0 => Some(Self {
                event,
                row,
                parameters: functions.get(row.function as usize).map_or(&[], |f| &f.parameters),
                arguments: recording.events.call_arguments(row.arguments_at, row.arguments),
            }),
            _ => None,
        }
    }

    /// Compares a launch of the GPU. Bytes between parameters do not count: nobody sets them.
    fn compare(&self, launch: &SubmittedLaunch) -> Match {
        if self.row.grid != launch.grid || self.row.block != launch.block {
            return Match::Differs;
        }
        let submitted = launch.parameter_bytes();
        let bytes_of = |all: &[u8], [offset, bytes]: [u32; 2]| {
            let end = offset.checked_add(bytes)?;
            all.get(offset as usize..end as usize).map(<[u8]>::to_vec)
        };
        let mut known = 0;
        for parameter in self.parameters {
            let argument = self.arguments.as_deref().and_then(|all| bytes_of(all, *parameter));
            match (argument, bytes_of(&submitted, *parameter)) {
                (Some(a), Some(b)) if a == b => known += 1,
                (Some(_), Some(_)) => return Match::Differs,
                _ => {}
            }
        }
        match known == self.parameters.len() && known > 0 {
            true => Match::Arguments,
            false => Match::Shape,
        }
    }
}

impl LaunchKernels {
    /// Finds the kernels of launches. `calls` and `work` are those of the recording. Takes time proportional to the number
    /// of launches, and for a graph launch to the square of the number of its kernels.
    #[must_use]
    pub fn find(recording: &Recording, calls: &SubmissionCalls, work: &DriverWork) -> Self {
        let mut out = Self::default();
        let mut decoded: HashMap<u32, Vec<&SubmittedLaunch>> = HashMap::new();
        for (submission, d) in work.submissions() {
            let launches = d.work.iter().filter_map(|w| match w {
                GpuWork::Launch(launch) => Some(&**launch),
                _ => None,
            });
            decoded.insert(submission.index, launches.collect());
        }
        for (call, submissions) in calls.calls() {
            let launches = submissions.iter().flat_map(|s| {
                let all = decoded.get(s).map_or(&[][..], Vec::as_slice);
                all.iter().map(|l| (*s, *l))
            });
            let launches: Vec<(u32, &SubmittedLaunch)> = launches.collect();
            let called = std::iter::once(&call).chain(calls.graph_kernels_of(call));
            let called: Vec<CalledLaunch<'_>> = called.filter_map(|e| CalledLaunch::read(recording, *e)).collect();
            // Some launches of a graph may have no method of their own.
            let is_graph = !calls.graph_kernels_of(call).is_empty();
            out.join(
                &called,
                &launches,
                !is_graph && called.len() == 1 && launches.len() == 1,
            );
        }
        out
    }

    /// Joins the launches of a call with those of its submissions. If each side has only one, unknown arguments do not matter.
    fn join(&mut self, called: &[CalledLaunch<'_>], launches: &[(u32, &SubmittedLaunch)], is_only: bool) {
        let fitting = launches.iter().map(|(_, launch)| {
            let matches = called.iter().map(|c| c.compare(launch)).enumerate();
            matches.filter(|(_, m)| *m != Match::Differs).collect()
        });
        let fitting: Vec<Vec<(usize, Match)>> = fitting.collect();
        for ((submission, launch), fits) in launches.iter().zip(&fitting) {
            let is_certain = is_only || fits.iter().all(|(_, m)| *m == Match::Arguments);
            let functions = fits.iter().filter_map(|(n, _)| called.get(*n)).map(|c| c.row.function);
            let mut functions: Vec<u32> = functions.collect();
            functions.dedup();
            let ([function], true) = (&functions[..], is_certain) else {
                continue;
            };
            // More launches than the program made: some of them are of the driver.
            let is_rival = |other: &&Vec<(usize, Match)>| other.iter().any(|o| fits.iter().any(|f| f.0 == o.0));
            if fitting.iter().filter(is_rival).count() > fits.len() {
                continue;
            }
            let event = match fits[..] {
                [(one, _)] => called.get(one).map(|c| c.event),
                _ => None,
            };
            let key = (*submission, launch.word);
            let function = *function;
            self.kernels.insert(key, LaunchedKernel { function, event });
            if let Some(event) = event {
                self.launches.insert(event, key);
            }
        }
    }

    /// Returns the kernel of a launch, by the number of its submission and its offset in words.
    #[must_use]
    pub fn kernel_of(&self, submission: u32, word: u32) -> Option<LaunchedKernel> {
        self.kernels.get(&(submission, word)).copied()
    }

    /// Returns where the GPU starts a launch of the program: the number of the submission, and the offset in words.
    #[must_use]
    pub fn find_launch(&self, event: u64) -> Option<(u32, u32)> {
        self.launches.get(&event).copied()
    }

    /// Returns the launches of the program that a submission starts, in order: offset in words, and event.
    #[must_use]
    pub fn launches_of(&self, submission: u32) -> Vec<(u32, u64)> {
        let own = self.kernels.range((submission, 0)..=(submission, u32::MAX));
        own.filter_map(|((_, word), kernel)| Some((*word, kernel.event?)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
