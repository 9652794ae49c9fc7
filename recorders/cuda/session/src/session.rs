//! The recording of one process: a queue that calls are put into, and a thread that writes it.

use crate::entry::{Entry, With};
use crate::error::SessionError;
use crate::file::File;
use crate::tables::Tables;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trace_core::recording::{CallEvent, CallModule};

/// Bytes that may wait for the thread that writes; then whoever calls waits.
const MOST_WAITING: u64 = 512 << 20;
/// Calls that may wait behind one whose content is awaited; then it is not held.
const MOST_BEHIND: usize = 1 << 20;
/// Least time between two commits.
const COMMIT_EVERY: Duration = Duration::from_millis(500);
/// A commit takes at most one part of this many of the time.
const SHARE: u32 = 20;
/// How long the thread that writes waits for more.
const TICK: Duration = Duration::from_millis(50);

/// Content that is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(u64);

/// How a recording is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file; there must be none of its name.
    pub to: PathBuf,
    /// Bytes, about, at which the recording ends while the program goes on; `None`: nowhere.
    pub limit: Option<u64>,
}

/// When a call began.
#[derive(Clone, Copy, Debug)]
pub struct Begun(Instant);

impl Begun {
    /// Nanoseconds since, `u32::MAX` for more.
    #[must_use]
    pub fn took(self) -> u32 {
        u32::try_from(self.0.elapsed().as_nanos()).unwrap_or(u32::MAX)
    }
}

#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// Content that was supplied for entries in the queue; `None`: there will be none.
    supplied: HashMap<Slot, Option<Vec<u8>>>,
    /// Bytes that wait.
    waiting: u64,
    slots: u64,
    /// Code that is to be stored, for modules by number.
    code: Vec<(u32, Vec<u8>)>,
    ending: bool,
}

/// What the thread that writes takes from the queue.
struct Ready {
    entries: Vec<Entry>,
    code: Vec<(u32, Vec<u8>)>,
    ending: bool,
}

#[derive(Debug)]
struct Shared {
    begun: Instant,
    queue: Mutex<Queue>,
    tables: Mutex<Tables>,
    /// There is more to write.
    more: Condvar,
    /// There is room again.
    room: Condvar,
    /// The recording goes on.
    going: AtomicBool,
    /// Why it ended before the program.
    why: Mutex<Option<String>>,
}

