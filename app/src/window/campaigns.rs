//! Requests of the Campaign panel: a folder or a description to open, and campaigns that run in the background.

use super::app::App;
use super::pick::Pick;
use crate::log::{self, Level};
use crate::panels::common::campaign_run::{CampaignRun, CheckedDescription, SharedReader};
use egui::Context;
use kinescope_campaign::{
    Campaign, CampaignEnd, CampaignFolder, CampaignOptions, CampaignReader, FolderQueue, Matrix, RunNotice,
    RunQueue as _, RunVerdict, Snapshot, Summary, run_campaign, write_table,
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

/// The panel that shows campaigns.
const PANEL: &str = "campaign";
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
        let opened = read(&path);
        Box::new(move |app| app.views.campaign.open(opened))
    });
}

/// Reads the folder of a campaign.
fn read(path: &Path) -> Result<(SharedReader, Arc<Snapshot>), String> {
    let opened = CampaignReader::open(path).and_then(|mut reader| {
        let snapshot = reader.read()?;
        Ok((Arc::new(Mutex::new(reader)), snapshot))
    });
    opened.map_err(|e| e.to_string())
}

/// Whether a path names the folder of a campaign or a description: no recording is a `.toml`.
pub(super) fn is_campaign(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml") || CampaignFolder::open(path).is_ok()
}

/// Opens a campaign that the user opened like a recording. A window without a recording opens the first one of the campaign.
pub(super) fn open_with_recording(app: &mut App, ctx: &Context, path: PathBuf) {
    let title = path.display().to_string();
    let again = ctx.clone();
    if path.is_dir() {
        app.tasks.spawn(ctx, format!("reading {title}"), move |_| {
            let opened = read(&path);
            Box::new(move |app| {
                let recording = match &opened {
                    Ok((_, snapshot)) => first_recording_of(snapshot),
                    Err(e) => return app.error(&format!("{title} was not opened"), e),
                };
                app.views.campaign.open(opened);
                app.show_panel_of_file(&again, PANEL, &title, recording);
            })
        });
        return;
    }
    app.tasks.spawn(ctx, format!("checking {title}"), move |progress| {
        let checked = check_file(path, progress);
        let cancelled = progress.check().is_err();
        Box::new(move |app| {
            if cancelled {
                return;
            }
            let recording = match &checked {
                Ok(description) => first_recording(&description.matrix),
                Err(e) => return app.error(&format!("{title} was not opened as the description of a campaign"), e),
            };
            app.views.campaign.describe(checked);
            app.show_panel_of_file(&again, PANEL, &title, recording);
        })
    });
}

/// Returns the first recording of a description.
fn first_recording(matrix: &Matrix) -> Option<PathBuf> {
    let mut works = matrix.works().filter(|work| is_of_recording(work.kind()));
    works.next().map(|work| work.recording().path.clone())
}

/// Returns the first recording of a campaign that has results and is still there.
fn first_recording_of(snapshot: &Snapshot) -> Option<PathBuf> {
    let cells = snapshot.cells().filter(|cell| is_of_recording(cell.key.kind));
    cells.map(|cell| &cell.cell.path).find(|path| path.exists()).cloned()
}

/// Whether the file of a kind of work is a recording. That of others is a pipeline or a program.
fn is_of_recording(kind: &str) -> bool {
    !matches!(kind, "pipeline" | "wasm")
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
    let notice = |notice: &RunNotice<'_>| {
        if matches!(notice, RunNotice::Done(..)) {
            // A cancellation is for the threads of the targets.
            let _ = progress.advance(1);
        }
    };
    // Runs count their own steps, so that they need another progress; its cancellation follows the one of the window.
    let (stop, is_over) = (Progress::new(), AtomicBool::new(false));
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = Instant::now();
            while !is_over.load(Ordering::Relaxed) {
                if progress.check().is_err() {
                    stop.cancel();
                }
                let begun = Instant::now();
                if begun >= next {
                    publish(own, &mut reader, &folder, &queue, true, ctx);
                    next = Instant::now() + READ_INTERVAL.max(begun.elapsed().saturating_mul(MAX_READ_SHARE));
                }
                std::thread::sleep(STOP_TICK);
            }
        });
        let ended = queue.lease_ahead_during(|| run_campaign(&queue, &names, &options, &stop, &notice));
        is_over.store(true, Ordering::Relaxed);
        ended
    });
    publish(own, &mut reader, &folder, &queue, false, ctx);
    let mut end = ended.flatten().map_err(|e| text(&e))?;
    end.add_unnamed(&queue.unnamed_targets(&campaign.targets()).map_err(|e| text(&e))?);
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
