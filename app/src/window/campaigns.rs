//! Requests of the Campaign panel: a folder or a description to open, and campaigns that run in the background.

use super::app::App;
use super::pick::Pick;
use crate::log::{self, Level};
use crate::panels::common::campaign_run::{CampaignRun, CheckedDescription};
use egui::Context;
use kinescope_campaign::{
    Campaign, CampaignEnd, CampaignFolder, CampaignOptions, CampaignReader, FolderQueue, Matrix, RunNotice,
    RunQueue as _, RunVerdict, Summary, run_campaign, write_table,
};
use kinescope_files::link::Link;
use kinescope_files::scene::{Scene, Selection};
use kinescope_session::running_work::RunningWork;
use kinescope_session::targets::Targets;
use kinescope_session::text;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// Minimum interval between two readings of a campaign that runs here, and the share of the time that they may take.
const READ_INTERVAL: Duration = Duration::from_millis(500);
const MAX_READ_SHARE: u32 = 10;
/// Interval at which a run checks whether the user stopped it.
const STOP_TICK: Duration = Duration::from_millis(50);

/// Asks for the folder of a campaign and opens it.
pub(super) fn choose(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Folder, open);
}

/// Asks for a description and checks it.
pub(super) fn choose_description(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::CampaignDescription, check);
}

/// Opens the folder of a campaign in the background.
fn open(app: &mut App, ctx: &Context, path: PathBuf) {
    let title = format!("reading {}", path.display());
    app.tasks.spawn(ctx, title, move |_| {
        let opened = CampaignReader::open(&path).and_then(|mut reader| {
            let snapshot = reader.read()?;
            Ok((Arc::new(Mutex::new(reader)), snapshot))
        });
        let opened = opened.map_err(|e| e.to_string());
        Box::new(move |app| app.views.campaign.open(opened))
    });
}

/// Reads in the background what was appended to the open campaign.
pub(super) fn read_again(app: &mut App, ctx: &Context) {
    let Some(reader) = app.views.campaign.reader() else {
        return;
    };
    app.tasks.spawn(ctx, "reading the campaign", move |_| {
        let read = reader.lock().unwrap_or_else(PoisonError::into_inner).read();
        let read = read.map_err(|e| e.to_string());
        Box::new(move |app| app.views.campaign.show(&reader, read))
    });
}

/// Checks a description in the background: it finds its files and computes their digests.
fn check(app: &mut App, ctx: &Context, path: PathBuf) {
    let title = format!("checking {}", path.display());
    app.tasks.spawn(ctx, title, move |progress| {
        let checked = check_file(path, progress);
        let cancelled = progress.check().is_err();
        Box::new(move |app| {
            if !cancelled {
                app.views.campaign.describe(checked);
            }
        })
    });
}

fn check_file(path: PathBuf, progress: &Progress) -> Result<CheckedDescription, String> {
    let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let campaign = Campaign::read(&path).map_err(|e| named(&e))?;
    let matrix = Matrix::expand(&campaign, progress).map_err(|e| named(&e))?;
    Ok(CheckedDescription { path, campaign, matrix })
}

/// Runs a campaign in the background. The panel shows its cells meanwhile.
pub(super) fn run(app: &mut App, ctx: &Context, request: CampaignRun) {
    if app.views.campaign.running().is_some() {
        return;
    }
    let alive = RunningWork::new_token();
    let (targets, held, again) = (app.targets.clone(), Arc::clone(&alive), ctx.clone());
    let (own, title) = (
        request.clone(),
        format!("running {}", request.description.path.display()),
    );
    let progress = app.tasks.spawn(ctx, title, move |progress| {
        let ended = run_here(targets, &own, &again, progress);
        Box::new(move |app: &mut App| {
            drop(held);
            let (message, is_good) = ended.unwrap_or_else(|why| (why, false));
            if !is_good {
                log::push(Level::Info, format!("campaign: {message}"));
            }
            app.views.campaign.finish(message, is_good);
        })
    });
    let work = RunningWork::new("campaign", progress, &alive);
    app.views.campaign.begin(request, work);
}

