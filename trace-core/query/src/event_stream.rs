//! Batches of events that are built while a consumer takes them: the memory does not grow with the recording.

use crate::batches::{EventSelection, threads_for};
use crate::error::TableError;
use crate::event_batches::EventBatches;
use crate::event_columns::EventColumns;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use trace_core::Recording;

/// Number of batches that each thread builds before the consumer takes them.
const BATCHES_AHEAD: usize = 2;

/// The rows of [`crate::Table::Events`] in batches of at most 65,536, in order. Threads build the next batches while the
/// consumer works on one. They start with the first batch, and end when the stream is dropped.
#[derive(Debug)]
pub struct EventStream {
    source: Arc<Source>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Number of batches in all.
    parts: usize,
}

/// What the batches are built from.
#[derive(Debug)]
struct Source {
    recording: Recording,
    selection: EventSelection,
    columns: EventColumns,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Number of batches that are built or waiting at most.
    ahead: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Number of the next batch to build.
    next: usize,
    /// Number of the next batch that the consumer takes.
    taken: usize,
    built: BTreeMap<usize, Result<RecordBatch, TableError>>,
    is_stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a batch to build, or `None` if there is no more work. Waits while enough batches are built.
    fn claim(&self, parts: usize) -> Option<usize> {
        let mut state = self.lock();
        while !state.is_stopped && state.next < parts && state.next >= state.taken.saturating_add(self.ahead) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped || state.next >= parts {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    fn add(&self, part: usize, built: Result<RecordBatch, TableError>) {
        self.lock().built.insert(part, built);
        self.changed.notify_all();
    }

    fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        state.built.clear();
        self.changed.notify_all();
    }
}

impl EventStream {
    /// Creates a stream. The recording is a clone, which shares the data.
    #[must_use]
    pub fn new(recording: Recording, selection: EventSelection, columns: EventColumns) -> Self {
        let parts = selection.parts(&recording);
        Self {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                changed: Condvar::new(),
                ahead: threads_for(parts) * BATCHES_AHEAD,
            }),
            source: Arc::new(Source {
                recording,
                selection,
                columns,
            }),
            threads: Vec::new(),
            parts,
        }
    }

    fn start(&mut self) -> Result<(), TableError> {
        for _ in 0..threads_for(self.parts) {
            let (shared, source, parts) = (Arc::clone(&self.shared), Arc::clone(&self.source), self.parts);
            let thread = thread::Builder::new().name("event batches".to_owned());
            self.threads
                .push(thread.spawn(move || build_batches(&shared, parts, &source))?);
        }
        Ok(())
    }

    /// Returns the next batch, or `None` at the end and after an error. The first batch has no rows if there are no events.
    ///
    /// # Errors
    /// [`TableError::Damaged`] if the recording is damaged where events were read, [`TableError::Write`] if the system
    /// starts no thread, and [`TableError::Arrow`] or [`TableError::Panic`] if the batch cannot be built.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, TableError> {
        if self.threads.is_empty()
            && let Err(e) = self.start()
        {
            self.shared.stop();
            return Err(e);
        }
        let mut state = self.shared.lock();
        loop {
            let at = state.taken;
            if state.is_stopped || at >= self.parts {
                return Ok(None);
            }
            if let Some(built) = state.built.remove(&at) {
                state.taken += 1;
                drop(state);
                match &built {
                    Ok(_) => self.shared.changed.notify_all(),
                    Err(_) => self.shared.stop(),
                }
                return built.map(Some);
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Builds batches until all are built, or the stream is stopped.
fn build_batches(shared: &Shared, parts: usize, source: &Source) {
    let Source {
        recording,
        selection,
        columns,
    } = source;
    let mut builder = EventBatches::new(recording, columns);
    while let Some(part) = shared.claim(parts) {
        let work = || {
            let batch = builder.build(&selection.rows_of_part(part, recording))?;
            // A damaged block would leave zeros in the batch.
            match recording
                .damage
                .has_damage()
                .then(|| recording.damage.first())
                .flatten()
            {
                Some(block) => Err(TableError::Damaged { block }),
                None => Ok(batch),
            }
        };
        // The consumer would wait for the batch of a thread that ended.
        let built = catch_unwind(AssertUnwindSafe(work));
        shared.add(part, built.unwrap_or_else(|panic| Err(TableError::from_panic(&*panic))));
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A panic of the thread was reported as the error of its batch.
            let _ = thread.join();
        }
    }
}

impl Iterator for EventStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch().transpose()?;
        Some(batch.map_err(|e| ArrowError::ExternalError(Box::new(e))))
    }
}

