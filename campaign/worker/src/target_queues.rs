//! The queues that a target takes runs from: its own, and those of selectors that match its labels.

use crate::arrivals::Arrivals;
use crate::connection::ConnectionState;
use crate::storage::Storage;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kinescope_campaign::QueueError;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Time for the broker's answer that a queue is empty.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Time for an answer after a wait has ended on the broker.
const ANSWER_DELAY: Duration = Duration::from_secs(2);
/// Time without an answer after which a request is sent a second time. It doubles with each further one.
const FIRST_PATIENCE: Duration = Duration::from_millis(50);
/// Shortest pause between two requests during a wait.
const MIN_PAUSE: Duration = Duration::from_millis(500);
/// Part of the time since the broker was connected that such a pause has.
const PAUSE_PART: u32 = 4;

/// Number of requests that one queue answers before the others are asked first: the runs of none wait for another to be
/// empty.
const MAX_IN_A_ROW: u32 = 16;

/// The queues of a target.
#[derive(Default)]
pub struct TargetQueues {
    consumers: BTreeMap<String, PullConsumer>,
    /// The queue that had the last run.
    last: Option<String>,
    /// Number of requests that it answered without a change to another one.
    in_a_row: u32,
}

/// Returns the order in which queues are asked: the last one first, or last if it had its share.
fn order<'n>(names: &'n [String], last: Option<&str>, in_a_row: u32) -> Vec<&'n String> {
    let mut order: Vec<&String> = names.iter().collect();
    let had_its_share = in_a_row >= MAX_IN_A_ROW;
    // The sort is stable.
    order.sort_by_key(|name| (Some(name.as_str()) == last) == had_its_share);
    order
}

/// Requests messages that are there now, at most `count`, and adds them to `arrivals` as they come. Returns their number.
async fn request_present(
    storage: Storage,
    consumer: PullConsumer,
    count: usize,
    arrivals: Arc<Arrivals>,
) -> Result<usize, QueueError> {
    let mut received = 0;
    let request = async {
        let request = consumer.fetch().max_messages(count).messages();
        let mut batch = request.await.map_err(|e| storage.error(e))?;
        while let Some(message) = batch.next().await {
            arrivals.add(message.map_err(|e| storage.error(e))?);
            received += 1;
        }
        Ok(())
    };
    let ended = tokio::time::timeout(ANSWER_LIMIT, request).await;
    match ended.unwrap_or_else(|_| Err(storage.error("the broker does not answer"))) {
        // Messages that are here are leased to this worker.
        Err(e) if received == 0 => Err(e),
        _ => Ok(received),
    }
}

/// Waits until a request for messages of a queue has brought one, and returns whether one did. A broker that was killed has
/// messages to deliver that are gone: nats-server 2.9 then leaves a request without an answer until the next one comes.
async fn request_until_answered(
    storage: &Storage,
    consumer: &PullConsumer,
    count: usize,
    arrivals: &Arc<Arrivals>,
) -> Result<bool, QueueError> {
    let (begun, mut patience) = (Instant::now(), FIRST_PATIENCE);
    // Tasks go on after this: the broker may still answer, and their messages come to the same target.
    let mut requests = FuturesUnordered::new();
    loop {
        requests.push(tokio::spawn(request_present(
            storage.clone(),
            consumer.clone(),
            count,
            Arc::clone(arrivals),
        )));
        let ended = tokio::select! {
            () = arrivals.wait() => return Ok(true),
            ended = requests.next() => ended,
            () = tokio::time::sleep(patience) => None,
        };
        match ended {
            Some(Ok(Ok(received))) => return Ok(received > 0 || !arrivals.is_empty()),
            Some(Ok(Err(e))) => return Err(e),
            Some(Err(e)) => return Err(storage.error(e)),
            None if begun.elapsed() >= ANSWER_LIMIT => return Err(storage.error("the broker does not answer")),
            None => patience = patience.saturating_mul(2),
        }
    }
}

/// Requests one message, and waits for it at most for `limit`.
async fn request_next(
    storage: &Storage,
    consumer: &PullConsumer,
    limit: Duration,
) -> Result<Option<Message>, QueueError> {
    let wait = async {
        let request = consumer.batch().max_messages(1).expires(limit).messages();
        let mut batch = request.await.map_err(|e| storage.error(e))?;
        batch.next().await.transpose().map_err(|e| storage.error(e))
    };
    match tokio::time::timeout(limit.saturating_add(ANSWER_DELAY), wait).await {
        Ok(message) => message,
        Err(_) => Err(storage.error("the broker does not answer")),
    }
}

