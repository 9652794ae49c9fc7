//! Joins the recordings of one run at two levels: the calls of a program, and the requests below them.
//!
//! The result is an API trace that also holds the events of the driver trace. Both recorders state when their times
//! start on the machine's monotonic clock.

use crate::recording::{
    CallEvent, CallRow, EventKind, EventsBuilder, MemoryBuilder, NO_CONTENT, PageId, Recording, TraceKind,
};
use thiserror::Error;

/// Why two recordings cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JoinError {
    /// One of the recordings is of another kind.
    #[error("the recordings are not an API trace and a driver trace")]
    WrongKind,
    /// The API trace has requests already.
    #[error("the API trace already holds requests to the kernel driver")]
    AlreadyJoined,
    /// A recording does not state when its times start.
    #[error("the {recording} does not state when its times start, so that its events have no place among the others")]
    UnknownClock {
        /// The recording: `API trace` or `driver trace`.
        recording: &'static str,
    },
    /// The recordings are of two processes.
    #[error("the recordings are of two processes: {api} and {driver}")]
    DifferentProcesses {
        /// Process of the API trace.
        api: u32,
        /// Process of the driver trace.
        driver: u32,
    },
    /// A recording holds events or pages that cannot be moved.
    #[error("the {recording} has {content}, which cannot be joined")]
    Unsupported {
        /// The recording: `API trace` or `driver trace`.
        recording: &'static str,
        /// What it has.
        content: &'static str,
    },
    /// The joined recording would be larger than a recording can be.
    #[error("the joined recording would have too many events or pages")]
    TooLarge,
}

/// Joins an API trace and the driver trace of the same process. The order of each recording stays; a call is where it
/// returned, so that the submissions of a launch come before it. Times are those of the API trace; a driver event before
/// its start has time 0.
///
/// # Errors
/// If the recordings do not fit each other, or do not state when their times start. Takes time proportional to the
/// number of events and pages.
pub fn join_driver_trace(api: &Recording, driver: &Recording) -> Result<Recording, JoinError> {
    let (TraceKind::Api(calls), TraceKind::Driver(requests)) = (&api.metadata.kind, &driver.metadata.kind) else {
        return Err(JoinError::WrongKind);
    };
    if calls.driver.is_some() {
        return Err(JoinError::AlreadyJoined);
    }
    if let Some(process) = requests
        .process
        .filter(|p| *p != calls.process.number && calls.process.number != 0)
    {
        return Err(JoinError::DifferentProcesses {
            api: calls.process.number,
            driver: process,
        });
    }
    let unknown = |recording| JoinError::UnknownClock { recording };
    let api_start = calls.clock_start.ok_or(unknown("API trace"))?;
    let driver_start = requests.clock_start.ok_or(unknown("driver trace"))?;
    let mut merge = Merge::new(api, driver, calls.names.len())?;
    merge.add_events(api_start, driver_start)?;
    let mut joined_calls = calls.clone();
    joined_calls.names.extend(requests.names.iter().cloned());
    joined_calls.driver = Some(Box::new(requests.clone()));
    let mut metadata = api.metadata.clone();
    metadata.kind = TraceKind::Api(joined_calls);
    for lost in &mut metadata.lost {
        lost.before_event = merge.new_index(&merge.api_events, lost.before_event);
    }
    for lost in &driver.metadata.lost {
        let mut lost = lost.clone();
        lost.before_event = merge.new_index(&merge.driver_events, lost.before_event);
        metadata.lost.push(lost);
    }
    metadata.findings.extend(driver.metadata.findings.iter().cloned());
    metadata.spaces = driver.metadata.spaces.clone();
    Ok(Recording {
        metadata,
        events: merge.events.finish(),
        memory: merge.memory.finish(),
        ..Recording::default()
    })
}

