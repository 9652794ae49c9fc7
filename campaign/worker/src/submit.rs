//! The client of a campaign on a broker: it queues the runs, follows their results, and keeps them in the folder.

use crate::connection::{ConnectionState, QueueOptions, stopped};
use crate::file_store::{FileError, FileStore};
use crate::follow::Follower;
use crate::publication::{PublicationError, Publisher};
use crate::storage::Storage;
use crate::worker_list::WorkerList;
use anyhow::{Context as _, Result, bail};
use kinescope_campaign::messages::{RunMessage, encode};
use kinescope_campaign::{
    Campaign, CampaignEnd, CampaignFolder, FolderQueue, Matrix, QueueError, Run, RunId, RunQueue as _, RunResult,
    RunVerdict, count_targets,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// Time to wait for another process to close the queue, and the interval of attempts.
const IN_USE_LIMIT: Duration = Duration::from_secs(15);
const IN_USE_TICK: Duration = Duration::from_millis(50);
/// Interval at which the state of the campaign is checked and its status is written.
const INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the end of the campaign and a stop are noticed.
const TICK: Duration = Duration::from_millis(20);
/// Time without a result after which the runs that the broker has are counted.
const QUIET: Duration = Duration::from_secs(5);
/// Time that requests have after a stop or the end. Everything that counts is on a disk by then.
const STOP_LIMIT: Duration = Duration::from_millis(500);
/// Maximum number of cells whose verdicts are remembered, to print each once.
const MAX_PRINTED: usize = 10_000;

/// Options of the client.
#[derive(Clone, Debug, clap::Args)]
pub struct SubmitOptions {
    /// Description of the campaign
    #[arg(value_name = "C.toml")]
    pub file: PathBuf,
    /// Folder of the campaign: results and kept outcomes
    #[arg(short = 'o', value_name = "FOLDER")]
    pub folder: PathBuf,
    /// The broker.
    #[command(flatten)]
    pub queue: QueueOptions,
    /// Servers of a cluster that hold each message, when the storage is created
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub replicas: u8,
    /// Stop when standard input ends: the program that started this one has ended
    #[arg(long, hide = true)]
    pub stop_at_end_of_input: bool,
}

/// Queues the runs of a campaign on the broker, and follows their results until all are there, the user stops it, or no
/// worker runs the rest.
///
/// # Errors
/// If the description, the folder or a file is unusable, or the broker cannot be reached at the start.
pub fn submit(options: &SubmitOptions, stop: &Progress) -> Result<CampaignEnd> {
    let campaign = Campaign::read(&options.file).with_context(|| options.file.display().to_string())?;
    let matrix = Matrix::expand(&campaign, stop).with_context(|| options.file.display().to_string())?;
    let folder = CampaignFolder::create(&options.folder, &campaign.name)?;
    let queue = Arc::new(open_queue(&folder, stop)?);
    queue.add(&mut matrix.runs().take_while(|_| stop.check().is_ok()))?;
    let id = RunId::parse(&folder.stored_status()?.id).context("the status file has no id of the campaign")?;
    check_messages(&matrix, id).with_context(|| options.file.display().to_string())?;
    let counts = queue.counts()?;
    if counts.done == counts.total() && stop.check().is_ok() {
        // A client that was killed at its end goes on: the broker has nothing to say.
        folder.write_queue_status(&queue, false)?;
        return Ok(CampaignEnd::default());
    }
    folder.write_queue_status(&queue, true)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("broker")
        .enable_all()
        .build()
        .context("no threads for the broker")?;
    let client = Client {
        target_wait: Duration::from_secs(campaign.target_wait_s),
        folder,
        queue,
        id,
        // The tasks are stopped at the end, not only by the user.
        tasks: Progress::new(),
        stored: Arc::default(),
    };
    let end = runtime.block_on(async {
        tokio::select! {
            end = client.run(options, &matrix, stop) => end,
            // A broker that does not answer does not delay a stop.
            () = stopped(stop, STOP_LIMIT) => Ok(CampaignEnd {
                done: client.stored.load(Ordering::Relaxed),
                stopped: true,
                given_up: Vec::new(),
            }),
        }
    });
    client.tasks.cancel();
    runtime.shutdown_timeout(STOP_LIMIT);
    client.folder.write_queue_status(&client.queue, false)?;
    end
}

/// Opens the queue to run it. A process that was killed may take a moment to end.
fn open_queue(folder: &CampaignFolder, stop: &Progress) -> Result<FolderQueue, QueueError> {
    let begun = Instant::now();
    loop {
        match folder.open_running_queue() {
            Err(QueueError::InUse(_)) if begun.elapsed() < IN_USE_LIMIT && stop.check().is_ok() => {
                std::thread::sleep(IN_USE_TICK);
            }
            opened => return opened,
        }
    }
}

/// Checks that workers accept the messages of all runs, before the first one is queued.
fn check_messages(matrix: &Matrix, campaign: RunId) -> Result<()> {
    let targets = matrix.targets();
    let Some(longest) = targets.iter().max_by_key(|t| t.len()) else {
        return Ok(());
    };
    for work in matrix.works() {
        let run = Run::new(work.clone(), longest, u32::MAX);
        let message = encode(&RunMessage::new(campaign, u64::MAX, u64::MAX, run));
        let checked = message.and_then(|bytes| RunMessage::parse(&bytes));
        checked.with_context(|| format!("{} {} cannot be sent to workers", work.kind(), work.recording().name))?;
    }
    Ok(())
}

/// The client of one campaign.
struct Client {
    target_wait: Duration,
    folder: CampaignFolder,
    queue: Arc<FolderQueue>,
    id: RunId,
    tasks: Progress,
    /// Number of results that this process stored.
    stored: Arc<AtomicU64>,
}

/// Targets that no worker runs, with the time since when.
#[derive(Default)]
struct Unoffered(BTreeMap<String, Instant>);

impl Unoffered {
    /// Updates the list. Returns whether every target with runs has been without a worker for longer than `wait`.
    fn update(&mut self, waiting: &BTreeSet<String>, offered: &BTreeSet<&str>, wait: Duration) -> bool {
        self.0
            .retain(|target, _| waiting.contains(target) && !offered.contains(target.as_str()));
        for target in waiting.iter().filter(|t| !offered.contains(t.as_str())) {
            self.0.entry(target.clone()).or_insert_with(Instant::now);
        }
        !waiting.is_empty() && waiting.len() == self.0.len() && self.0.values().all(|since| since.elapsed() > wait)
    }
}

impl Client {
    async fn run(&self, options: &SubmitOptions, matrix: &Matrix, stop: &Progress) -> Result<CampaignEnd> {
        let connection = Arc::new(ConnectionState::default());
        let client = options
            .queue
            .connect("kinescope campaign", Arc::clone(&connection))
            .await?;
        let open = || Storage::open(client.clone(), &options.queue.queue, options.replicas.into());
        let storage = connection.repeat_until_connected(open).await?;
        let files = FileStore::new(storage.files.clone());
        let publisher = Publisher::new(
            storage.clone(),
            files.clone(),
            self.id,
            Arc::clone(&self.queue),
            Arc::clone(&connection),
            stop.clone(),
        );
        let workers = Arc::new(WorkerList::default());
        tokio::spawn(Arc::clone(&workers).follow(storage.clone()));
        let follower = Arc::new(Follower {
            storage: storage.clone(),
            files,
            campaign: self.id,
            folder: self.folder.clone(),
            queue: Arc::clone(&self.queue),
            connection,
            stop: self.tasks.clone(),
            stored: Arc::clone(&self.stored),
            refusals: Mutex::default(),
            failed_files: Mutex::default(),
        });
        let mut following = {
            let follower = Arc::clone(&follower);
            let notice = print_results(Arc::clone(&self.queue));
            tokio::spawn(async move { follower.run(&notice).await })
        };
        let sent = publisher.send_files(matrix).await;
        let published = match sent {
            Ok(bytes) => {
                tracing::debug!(bytes, "files sent");
                publisher.publish_new().await
            }
            Err(e) => Err(e),
        };
        let mut end = CampaignEnd::default();
        match published {
            Ok(runs) => tracing::info!(runs, campaign = %self.id, "queued"),
            Err(PublicationError::Stopped) => end.stopped = true,
            Err(e) => return Err(e.into()),
        }
        let mut followed = None;
        if !end.stopped {
            tokio::select! {
                watched = self.watch(&publisher, &follower, &workers, matrix, stop) => end = watched?,
                // Before the last result, this is an error.
                ended = &mut following => followed = Some(ended),
            }
        }
        self.tasks.cancel();
        let followed = match followed {
            Some(ended) => ended,
            None => following.await,
        };
        match followed {
            Ok(ended) => ended?,
            Err(e) => bail!("the results are not followed: {e}"),
        }
        end.done = follower.stored.load(Ordering::Relaxed);
        if self.queue.counts()?.done == self.queue.counts()?.total() {
            storage.close_results(self.id).await;
        }
        Ok(end)
    }

    /// Returns the targets whose runs have no results, and the number of those runs.
    fn waiting(&self) -> Result<(BTreeSet<String>, u64), QueueError> {
        let targets = count_targets(&self.queue.work_counts()?);
        let left = targets.values().map(|c| c.queued + c.leased).sum();
        let waiting = targets.into_iter().filter(|(_, c)| c.queued + c.leased > 0);
        Ok((waiting.map(|(name, _)| name).collect(), left))
    }

    /// Waits for the results. Returns how the campaign ended, without the number of results.
    async fn watch(
        &self,
        publisher: &Publisher,
        follower: &Follower,
        workers: &WorkerList,
        matrix: &Matrix,
        stop: &Progress,
    ) -> Result<CampaignEnd> {
        let mut end = CampaignEnd::default();
        let mut unoffered = Unoffered::default();
        let (mut checked, mut changed) = (Instant::now(), Instant::now());
        let (mut stored, mut missing) = (0, 0);
        // Number of refused messages when runs were queued again, since the last result.
        let mut refused_before = None;
        let counts = self.queue.counts()?;
        let mut left = counts.total().saturating_sub(counts.done);
        while left > 0 {
            tokio::time::sleep(TICK).await;
            if stop.check().is_err() {
                end.stopped = true;
                return Ok(end);
            }
            let now_stored = follower.stored.load(Ordering::Relaxed);
            if now_stored != stored {
                (stored, changed, missing, refused_before) = (now_stored, Instant::now(), 0, None);
                let counts = self.queue.counts()?;
                left = counts.total().saturating_sub(counts.done);
            }
            if checked.elapsed() < INTERVAL {
                continue;
            }
            checked = Instant::now();
            self.folder.write_queue_status(&self.queue, true)?;
            if changed.elapsed() < QUIET {
                continue;
            }
            // Nothing arrives: runs were lost, or nobody runs them.
            let Ok(counts) = publisher.count().await else { continue };
            let (waiting, unfinished) = self.waiting()?;
            left = unfinished;
            let is_lost = unfinished > counts.runs.saturating_add(counts.results);
            missing = if is_lost { missing + 1 } else { 0 };
            if missing >= 2 {
                let refusals = follower.refusals();
                if refused_before.is_some_and(|before| refusals.count > before) {
                    bail!(
                        "workers refuse runs, also those that were queued again: {}; use the same version on all machines",
                        refusals.last
                    );
                }
                refused_before = Some(refusals.count);
                tracing::warn!("the broker lost runs; they are queued again");
                let sent = publisher.send_files(matrix).await;
                let published = match sent {
                    Ok(_) => publisher.publish_again().await,
                    Err(e) => Err(e),
                };
                match published {
                    Ok(_) => (missing, changed) = (0, Instant::now()),
                    Err(e @ (PublicationError::Queue(_) | PublicationError::File(FileError::Broker(_)))) => {
                        tracing::warn!("{e}");
                    }
                    Err(PublicationError::Stopped) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            let offered = workers.offered(waiting.iter().map(String::as_str));
            if unoffered.update(&waiting, &offered, self.target_wait) {
                let reason = "no worker can use it now".to_owned();
                end.given_up = waiting.into_iter().map(|target| (target, reason.clone())).collect();
                return Ok(end);
            }
        }
        Ok(end)
    }
}

/// Returns a function that prints results that do not match, once for each cell and verdict.
fn print_results(queue: Arc<FolderQueue>) -> impl Fn(&[RunResult]) + Send + Sync {
    let printed: Mutex<BTreeSet<(String, String, RunVerdict)>> = Mutex::default();
    move |results| {
        for result in results.iter().filter(|r| r.verdict != RunVerdict::Match) {
            let Ok(Some(run)) = queue.run(result.run) else { continue };
            let recording = run.work.recording().name.clone();
            let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
            let cell = (recording.clone(), run.target, result.verdict);
            if printed.len() < MAX_PRINTED && printed.insert(cell) {
                let reason = match (&result.divergence, &result.failure) {
                    (Some(d), _) => format!(": event {}: {}", d.event, d.text),
                    (None, Some(failure)) => format!(": {failure}"),
                    (None, None) => String::new(),
                };
                let verdict = result.verdict.name();
                tracing::warn!("{verdict} {recording} on {}{reason}", result.on_target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_ends_when_nobody_runs_the_rest() {
        let mut unoffered = Unoffered::default();
        let waiting: BTreeSet<String> = ["a".to_owned(), "b".to_owned()].into();
        assert!(!unoffered.update(&waiting, &BTreeSet::from(["a"]), Duration::ZERO));
        assert_eq!(unoffered.0.len(), 1);
        assert!(!unoffered.update(&waiting, &BTreeSet::new(), Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(2));
        assert!(unoffered.update(&waiting, &BTreeSet::new(), Duration::ZERO));
        assert!(!unoffered.update(&BTreeSet::new(), &BTreeSet::new(), Duration::ZERO));
    }
}
