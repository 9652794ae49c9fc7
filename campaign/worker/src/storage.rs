//! What the broker stores: the queue of runs, results, leases, files, and the lists of workers and selectors.

use async_nats::Client;
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, PullConsumer, pull};
use async_nats::jetstream::context::{ContextBuilder, CreateStreamError, CreateStreamErrorKind};
use async_nats::jetstream::kv::Store;
use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use kinescope_campaign::{QueueError, RunId};
use std::fmt::Display;
use std::time::Duration;

/// The queue of runs: a message stays until a worker has reported its result.
const RUNS: &str = "kinescope-runs";
/// Results: a message stays until the client of the campaign has stored it.
const RESULTS: &str = "kinescope-results";
/// Attempts of runs, by campaign and run.
const LEASES: &str = "kinescope-leases";
/// Workers with their targets.
const WORKERS: &str = "kinescope-workers";
/// Selectors that descriptions have used.
const SELECTORS: &str = "kinescope-selectors";
/// Recordings, inputs and kept outcomes, by digest.
const FILES: &str = "kinescope-files";

/// Message for a server that only passes messages on.
const NO_JETSTREAM: &str =
    "the server has no JetStream, which stores runs and results; start it with `nats-server -js`";

/// Time that the broker remembers the attempts of a run.
const LEASE_AGE: Duration = Duration::from_hours(24);
/// Time after which a worker that reports nothing is forgotten by the broker.
const WORKER_AGE: Duration = Duration::from_secs(60);
/// Time that runs and results stay without anybody who takes them. The client publishes runs again that it misses.
const WORK_AGE: Duration = Duration::from_hours(30 * 24);
/// Time in which the broker drops a message that is published twice.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
/// Maximum number of acknowledgements of published messages that are awaited at the same time.
const MAX_PUBLISHES: usize = 4096;
/// Maximum number of runs of a target that workers have at the same time.
const MAX_LEASED: i64 = 1024;
/// Maximum number of results that the client has and has not stored yet.
const MAX_RESULTS: i64 = 4096;
/// Time that the client has to store a result.
const RESULT_WAIT: Duration = Duration::from_secs(120);

/// The storage of the broker.
#[derive(Clone)]
pub struct Storage {
    address: String,
    /// The client of JetStream.
    pub jetstream: Context,
    /// Queue of runs.
    pub runs: Stream,
    /// Results.
    pub results: Stream,
    /// Attempts of runs.
    pub leases: Store,
    /// Workers.
    pub workers: Store,
    /// Selectors.
    pub selectors: Store,
    /// Files.
    pub files: ObjectStore,
}

/// Returns the word of a target in subjects: the beginning of its name's digest, because names may have any characters.
#[must_use]
pub fn target_word(target: &str) -> String {
    let digest = blake3::hash(target.as_bytes()).to_hex();
    digest.chars().take(32).collect()
}

/// Returns the subject of the runs of a campaign on a target.
#[must_use]
pub fn run_subject(target: &str, campaign: RunId) -> String {
    format!("kinescope.runs.{}.{campaign}", target_word(target))
}

/// Returns the subject of all runs of a campaign.
#[must_use]
pub fn campaign_subject(campaign: RunId) -> String {
    format!("kinescope.runs.*.{campaign}")
}

/// Returns the campaign that a subject of runs names.
#[must_use]
pub fn campaign_of_subject(subject: &str) -> Option<RunId> {
    RunId::parse(subject.rsplit('.').next()?)
}

/// Returns the subject of the results of a campaign.
#[must_use]
pub fn result_subject(campaign: RunId) -> String {
    format!("kinescope.results.{campaign}")
}

/// Returns the key of the attempts of a run.
#[must_use]
pub fn lease_key(campaign: RunId, run: RunId) -> String {
    format!("{campaign}.{run}")
}

/// Returns an error of the broker.
pub fn broker_error(address: &str, reason: impl Display) -> QueueError {
    QueueError::Broker {
        address: address.to_owned(),
        reason: reason.to_string(),
    }
}