/// The events of two recordings in one table.
struct Merge<'a> {
    api: &'a Recording,
    driver: &'a Recording,
    events: EventsBuilder,
    memory: MemoryBuilder,
    /// Position of the driver trace's bytes among all bytes of calls.
    driver_bytes_at: u64,
    /// Position of the driver trace's list of pages among all lists.
    driver_lists_at: u64,
    /// Index of the first name of a request among all names of calls.
    first_name: u32,
    /// New index of each event of the API trace.
    api_events: Vec<u64>,
    /// New index of each event of the driver trace.
    driver_events: Vec<u64>,
}

impl<'a> Merge<'a> {
    /// Copies what events refer to. That of the API trace keeps its numbers, because code and other rows have them too.
    fn new(api: &'a Recording, driver: &'a Recording, names: usize) -> Result<Self, JoinError> {
        let unsupported = |recording, content| JoinError::Unsupported { recording, content };
        for (recording, name) in [(api, "API trace"), (driver, "driver trace")] {
            if !recording.memory.snapshots.is_empty() {
                return Err(unsupported(name, "snapshots of page tables"));
            }
        }
        if !api.metadata.spaces.is_empty() {
            return Err(unsupported("API trace", "accesses to registers"));
        }
        let mut memory = MemoryBuilder::new();
        for id in page_ids(api)? {
            let page = api.memory.pages.page(id);
            let page = page.ok_or(unsupported("API trace", "damaged pages"))?;
            if memory.add_page(page) != id {
                return Err(unsupported("API trace", "pages that are stored twice"));
            }
        }
        let mut driver_pages = vec![PageId::ZERO];
        for id in page_ids(driver)? {
            let page = driver.memory.pages.page(id);
            driver_pages.push(memory.add_page(page.ok_or(unsupported("driver trace", "damaged pages"))?));
        }
        let mut events = EventsBuilder::new();
        let bytes = |recording: &Recording| -> Vec<u8> {
            let column = &recording.events.call_bytes;
            column.iter_range(0..column.len()).collect()
        };
        let lists = |recording: &Recording| -> Vec<u32> {
            let column = &recording.events.call_pages;
            column.iter_range(0..column.len()).collect()
        };
        events.call_bytes(&bytes(api));
        events.call_pages(&lists(api));
        let driver_bytes_at = events.call_bytes(&bytes(driver));
        let renumber = |id: u32| driver_pages.get(id as usize).map(|new| new.0);
        let driver_lists = lists(driver).into_iter().map(renumber).collect::<Option<Vec<u32>>>();
        let driver_lists = driver_lists.ok_or(unsupported("driver trace", "damaged pages"))?;
        let driver_lists_at = events.call_pages(&driver_lists);
        Ok(Self {
            api,
            driver,
            events,
            memory,
            driver_bytes_at,
            driver_lists_at,
            first_name: u32::try_from(names).map_err(|_| JoinError::TooLarge)?,
            api_events: Vec::with_capacity(api.events.len()),
            driver_events: Vec::with_capacity(driver.events.len()),
        })
    }

    /// Returns the new index of an event, or the number of events for one past the end.
    fn new_index(&self, of: &[u64], event: u64) -> u64 {
        let known = usize::try_from(event).ok().and_then(|e| of.get(e));
        known.copied().unwrap_or(self.events.len() as u64)
    }

    /// Adds all events, by the time at which each is in the order of its recording.
    fn add_events(&mut self, api_start: u64, driver_start: u64) -> Result<(), JoinError> {
        let (api, driver) = (self.api, self.driver);
        let total = api.events.len().saturating_add(driver.events.len());
        if u32::try_from(total).is_err() {
            return Err(JoinError::TooLarge);
        }
        let mut next = 0;
        for event in 0..driver.events.len() {
            let time = driver.events.time.get(event).unwrap_or(0);
            let at = driver_start.saturating_add(time);
            while next < api.events.len() && api_start.saturating_add(return_time(api, next)) < at {
                self.add_api_event(next)?;
                next += 1;
            }
            self.driver_events.push(self.events.len() as u64);
            self.add_driver_event(event, at.saturating_sub(api_start))?;
        }
        for event in next..api.events.len() {
            self.add_api_event(event)?;
        }
        Ok(())
    }