/// The recording of one process.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Begins a recording: makes the file and the thread that writes it.
    ///
    /// # Errors
    /// When there is a file of the name already, or one of them cannot be made.
    pub fn begin(settings: &Settings) -> Result<Self, SessionError> {
        let file = File::begin(&settings.to)?;
        let shared = Arc::new(Shared {
            begun: Instant::now(),
            queue: Mutex::default(),
            tables: Mutex::default(),
            more: Condvar::new(),
            room: Condvar::new(),
            going: AtomicBool::new(true),
            why: Mutex::new(None),
        });
        let (own, limit) = (Arc::clone(&shared), settings.limit);
        let writer = std::thread::Builder::new()
            .name("kinescope-write".to_owned())
            .spawn(move || own.write(file, limit))
            .map_err(|source| SessionError::Thread { source })?;
        Ok(Self {
            shared,
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Whether calls are still recorded.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.shared.going.load(Ordering::Relaxed)
    }

    /// Why the recording ended before the program, if it did.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        lock(&self.shared.why).clone()
    }

    /// A call begins.
    #[must_use]
    pub fn begun(&self) -> Begun {
        Begun(Instant::now())
    }

    /// The lists that rows point into.
    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.shared.tables)
    }

    /// Takes up a call that has returned, of this thread.
    pub fn record(&self, begun: Begun, thread: u32, call: CallEvent, with: With) {
        if !self.is_going() {
            return;
        }
        let entry = Entry {
            time: u64::try_from(begun.0.saturating_duration_since(self.shared.begun).as_nanos()).unwrap_or(u64::MAX),
            thread,
            call,
            with,
        };
        let mut q = lock(&self.shared.queue);
        while q.waiting > MOST_WAITING && self.is_going() {
            q = self.shared.room.wait(q).unwrap_or_else(PoisonError::into_inner);
        }
        let was = q.waiting;
        q.waiting = q.waiting.saturating_add(entry.weight());
        q.entries.push_back(entry);
        // The thread that writes looks by itself every now and then: it is woken for much alone.
        if was < MOST_WAITING / 16 && q.waiting >= MOST_WAITING / 16 {
            self.shared.more.notify_one();
        }
    }

    /// A place for content that is known later. Supply it, or what comes behind the call waits long for the file.
    #[must_use]
    pub fn slot(&self) -> Slot {
        let mut q = lock(&self.shared.queue);
        q.slots += 1;
        Slot(q.slots)
    }

    /// Supplies what was awaited; `None`: it will not be known.
    pub fn supply(&self, slot: Slot, content: Option<Vec<u8>>) {
        let mut q = lock(&self.shared.queue);
        q.waiting = q.waiting.saturating_add(content.as_ref().map_or(0, Vec::len) as u64);
        q.supplied.insert(slot, content);
    }

    /// Stores the code of a module that the tables list.
    pub fn store_code(&self, module: u32, code: Vec<u8>) {
        if !self.is_going() {
            return;
        }
        let mut q = lock(&self.shared.queue);
        q.waiting = q.waiting.saturating_add(code.len() as u64);
        q.code.push((module, code));
    }

    /// Ends the recording while the program goes on, and says why in the file.
    pub fn stop(&self, why: impl Into<String>) {
        if self.shared.going.swap(false, Ordering::Relaxed) {
            lock(&self.shared.why).get_or_insert(why.into());
            self.shared.more.notify_all();
            self.shared.room.notify_all();
        }
    }

    /// Writes what is left and ends. Called again it does nothing.
    pub fn end(&self) {
        let writer = lock(&self.writer).take();
        let Some(writer) = writer else { return };
        lock(&self.shared.queue).ending = true;
        self.shared.more.notify_all();
        // It ends by itself; where it came to an end by a fault, the file has what was committed before.
        let _ = writer.join();
        self.shared.going.store(false, Ordering::Relaxed);
    }
}

impl Shared {
    fn write(&self, mut file: File, limit: Option<u64>) {
        let mut due = Instant::now();
        loop {
            let Ready { entries, code, ending } = self.next();
            let stopped = !self.going.load(Ordering::Relaxed);
            let done = self.store(&mut file, entries, code);
            let done = done.and_then(|()| {
                let now = Instant::now();
                let last = ending || stopped;
                let why = lock(&self.why).clone();
                let tables = lock(&self.tables);
                if last || (now >= due && file.has_more(&tables)) {
                    file.commit(&tables, why.as_deref().filter(|_| last))?;
                    due = now + (now.elapsed() * SHARE).max(COMMIT_EVERY);
                }
                Ok(())
            });
            if let Err(e) = done {
                lock(&self.why).get_or_insert(e.to_string());
                self.going.store(false, Ordering::Relaxed);
                self.room.notify_all();
                return;
            }
            if ending || stopped {
                return;
            }
            if limit.is_some_and(|most| file.bytes() > most) {
                let most = limit.unwrap_or(0);
                lock(&self.why).get_or_insert(format!("it reached its limit of {most} bytes"));
                self.going.store(false, Ordering::Relaxed);
                self.room.notify_all();
            }
        }
    }