/// Waits for one message of a queue, at most for `limit`, and adds it to `arrivals`. If another queue of the target had one
/// before, which `is_over` says, it goes back for others. Returns whether it was added.
async fn wait_for_one(
    storage: Storage,
    consumer: PullConsumer,
    limit: Duration,
    arrivals: Arc<Arrivals>,
    is_over: Arc<AtomicBool>,
) -> Result<bool, QueueError> {
    let Some(message) = request_next(&storage, &consumer, limit).await? else {
        return Ok(false);
    };
    if is_over.swap(true, Ordering::AcqRel) {
        if let Some(message) = arrivals.hold(message) {
            message.give_back(None).await;
        }
        return Ok(false);
    }
    arrivals.add(message);
    Ok(true)
}

impl TargetQueues {
    /// Forgets the queues, which are opened again when they are needed.
    pub fn close(&mut self) {
        self.consumers.clear();
    }

    async fn open(&mut self, storage: &Storage, name: &str, lease: Duration) -> Result<PullConsumer, QueueError> {
        if let Some(known) = self.consumers.get(name) {
            return Ok(known.clone());
        }
        let consumer = storage.open_target(name, lease).await?;
        self.consumers.insert(name.to_owned(), consumer.clone());
        Ok(consumer)
    }

    /// Adds runs, at most `count`, of the first of these queues that has some to `arrivals`. Returns `false` if none has.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn take(
        &mut self,
        storage: &Storage,
        names: &[String],
        count: usize,
        arrivals: &Arc<Arrivals>,
    ) -> Result<bool, QueueError> {
        for name in order(names, self.last.as_deref(), self.in_a_row) {
            let consumer = self.open(storage, name, arrivals.lease()).await?;
            if request_until_answered(storage, &consumer, count, arrivals).await? {
                self.note_answer(name);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Notes the queue that had a run.
    fn note_answer(&mut self, name: &str) {
        if self.last.as_deref() == Some(name) && self.in_a_row < MAX_IN_A_ROW {
            self.in_a_row += 1;
        } else {
            self.last = Some(name.to_owned());
            self.in_a_row = 1;
        }
    }

    /// Waits until one of these queues has a message, at most for `limit`, and adds it to `arrivals`. Returns whether there
    /// is one. A wait that is dropped takes a message all the same.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn wait(
        &mut self,
        storage: &Storage,
        names: &[String],
        limit: Duration,
        arrivals: &Arc<Arrivals>,
        connection: &ConnectionState,
    ) -> Result<bool, QueueError> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut waits, mut consumers) = (FuturesUnordered::new(), Vec::new());
        for name in names {
            let consumer = self.open(storage, name, arrivals.lease()).await?;
            consumers.push(consumer.clone());
            let wait = wait_for_one(
                storage.clone(),
                consumer,
                limit,
                Arc::clone(arrivals),
                Arc::clone(&is_over),
            );
            let task = tokio::spawn(wait);
            waits.push(async move { (name, task.await) });
        }
        loop {
            let pause = (connection.age() / PAUSE_PART).max(MIN_PAUSE);
            tokio::select! {
                waited = waits.next() => {
                    let Some((name, waited)) = waited else { return Ok(false) };
                    if waited.map_err(|e| storage.error(e))?? {
                        self.note_answer(name);
                        return Ok(true);
                    }
                }
                () = arrivals.wait() => {
                    is_over.store(true, Ordering::Release);
                    return Ok(true);
                }
                // Another request makes a broker that was killed go on: see `request_until_answered`. The wait keeps its
                // place before those of other workers.
                () = tokio::time::sleep(pause), if pause < limit => {
                    for consumer in &consumers {
                        let arrivals = Arc::clone(arrivals);
                        drop(tokio::spawn(request_present(storage.clone(), consumer.clone(), 1, arrivals)));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of a label began when the target's own queue was empty, which it never is on a busy farm.
    #[test]
    fn each_queue_is_asked_first_after_some_answers() {
        let names = ["own", "label"].map(str::to_owned);
        let mut queues = TargetQueues::default();
        let mut asked = Vec::new();
        // Each queue has runs all the time.
        for _ in 0..50 {
            let first = order(&names, queues.last.as_deref(), queues.in_a_row)[0].clone();
            queues.note_answer(&first);
            asked.push(first);
        }
        let own = asked.iter().filter(|name| *name == "own").count();
        assert_eq!((own, 50 - own), (32, 18));
        // The other one is empty: the last one goes on, and the other one is asked now and then.
        let mut queues = TargetQueues::default();
        let firsts = (0..34).map(|_| {
            let first = order(&names, queues.last.as_deref(), queues.in_a_row)[0].clone();
            queues.note_answer("own");
            first
        });
        assert_eq!(firsts.filter(|name| name == "label").count(), 2);
    }
}
