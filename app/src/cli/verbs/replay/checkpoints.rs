//! `replay --checkpoints`: replays a recording in parts, and goes on from the last checkpoint of its folder.

use super::{Arguments, RunContext, finish};
use crate::cli::out::format_duration;
use crate::cli::replay_arguments::OpenedTarget;
use crate::cli::{Exit, Failure, Out, progress_line};
use kinescope_session::checkpoints::{
    CheckpointError, CheckpointFolder, CheckpointNotice, CheckpointedReplay, FinishedPart,
};
use kinescope_session::replay::request::ReplayReport;
use kinescope_session::trim_recording::source_name;
use std::num::NonZeroU32;
use std::path::Path;

/// Number of jobs between two checkpoints, unless the user gives one.
const EVERY: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);

/// Replays in parts, prints each, and then the outcome of the whole.
pub(super) fn run(arguments: &Arguments, folder: &Path, out: &mut Out) -> Result<Exit, Failure> {
    let of = &arguments.of;
    let target = of.open_target(arguments.request(), "checkpoints are for recordings")?;
    let OpenedTarget {
        request,
        mut lease,
        opened,
    } = target;
    let file_error = |e: CheckpointError| Failure::file(of.file(), e);
    let mut kept = CheckpointFolder::open(folder).map_err(|e| Failure::usage(e.to_string()))?;
    let source = source_name(of.file());
    let replay = CheckpointedReplay {
        request: &request,
        recording: &opened.recording,
        source: &source,
        targets: &of.targets(),
        every: arguments.checkpoint_every.unwrap_or(EVERY),
    };
    let ended = progress_line::run_printing("replaying", |progress, _| {
        let mut printed = Ok(());
        let mut context = RunContext {
            model: None,
            preempted: lease.preempted().cloned(),
            preemptions: 0,
        };
        let ended = replay.run(&mut lease, &mut kept, progress, &mut |notice| {
            match notice {
                CheckpointNotice::Finished(part) => context.model = part.model.map(str::to_owned),
                CheckpointNotice::Preempted { .. } => context.preemptions = context.preemptions.saturating_add(1),
                CheckpointNotice::Resumed { .. } => {}
            }
            if !out.is_json() && printed.is_ok() {
                printed = out.line(describe(notice)).and_then(|()| out.flush());
            }
        });
        printed?;
        match ended {
            // Whatever a cancellation interrupts, the user stopped the replay.
            Err(e) if progress.check().is_err() => Err(Failure::usage(e.to_string())),
            ended => Ok((ended, context)),
        }
    })?;
    let (ended, context) = ended;
    let outcome = ended.map_err(|e| match e {
        CheckpointError::Request(e) => of.describe_error(e),
        CheckpointError::File(e) => Failure::usage(e.to_string()),
        e => file_error(e),
    })?;
    let done = ReplayReport::without_screen(outcome);
    finish(arguments, &opened, &request, &done, &context, out)
}

/// Describes what happened in one line.
fn describe(notice: &CheckpointNotice<'_>) -> String {
    match notice {
        CheckpointNotice::Finished(part) => describe_part(part),
        CheckpointNotice::Preempted { next_job, all_jobs } => {
            format!("preempted before job {next_job} of {all_jobs}; waiting for the target")
        }
        CheckpointNotice::Resumed { waited } => {
            let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
            format!("the target is back after {}", format_duration(waited_ns))
        }
    }
}

fn describe_part(part: &FinishedPart<'_>) -> String {
    let last = part.jobs.end.saturating_sub(1);
    let jobs = match part.jobs.start == last {
        true => format!("job {last}"),
        false => format!("jobs {} to {last}", part.jobs.start),
    };
    let verdict = part.outcome.verdict_line();
    match part.is_kept {
        true => format!(
            "{jobs} of {}: {verdict}; checkpoint: {} pages changed, {} new",
            part.all_jobs, part.changed_pages, part.new_images
        ),
        false => format!("{jobs} of {}: {verdict}", part.all_jobs),
    }
}