    /// What can be stored now: all before the first call whose content is awaited.
    fn next(&self) -> Ready {
        let mut q = lock(&self.queue);
        if q.waiting < MOST_WAITING / 16 && !q.ending {
            q = match self.more.wait_timeout(q, TICK) {
                Ok((q, _)) => q,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        let last = q.ending || !self.going.load(Ordering::Relaxed);
        let q = &mut *q;
        let mut ready = Vec::new();
        while let Some(mut entry) = q.entries.pop_front() {
            if let With::Awaited(slot) = entry.with {
                match q.supplied.remove(&slot) {
                    Some(content) => entry.with = content.map_or(With::Nothing, With::Content),
                    None if last || q.entries.len() > MOST_BEHIND => entry.with = With::Nothing,
                    None => {
                        q.entries.push_front(entry);
                        break;
                    }
                }
            }
            q.waiting = q.waiting.saturating_sub(entry.weight());
            ready.push(entry);
        }
        let code = std::mem::take(&mut q.code);
        let bytes: usize = code.iter().map(|(_, c)| c.len()).sum();
        q.waiting = q.waiting.saturating_sub(bytes as u64);
        self.room.notify_all();
        Ready {
            entries: ready,
            code,
            ending: q.ending,
        }
    }

    fn store(&self, file: &mut File, entries: Vec<Entry>, code: Vec<(u32, Vec<u8>)>) -> Result<(), SessionError> {
        for (module, bytes) in code {
            let pages = file.code(&bytes)?;
            let digest = blake3::hash(&bytes).to_hex().to_string();
            let mut tables = lock(&self.tables);
            if let Some(m) = tables.facts.modules.get_mut(module as usize) {
                *m = CallModule {
                    bytes: bytes.len() as u64,
                    digest,
                    pages,
                    ..std::mem::take(m)
                };
                tables.touch();
            }
        }
        entries.into_iter().try_for_each(|e| file.take(e))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::progress::Progress;
    use trace_core::recording::{CodeKind, CopyKind, CopyRow, LaunchRow, Recording};

    fn open(path: &std::path::Path) -> Recording {
        let report = trace_core::container::verify(path).unwrap();
        assert_eq!(report.problems, vec![]);
        trace_core::import::open(path, &Progress::new()).unwrap()
    }

    fn copy(kind: CopyKind, bytes: u64) -> CallEvent {
        CallEvent::Copy(CopyRow {
            to: 0x1000,
            from: 0x2000,
            bytes,
            rows: 1,
            kind: kind as u32,
            ..Default::default()
        })
    }

    fn settings(folder: &tempfile::TempDir) -> Settings {
        Settings {
            to: folder.path().join("r.kine"),
            limit: None,
        }
    }

    #[test]
    fn what_is_handed_over_stands_in_the_file_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let s = Session::begin(&settings(&folder)).unwrap();
        let b = s.begun();
        let awaited = s.slot();
        s.record(b, 1, copy(CopyKind::HostToDevice, 9000), With::Content(vec![7; 9000]));
        s.record(b, 1, copy(CopyKind::DeviceToHost, 5), With::Awaited(awaited));
        s.record(
            b,
            2,
            CallEvent::Launch(LaunchRow::default()),
            With::Arguments(vec![1, 2, 3]),
        );
        let never = s.slot();
        s.record(b, 2, copy(CopyKind::DeviceToHost, 5), With::Awaited(never));
        s.record(b, 2, copy(CopyKind::HostToDevice, 5), With::Content(vec![1; 4]));
        {
            let mut t = s.tables();
            t.facts.api = "cuda".into();
            t.facts.modules.push(CallModule {
                kind: CodeKind::Ptx,
                origin: "memory".into(),
                ..Default::default()
            });
            t.touch();
        }
        s.store_code(0, b"\n.version 7.0".repeat(1000));
        s.supply(awaited, Some(vec![9; 5]));
        s.end();
        s.end();
        let r = open(&folder.path().join("r.kine"));
        assert!(r.events.kind.iter().eq([10, 10, 9, 10, 10]));
        let copied = |event| match r.events.call(event) {
            Some(CallEvent::Copy(c)) => r.copied(&c),
            other => panic!("{other:?}"),
        };
        assert_eq!(copied(0), Some(vec![7; 9000]));
        assert_eq!(copied(1), Some(vec![9; 5]));
        assert_eq!(
            (copied(3), copied(4)),
            (None, None),
            "never supplied, and of another length"
        );
        let Some(CallEvent::Launch(l)) = r.events.call(2) else {
            panic!()
        };
        assert_eq!(
            r.events.call_arguments(l.arguments_at, l.arguments),
            Some(vec![1, 2, 3])
        );
        assert!(r.events.thread.iter().eq([1, 1, 2, 2, 2]));
        let facts = r.call_facts().unwrap();
        assert_eq!(
            r.module_code(&facts.modules[0]).unwrap(),
            b"\n.version 7.0".repeat(1000)
        );
        assert_eq!(
            (facts.modules[0].kind, &*facts.modules[0].origin),
            (CodeKind::Ptx, "memory")
        );
    }

    #[test]
    fn many_threads_lose_nothing_and_the_file_is_whole_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let s = Session::begin(&settings(&folder)).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let s = &s;
                scope.spawn(move || {
                    for n in 0..5000u32 {
                        let row = LaunchRow {
                            function: n,
                            ..Default::default()
                        };
                        s.record(
                            s.begun(),
                            thread,
                            CallEvent::Launch(row),
                            With::Arguments(n.to_le_bytes().to_vec()),
                        );
                    }
                });
            }
        });
        let path = folder.path().join("r.kine");
        // A reader finds what was committed while the recording goes on.
        let deadline = Instant::now() + Duration::from_secs(20);
        while trace_core::container::open(&path).map_or(0, |r| r.events.len()) < 20_000 {
            assert!(Instant::now() < deadline, "nothing was committed");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(s);
        let r = open(&path);
        let mut next = [0u32; 4];
        for at in 0..r.events.len() {
            let Some(CallEvent::Launch(l)) = r.events.call(at) else {
                panic!()
            };
            let thread = r.events.thread.get(at).unwrap() as usize;
            assert_eq!(l.function, next[thread], "calls of a thread keep their order");
            next[thread] += 1;
            let arguments = r.events.call_arguments(l.arguments_at, l.arguments).unwrap();
            assert_eq!(arguments, l.function.to_le_bytes());
        }
        assert_eq!(next, [5000; 4]);
    }

    #[test]
    fn a_recording_that_stops_says_why_and_the_program_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let s = Session::begin(&settings(&folder)).unwrap();
        s.record(s.begun(), 1, CallEvent::Launch(LaunchRow::default()), With::Nothing);
        s.stop("the driver is another one");
        s.record(s.begun(), 1, CallEvent::Launch(LaunchRow::default()), With::Nothing);
        s.end();
        let r = open(&folder.path().join("r.kine"));
        assert_eq!(r.events.len(), 1);
        assert_eq!(r.facts.lost[0].reason, "the driver is another one");

        let mut small = settings(&folder);
        small.to = folder.path().join("small.kine");
        small.limit = Some(100_000);
        let s = Session::begin(&small).unwrap();
        let mut n = 0u64;
        while s.is_going() {
            n += 1;
            let page: Vec<u8> = n.to_le_bytes().repeat(512);
            s.record(s.begun(), 1, copy(CopyKind::HostToDevice, 4096), With::Content(page));
            assert!(n < 10_000_000);
        }
        assert!(s.why().unwrap().contains("limit of 100000 bytes"));
        s.end();
        assert_eq!(open(&small.to).facts.lost.len(), 1);
    }

    #[test]
    fn a_file_that_is_there_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let s = settings(&folder);
        std::fs::write(&s.to, b"mine").unwrap();
        let e = Session::begin(&s).unwrap_err();
        assert!(e.to_string().contains("r.kine"), "{e}");
        assert_eq!(std::fs::read(&s.to).unwrap(), b"mine");
    }
}