impl RecordBatchReader for EventStream {
    fn schema(&self) -> SchemaRef {
        self.source.columns.schema(&self.source.recording)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BATCH;
    use crate::batches::collect_events;
    use crate::event_columns::EventColumn;
    use std::time::{Duration, Instant};
    use trace_core::RegOffset;
    use trace_core::filter::Selection;
    use trace_core::progress::Progress;
    use trace_core::recording::{Access, EventsBuilder};

    fn recording(rows: u32) -> Recording {
        let mut b = EventsBuilder::new();
        for i in 0..rows {
            if i % 1000 == 999 {
                b.mark(u64::from(i) * 7, format!("mark {i}"));
                continue;
            }
            let access = Access {
                space: 0,
                write: i % 3 == 0,
                offset: RegOffset::new(i % 64 * 4),
                width: 4,
                value: u64::from(i.wrapping_mul(2_654_435_761)),
            };
            b.access(u64::from(i) * 7, i % 5, access);
        }
        let mut recording = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        recording.metadata.identity.gpu_id = 0x6000_0000;
        recording
    }

    fn collect(recording: &Recording, selection: &EventSelection, columns: &EventColumns) -> Vec<RecordBatch> {
        let collected = collect_events(recording, selection, columns, &Progress::new());
        collected.unwrap().batches
    }

    #[test]
    fn stream_has_the_batches_of_the_table() {
        for rows in [0, 1, 70_000, 300_000] {
            let recording = recording(rows);
            let few = Selection::from_iter((0..u64::from(rows)).filter(|e| e % 7 == 0 || *e > 200_000));
            for selection in [EventSelection::All, EventSelection::Selected(few)] {
                let columns = EventColumns::default();
                let expected = collect(&recording, &selection, &columns);
                let stream = EventStream::new(recording.clone(), selection, columns);
                assert_eq!(stream.schema(), expected[0].schema());
                let streamed: Result<Vec<RecordBatch>, ArrowError> = stream.collect();
                assert_eq!(streamed.unwrap(), expected, "{rows}");
            }
        }
    }

    #[test]
    fn columns_are_those_of_the_whole_table() {
        let recording = recording(70_000);
        let whole = collect(&recording, &EventSelection::All, &EventColumns::default());
        let names = |columns: &[EventColumn]| columns.iter().map(|c| c.name(&recording)).collect::<Vec<_>>();
        let mut lists: Vec<Vec<&str>> = EventColumn::ALL.iter().map(|c| names(&[*c])).collect();
        lists.push(vec!["means", "event", "register"]);
        lists.push(vec!["value", "thread", "kind"]);
        for list in lists {
            let columns = EventColumns::from_names(&list, &recording).unwrap();
            let some = collect(&recording, &EventSelection::All, &columns);
            for (some, whole) in some.iter().zip(&whole) {
                assert_eq!(some.num_columns(), list.len());
                for name in &list {
                    assert_eq!(some.column_by_name(name).unwrap(), whole.column_by_name(name).unwrap());
                }
            }
        }
        for (wrong, expected) in [
            (vec!["kind", "address"], "'address' is not a column"),
            (vec!["kind", "kind"], "named twice"),
            (vec![], "no column"),
        ] {
            let error = EventColumns::from_names(&wrong, &recording).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn threads_wait_for_a_slow_consumer_and_end_with_the_stream() {
        let parts = 40;
        let rows = BATCH * parts;
        let columns = EventColumns::from_names(&["event"], &Recording::default()).unwrap();
        let mut stream = EventStream::new(recording(rows as u32), EventSelection::All, columns);
        assert_eq!(stream.next_batch().unwrap().unwrap().num_rows(), BATCH);
        let shared = Arc::clone(&stream.shared);
        let started = Instant::now();
        while shared.lock().built.len() < shared.ahead {
            assert!(started.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(100));
        let state = shared.lock();
        assert_eq!((state.built.len(), state.next), (shared.ahead, 1 + shared.ahead));
        drop(state);
        let source = Arc::downgrade(&stream.source);
        drop(stream);
        // The threads have the source as long as they run.
        assert_eq!(source.strong_count(), 0);
    }

    #[test]
    fn damaged_block_is_an_error_and_the_end() {
        let mut bytes = trace_core::container::to_bytes(&recording(300_000)).unwrap();
        let half = bytes.len() / 2;
        bytes[half] ^= 0x55;
        // A file is checked where it is used.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("damaged.kine");
        std::fs::write(&file, bytes).unwrap();
        let damaged = trace_core::container::open(&file).unwrap();
        let mut stream = EventStream::new(damaged, EventSelection::All, EventColumns::default());
        let error = loop {
            match stream.next_batch() {
                Ok(batch) => assert!(batch.is_some(), "the damage was not seen"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, TableError::Damaged { .. }), "{error}");
        assert!(stream.next_batch().unwrap().is_none());
    }
}