/// Runs a campaign in its folder, and writes its table of results. Returns how it ended, and whether that is good.
fn run_here(targets: Targets, own: &CampaignRun, ctx: &Context, progress: &Progress) -> Result<(String, bool), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let (campaign, matrix) = (&own.description.campaign, &own.description.matrix);
    let folder = CampaignFolder::create(&own.folder, &campaign.name).map_err(|e| text(&e))?;
    let queue = folder.open_running_queue().map_err(|e| text(&e))?;
    let mut runs = matrix.runs().take_while(|_| progress.check().is_ok());
    queue.add(&mut runs).map_err(|e| text(&e))?;
    let names: Vec<String> = matrix.targets().into_iter().map(str::to_owned).collect();
    let options = CampaignOptions {
        worker: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        max_workers: 0,
        target_wait: Duration::from_secs(campaign.target_wait_s),
        outcomes: folder.outcomes_path(),
        targets,
    };
    let mut reader = CampaignReader::new(folder.clone());
    publish(own, &mut reader, &folder, &queue, true, ctx);
    let counts = queue.counts().map_err(|e| text(&e))?;
    progress.set_total(counts.total());
    let _ = progress.advance(counts.done);
    let readings = Mutex::new((Instant::now(), reader));
    let notice = |notice: &RunNotice<'_>| {
        if matches!(notice, RunNotice::Done(..)) {
            // A cancellation is for the threads of the targets.
            let _ = progress.advance(1);
        }
        let mut readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, reader) = &mut *readings;
        let begun = Instant::now();
        if begun >= *next {
            publish(own, reader, &folder, &queue, true, ctx);
            let took = begun.elapsed();
            *next = Instant::now() + READ_INTERVAL.max(took.saturating_mul(MAX_READ_SHARE));
        }
    };
    // Runs count their own steps, so that they need another progress; its cancellation follows the one of the window.
    let (stop, is_over) = (Progress::new(), AtomicBool::new(false));
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if progress.check().is_err() {
                    stop.cancel();
                }
                std::thread::sleep(STOP_TICK);
            }
        });
        let ended = run_campaign(&queue, &names, &options, &stop, &notice);
        is_over.store(true, Ordering::Relaxed);
        ended
    });
    let (_, mut reader) = readings.into_inner().unwrap_or_else(PoisonError::into_inner);
    publish(own, &mut reader, &folder, &queue, false, ctx);
    let end = ended.map_err(|e| text(&e))?;
    write_table(&queue, &folder.results_path()).map_err(|e| text(&e))?;
    let summary = Summary::read(&queue).map_err(|e| text(&e))?;
    Ok(describe(&summary, &end))
}

/// Reads the campaign for the panel, and writes the status for other processes. What fails here does not end the
/// campaign: the next reading may succeed.
fn publish(
    own: &CampaignRun,
    reader: &mut CampaignReader,
    folder: &CampaignFolder,
    queue: &FolderQueue,
    running: bool,
    ctx: &Context,
) {
    let written = folder.write_queue_status(queue, running);
    let read = reader.read_running(queue, running);
    match (written, read) {
        (Ok(()), Ok(snapshot)) => {
            *own.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
            ctx.request_repaint();
        }
        (Err(e), _) | (_, Err(e)) => log::push(Level::Warning, format!("campaign: {e}")),
    }
}

/// Describes the end of a campaign in one line, and returns whether it is good.
fn describe(summary: &Summary, end: &CampaignEnd) -> (String, bool) {
    let count = |verdict: RunVerdict| {
        let n = summary.results_with(verdict);
        (n > 0).then(|| format!("{} {}", text::count(n), verdict.name()))
    };
    let all = [
        RunVerdict::Match,
        RunVerdict::Diverged,
        RunVerdict::Failed,
        RunVerdict::Refused,
    ];
    let mut message = all.into_iter().filter_map(count).collect::<Vec<_>>().join(", ");
    if end.stopped {
        message = format!("stopped: {message}");
    }
    for (target, reason) in &end.given_up {
        message += &format!("; {target} is not used: {reason}");
    }
    (message, summary.is_success() && !end.stopped && end.given_up.is_empty())
}

/// Opens a recording at an event.
pub(super) fn open_at(app: &mut App, ctx: &Context, path: &Path, event: u64) {
    let link = Link {
        file: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        events: None,
        scene: Some(Scene {
            event,
            selection: Selection::default(),
            panels: Vec::new(),
        }),
    };
    if let Err(e) = app.follow(ctx, &link.to_string()) {
        app.error(&format!("{} was not opened", path.display()), &e.to_string());
    }
}