/// Returns the description of a stream with work: each message is for one consumer, and is removed when it is done.
fn work_stream(name: &str, subjects: &str, replicas: usize) -> Config {
    Config {
        name: name.to_owned(),
        subjects: vec![subjects.to_owned()],
        retention: RetentionPolicy::WorkQueue,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        max_age: WORK_AGE,
        duplicate_window: DUPLICATE_WINDOW,
        num_replicas: replicas,
        ..Config::default()
    }
}

/// Returns the description of the stream of a bucket with keys. The client's own function for it asks the server for data
/// that servers before 2.10 do not have.
fn bucket_stream(bucket: &str, max_age: Duration, replicas: usize) -> Config {
    Config {
        name: format!("KV_{bucket}"),
        subjects: vec![format!("$KV.{bucket}.>")],
        max_messages_per_subject: 1,
        max_age,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        num_replicas: replicas,
        ..Config::default()
    }
}

/// Opens the store of files, and creates it if it is missing.
async fn open_files(jetstream: &Context, address: &str, replicas: usize) -> Result<ObjectStore, QueueError> {
    if let Ok(files) = jetstream.get_object_store(FILES).await {
        return Ok(files);
    }
    let config = object_store::Config {
        bucket: FILES.to_owned(),
        num_replicas: replicas,
        ..object_store::Config::default()
    };
    let created = jetstream.create_object_store(config).await;
    created.map_err(|e| broker_error(address, e))
}

impl Storage {
    /// Opens the storage, and creates what is missing. `replicas` is the number of servers of a cluster that hold each
    /// message; it matters only at creation.
    ///
    /// # Errors
    /// If the server has no JetStream, or refuses.
    pub async fn open(client: Client, address: &str, replicas: usize) -> Result<Self, QueueError> {
        let jetstream = ContextBuilder::new()
            .timeout(Duration::from_secs(5))
            .ack_timeout(Duration::from_secs(5))
            .max_ack_inflight(MAX_PUBLISHES)
            .backpressure_on_inflight(true)
            .build(client);
        let failed = |e: CreateStreamError| match e.kind() {
            CreateStreamErrorKind::JetStreamUnavailable => broker_error(address, NO_JETSTREAM),
            _ => broker_error(address, format_args!("no storage on the broker: {e}")),
        };
        let stream = |config: Config| jetstream.get_or_create_stream(config);
        let bucket = async |name: &str, age: Duration| {
            stream(bucket_stream(name, age, replicas)).await.map_err(failed)?;
            let opened = jetstream.get_key_value(name).await;
            opened.map_err(|e| broker_error(address, e))
        };
        // The first request alone: its error says whether there is storage at all.
        let runs = stream(work_stream(RUNS, "kinescope.runs.*.*", replicas));
        let runs = runs.await.map_err(failed)?;
        let (results, leases, workers, selectors, files) = tokio::try_join!(
            async {
                stream(work_stream(RESULTS, "kinescope.results.*", replicas))
                    .await
                    .map_err(failed)
            },
            bucket(LEASES, LEASE_AGE),
            bucket(WORKERS, WORKER_AGE),
            bucket(SELECTORS, Duration::ZERO),
            open_files(&jetstream, address, replicas),
        )?;
        let actual = runs.cached_info().config.num_replicas;
        if actual < replicas {
            tracing::warn!(
                "the storage was created with {actual} replicas, not {replicas}; change it with NATS' tools"
            );
        }
        Ok(Self {
            address: address.to_owned(),
            jetstream,
            runs,
            results,
            leases,
            workers,
            selectors,
            files,
        })
    }

    /// Creates what is missing again, for example after a server lost its disk.
    ///
    /// # Errors
    /// If the server does not answer, or refuses.
    pub async fn restore(&self) -> Result<(), QueueError> {
        Self::open(
            self.jetstream.client(),
            &self.address,
            self.runs.cached_info().config.num_replicas,
        )
        .await
        .map(drop)
    }

    /// Returns an error of this broker.
    pub fn error(&self, reason: impl Display) -> QueueError {
        broker_error(&self.address, reason)
    }