    fn add_api_event(&mut self, event: usize) -> Result<(), JoinError> {
        let events = &self.api.events;
        let time = events.time.get(event).unwrap_or(0);
        let thread = events.thread.get(event).unwrap_or(0);
        self.api_events.push(self.events.len() as u64);
        if let Some(call) = events.call(event) {
            self.events.push_call(time, thread, call);
            return Ok(());
        }
        match mark_of(self.api, event) {
            Some(text) => self.events.mark(time, text),
            None => {
                return Err(JoinError::Unsupported {
                    recording: "API trace",
                    content: "events other than calls and marks",
                });
            }
        }
        Ok(())
    }

    fn add_driver_event(&mut self, event: usize, time: u64) -> Result<(), JoinError> {
        let events = &self.driver.events;
        let thread = events.thread.get(event).unwrap_or(0);
        let move_list = |at: u64, by: u64| if at == NO_CONTENT { at } else { at.saturating_add(by) };
        let unsupported = JoinError::Unsupported {
            recording: "driver trace",
            content: "events of other kinds than a recorder of requests makes",
        };
        match events.kind(event) {
            Some(EventKind::Call) => {
                let Some(CallEvent::Call(row)) = events.call(event) else {
                    return Err(unsupported);
                };
                let row = CallRow {
                    arguments_at: row.arguments_at.saturating_add(self.driver_bytes_at),
                    name: row.name.saturating_add(self.first_name),
                    flags: row.flags | CallRow::REQUEST,
                    ..row
                };
                self.events.call(time, thread, row);
            }
            Some(EventKind::Object) => {
                let row = events.object(event).ok_or(unsupported)?;
                self.events.object(time, thread, row);
            }
            Some(EventKind::RingEntry) => {
                let mut row = events.ring_entry(event).ok_or(unsupported)?;
                row.pages_at = move_list(row.pages_at, self.driver_lists_at);
                self.events.ring_entry(time, thread, row);
            }
            Some(EventKind::SavedMemory) => {
                let mut row = events.saved_memory(event).ok_or(unsupported)?;
                row.pages_at = move_list(row.pages_at, self.driver_lists_at);
                self.events.saved_memory(time, thread, row);
            }
            Some(EventKind::Read | EventKind::Write) => {
                let access = events.access(event).ok_or(unsupported)?;
                self.events.access(time, thread, access);
            }
            Some(EventKind::Undecoded) => {
                let row = events.undecoded(event).ok_or(unsupported)?;
                let space = events.space.get(event).unwrap_or(0);
                self.events.undecoded(time, thread, space, row);
            }
            Some(EventKind::Mark) => {
                let text = mark_of(self.driver, event).unwrap_or_default();
                self.events.mark(time, text);
            }
            _ => return Err(unsupported),
        }
        Ok(())
    }
}

/// Returns the ids of all stored pages, the page of zeros not counted.
fn page_ids(recording: &Recording) -> Result<impl Iterator<Item = PageId>, JoinError> {
    let count = u32::try_from(recording.memory.pages.len()).map_err(|_| JoinError::TooLarge)?;
    Ok((1..=count).map(PageId))
}

fn mark_of(recording: &Recording, event: usize) -> Option<&str> {
    if recording.events.kind(event) != Some(EventKind::Mark) {
        return None;
    }
    let row = recording.events.payload.get(event)?;
    recording.events.marks.get(row as usize).map(String::as_str)
}

/// Returns when a call returned, on the clock of its recording. Other events have no duration.
fn return_time(recording: &Recording, event: usize) -> u64 {
    let time = recording.events.time.get(event).unwrap_or(0);
    let took = recording.events.call(event).map_or(0, |call| call.host_ns());
    time.saturating_add(u64::from(took))
}

#[cfg(test)]
mod tests;