    /// Opens the consumer that shares the runs of a target among its workers. `lease` is the time after which a run
    /// whose worker reports nothing is delivered again. The longest one of the target's workers holds: each extends its
    /// leases as often as its own needs it.
    ///
    /// # Errors
    /// If the server does not answer, or refuses.
    pub async fn open_target(&self, target: &str, lease: Duration) -> Result<PullConsumer, QueueError> {
        let word = target_word(target);
        if let Ok(known) = self.runs.get_consumer::<pull::Config>(&word).await
            && known.cached_info().config.ack_wait >= lease
        {
            return Ok(known);
        }
        let config = pull::Config {
            durable_name: Some(word.clone()),
            filter_subject: format!("kinescope.runs.{word}.*"),
            ack_policy: AckPolicy::Explicit,
            ack_wait: lease,
            max_ack_pending: MAX_LEASED,
            ..pull::Config::default()
        };
        self.open_consumer(&self.runs, config).await
    }

    /// Opens the consumer of the results of a campaign, which has one client. Results that an earlier client, or an earlier
    /// connection, received and did not store are delivered again at once.
    ///
    /// # Errors
    /// If the server does not answer, or refuses.
    pub async fn open_results(&self, campaign: RunId) -> Result<PullConsumer, QueueError> {
        self.close_results(campaign).await;
        let config = pull::Config {
            durable_name: Some(campaign.to_string()),
            filter_subject: result_subject(campaign),
            ack_policy: AckPolicy::Explicit,
            ack_wait: RESULT_WAIT,
            max_ack_pending: MAX_RESULTS,
            ..pull::Config::default()
        };
        self.open_consumer(&self.results, config).await
    }

    /// Removes the consumer of the results of a campaign that is complete.
    pub async fn close_results(&self, campaign: RunId) {
        if let Err(e) = self.results.delete_consumer(&campaign.to_string()).await {
            tracing::debug!("the consumer of results stays: {e}");
        }
    }

    async fn open_consumer(&self, stream: &Stream, config: pull::Config) -> Result<Consumer<pull::Config>, QueueError> {
        stream.create_consumer(config).await.map_err(|e| self.error(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{ConnectionState, QueueOptions};
    use crate::file_store::{FileError, FileStore};
    use std::sync::Arc;
    use whole_program_tests::broker::{NatsServer, find_nats_server};

    async fn open(server: &NatsServer) -> Storage {
        let options = QueueOptions {
            queue: server.address(),
            ..QueueOptions::default()
        };
        let client = options
            .connect("test", Arc::new(ConnectionState::default()))
            .await
            .unwrap();
        Storage::open(client, &options.queue, 1).await.unwrap()
    }

    /// Regression: a worker with a short lease shortened that of all, and runs of the others were executed twice.
    #[tokio::test]
    async fn the_longest_lease_of_a_target_holds() {
        let Some(nats) = find_nats_server() else { return };
        let folder = tempfile::tempdir().unwrap();
        let server = NatsServer::start(&nats, folder.path(), &[]);
        let storage = open(&server).await;
        let mut waits = Vec::new();
        for seconds in [30, 1, 60, 30] {
            let opened = storage.open_target("a", Duration::from_secs(seconds)).await.unwrap();
            waits.push(opened.cached_info().config.ack_wait.as_secs());
        }
        assert_eq!(waits, [30, 30, 60, 60]);
    }

    #[tokio::test]
    async fn a_damaged_file_of_the_broker_is_refused_for_good() {
        let Some(nats) = find_nats_server() else { return };
        let folder = tempfile::tempdir().unwrap();
        let server = NatsServer::start(&nats, folder.path(), &[]);
        let storage = open(&server).await;
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, b"content").unwrap();
        let files = FileStore::new(storage.files.clone());
        let (digest, bytes) = files.upload_as("name", &from).await.unwrap();
        assert_eq!(files.download_file("name", &digest, &to, 100).await.unwrap(), bytes);
        std::fs::remove_file(&to).unwrap();
        // Another piece of the same object.
        let nuid = storage.files.info("name").await.unwrap().nuid;
        let subject = format!("$O.{FILES}.C.{nuid}");
        storage
            .jetstream
            .publish(subject, "more".into())
            .await
            .unwrap()
            .await
            .unwrap();
        let error = files.download_file("name", &digest, &to, 100).await.unwrap_err();
        assert!(matches!(error, FileError::Unsound { .. }), "{error}");
        assert_eq!(error.max_deliveries(), 1);
    }
}
