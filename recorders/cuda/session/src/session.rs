//! The recording of one process: a queue that calls are put into, and a thread that writes it.

use crate::entry::{Entry, With};
use crate::error::SessionError;
use crate::file::File;
use crate::tables::Tables;
use crate::writing::Writing;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use trace_core::recording::CallEvent;

/// Bytes that may wait for the thread that writes; then whoever calls waits.
const MOST_WAITING: u64 = if cfg!(test) { 4 << 20 } else { 512 << 20 };
/// How long the thread that writes waits for more.
const TICK: Duration = Duration::from_millis(50);
/// Who waits for the end of a recording that does not get on for this long goes without it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Content that is awaited, or that is handed over in parts.
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

/// What was awaited.
#[derive(Debug)]
pub(crate) enum Supplied {
    /// It will not be known.
    Nothing,
    /// Bytes.
    Content(Vec<u8>),
    /// It was handed over in parts.
    Parts,
}

#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// Content that was supplied and not taken up yet.
    supplied: HashMap<Slot, Supplied>,
    /// Content in parts: the slot, where in its page it begins, bytes.
    parts: Vec<(Slot, u64, Vec<u8>)>,
    /// Bytes that wait.
    waiting: u64,
    /// Code that is to be stored, for modules by number.
    code: Vec<(u32, Vec<u8>)>,
}

/// What the thread that writes takes from the queue.
#[derive(Default)]
pub(crate) struct Taken {
    pub entries: VecDeque<Entry>,
    pub supplied: HashMap<Slot, Supplied>,
    pub parts: Vec<(Slot, u64, Vec<u8>)>,
    pub code: Vec<(u32, Vec<u8>)>,
    /// The recording ends: there will be no more.
    pub last: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    begun: Instant,
    queue: Mutex<Queue>,
    tables: Mutex<Tables>,
    /// There is more to write.
    more: Condvar,
    /// There is room again.
    room: Condvar,
    /// The recording goes on.
    going: AtomicBool,
    /// The program ends.
    ending: AtomicBool,
    /// The thread that writes has ended.
    done: AtomicBool,
    /// Counts up while the thread that writes gets on.
    steps: AtomicU64,
    slots: AtomicU64,
    /// Why it ended before the program.
    why: Mutex<Option<String>>,
    /// What the thread that writes does first when the program ends.
    at_end: OnceLock<fn()>,
}

/// The recording of one process.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
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
            ending: AtomicBool::new(false),
            done: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            slots: AtomicU64::new(0),
            why: Mutex::new(None),
            at_end: OnceLock::new(),
        });
        let (own, limit) = (Arc::clone(&shared), settings.limit);
        std::thread::Builder::new()
            .name("kinescope-write".to_owned())
            .spawn(move || {
                // Whatever happens in it: nobody may wait for a thread that is no more.
                let write = std::panic::AssertUnwindSafe(|| Writing::new(file, limit).write(&own));
                if std::panic::catch_unwind(write).is_err() {
                    own.give_up("the recorder's writer had a fault");
                }
                own.going.store(false, Ordering::Relaxed);
                own.done.store(true, Ordering::Release);
                own.room.notify_all();
            })
            .map_err(|source| SessionError::Thread { source })?;
        Ok(Self { shared })
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

    /// What the thread that writes is to do first when the program ends: what was awaited may be there by then.
    pub fn at_end(&self, first: fn()) {
        let _ = self.shared.at_end.set(first);
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
        let weight = entry.weight();
        self.put(weight, |q| q.entries.push_back(entry));
    }

    /// Puts something into the queue, once there is room.
    fn put(&self, weight: u64, into: impl FnOnce(&mut Queue)) {
        let mut q = lock(&self.shared.queue);
        while q.waiting > MOST_WAITING && self.is_going() {
            q = match self.shared.room.wait_timeout(q, TICK) {
                Ok((q, _)) => q,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        let was = q.waiting;
        q.waiting = q.waiting.saturating_add(weight);
        into(&mut q);
        // The thread that writes looks by itself every now and then: it is woken for much alone.
        if was < MOST_WAITING / 16 && q.waiting >= MOST_WAITING / 16 {
            self.shared.more.notify_one();
        }
    }

    /// A place for content that is known later, or that is handed over in parts.
    #[must_use]
    pub fn slot(&self) -> Slot {
        Slot(self.shared.slots.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands over a part of a copy's content: what belongs to the device's address `at`. The parts of a slot follow each
    /// other, and each begins where a page does, but for the first one.
    pub fn part(&self, slot: Slot, at: u64, content: Vec<u8>) {
        if self.is_going() {
            self.put(content.len() as u64, |q| q.parts.push((slot, at, content)));
        }
    }

    /// Supplies what was awaited; `None`: it will not be known.
    pub fn supply(&self, slot: Slot, content: Option<Vec<u8>>) {
        let (weight, supplied) = match content {
            Some(c) => (c.len() as u64, Supplied::Content(c)),
            None => (0, Supplied::Nothing),
        };
        let mut q = lock(&self.shared.queue);
        q.waiting = q.waiting.saturating_add(weight);
        q.supplied.insert(slot, supplied);
    }

    /// What was awaited was handed over in parts.
    pub fn supply_parts(&self, slot: Slot) {
        lock(&self.shared.queue).supplied.insert(slot, Supplied::Parts);
    }

    /// Stores the code of a module that the tables list.
    pub fn store_code(&self, module: u32, code: Vec<u8>) {
        if self.is_going() {
            let mut q = lock(&self.shared.queue);
            q.waiting = q.waiting.saturating_add(code.len() as u64);
            q.code.push((module, code));
        }
    }

    /// Ends the recording while the program goes on, and says why in the file.
    pub fn stop(&self, why: impl Into<String>) {
        self.shared.give_up(why);
    }

    /// Writes what is left and ends. Called again it does nothing.
    ///
    /// It takes no lock and no memory, so that a program may end in a handler of a signal, whatever it interrupted. What
    /// the thread that writes cannot get at for long stays out of the file.
    pub fn end(&self) {
        let shared = &self.shared;
        shared.ending.store(true, Ordering::Release);
        shared.more.notify_all();
        let (mut seen, mut since) = (shared.steps.load(Ordering::Relaxed), Instant::now());
        while !shared.done.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
            let now = shared.steps.load(Ordering::Relaxed);
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() > PATIENCE {
                return;
            }
        }
    }
}

impl Shared {
    /// The recording goes on no more.
    pub fn give_up(&self, why: impl Into<String>) {
        if self.going.swap(false, Ordering::Relaxed) {
            lock(&self.why).get_or_insert(why.into());
        }
        self.more.notify_all();
        self.room.notify_all();
    }

    /// Why it goes on no more.
    pub fn why(&self) -> Option<String> {
        lock(&self.why).clone()
    }

    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.tables)
    }

    /// Waits for a while for something to write, and takes it all.
    pub fn take(&self) -> Taken {
        self.step();
        let mut q = lock(&self.queue);
        if q.waiting < MOST_WAITING / 16 && !self.ending.load(Ordering::Acquire) {
            q = match self.more.wait_timeout(q, TICK) {
                Ok((q, _)) => q,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        // Looked at before what was awaited is asked for: nothing that is handed over later is lost.
        let ending = self.ending.load(Ordering::Acquire);
        if ending && let Some(first) = self.at_end.get() {
            drop(q);
            first();
            q = lock(&self.queue);
        }
        let q = &mut *q;
        Taken {
            entries: std::mem::take(&mut q.entries),
            supplied: std::mem::take(&mut q.supplied),
            parts: std::mem::take(&mut q.parts),
            code: std::mem::take(&mut q.code),
            last: ending || !self.going.load(Ordering::Relaxed),
        }
    }

    /// So many bytes wait no more.
    pub fn stored(&self, bytes: u64) {
        self.step();
        let mut q = lock(&self.queue);
        q.waiting = q.waiting.saturating_sub(bytes);
        drop(q);
        self.room.notify_all();
    }

    /// The thread that writes gets on.
    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
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
    use trace_core::recording::{CallModule, CodeKind, CopyKind, CopyRow, LaunchRow, Recording};

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

    /// Whoever hands over more than may wait, behind a copy whose content is not known before they go on, must not wait
    /// for themselves.
    #[test]
    fn much_behind_what_is_awaited_does_not_wait_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let s = Session::begin(&settings(&folder)).unwrap();
        let slot = s.slot();
        s.record(s.begun(), 1, copy(CopyKind::DeviceToHost, 8), With::Awaited(slot));
        for n in 0..24u8 {
            let content: Vec<u8> = (0..1u32 << 20).map(|at| (at >> 8) as u8 ^ n).collect();
            s.record(
                s.begun(),
                1,
                copy(CopyKind::HostToDevice, 1 << 20),
                With::Content(content),
            );
        }
        s.supply(slot, Some(vec![5; 8]));
        s.end();
        let r = open(&folder.path().join("r.kine"));
        assert_eq!(r.events.len(), 25);
        let copied = |event| match r.events.call(event) {
            Some(CallEvent::Copy(c)) => r.copied(&c).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(copied(0), [5; 8]);
        for n in 0..24usize {
            let c = copied(n + 1);
            assert!(
                c.iter().enumerate().all(|(at, b)| *b == (at >> 8) as u8 ^ n as u8),
                "{n}"
            );
        }
    }

    #[test]
    fn content_in_parts_is_one_copy() {
        let folder = tempfile::tempdir().unwrap();
        let s = Session::begin(&settings(&folder)).unwrap();
        let row = |bytes| CopyRow {
            to: 0x1f00,
            bytes,
            rows: 1,
            kind: CopyKind::HostToDevice as u32,
            ..Default::default()
        };
        let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n / 3) as u8).collect();
        let hand = |slot| {
            s.part(slot, 0x1f00, bytes[..0x100 + 4096 * 300].to_vec());
            s.part(slot, 0x2000 + 4096 * 300, bytes[0x100 + 4096 * 300..].to_vec());
        };
        let whole = s.slot();
        hand(whole);
        s.record(s.begun(), 1, CallEvent::Copy(row(3_000_000)), With::Parts(whole));
        // Of another length than the row, and with nothing handed over.
        let short = s.slot();
        s.part(short, 0x1f00, vec![1; 100]);
        s.record(s.begun(), 1, CallEvent::Copy(row(9000)), With::Parts(short));
        s.record(s.begun(), 1, CallEvent::Copy(row(9000)), With::Parts(s.slot()));
        // Known later.
        let later = s.slot();
        s.record(s.begun(), 1, CallEvent::Copy(row(3_000_000)), With::Awaited(later));
        hand(later);
        s.supply_parts(later);
        s.end();
        let r = open(&folder.path().join("r.kine"));
        let copied = |event| match r.events.call(event) {
            Some(CallEvent::Copy(c)) => r.copied(&c),
            other => panic!("{other:?}"),
        };
        assert_eq!(copied(0).unwrap(), bytes);
        assert_eq!((copied(1), copied(2)), (None, None));
        assert_eq!(copied(3).unwrap(), bytes);
    }

    /// A range's second snapshot is handed over as what changed; its row holds all of it.
    #[test]
    fn a_snapshot_is_what_changed_since_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let s = Session::begin(&settings(&folder)).unwrap();
        let (at, bytes) = (0x1539_4000_0200u64, 20_000u64);
        let row = |from: u64, bytes| {
            CallEvent::Copy(CopyRow {
                from,
                bytes,
                rows: 1,
                kind: CopyKind::DeviceToHost as u32,
                ..Default::default()
            })
        };
        let give = |from: u64, length: u64, parts| {
            s.record(
                s.begun(),
                1,
                row(from, length),
                With::Snapshot {
                    range: (at, bytes),
                    parts,
                },
            );
        };
        let mut memory: Vec<u8> = (0..bytes as u32).map(|n| (n / 100) as u8).collect();
        let second = 4096 - 0x200;
        // In two pieces, then a page of each anew, then nothing.
        give(at, second + 4096, vec![(0, memory[..second as usize + 4096].to_vec())]);
        give(
            at + second + 4096,
            bytes - second - 4096,
            vec![(0, memory[second as usize + 4096..].to_vec())],
        );
        memory[..second as usize].fill(9);
        memory[19_999] = 9;
        let last = second + 4 * 4096;
        give(
            at,
            bytes,
            vec![
                (0, memory[..second as usize].to_vec()),
                (last, memory[last as usize..].to_vec()),
            ],
        );
        give(at, bytes, vec![]);
        // What is not known is not made up: another range, and more than there is.
        s.record(
            s.begun(),
            1,
            row(0x9000, 10),
            With::Snapshot {
                range: (0x9000, 10),
                parts: vec![],
            },
        );
        give(at, bytes + 1, vec![]);
        s.end();
        let r = open(&folder.path().join("r.kine"));
        let copied = |event| match r.events.call(event) {
            Some(CallEvent::Copy(c)) => r.copied(&c),
            other => panic!("{other:?}"),
        };
        assert_eq!(copied(2).unwrap(), memory);
        assert_eq!(copied(3).unwrap(), memory);
        assert_eq!((copied(4), copied(5)), (None, None));
    }

    #[test]
    fn what_was_awaited_is_asked_for_at_the_end() {
        static SESSION: OnceLock<(Session, Slot)> = OnceLock::new();
        let folder = tempfile::tempdir().unwrap();
        let s = Session::begin(&settings(&folder)).unwrap();
        let slot = s.slot();
        let (s, _) = SESSION.get_or_init(|| (s, slot));
        s.at_end(|| {
            if let Some((s, slot)) = SESSION.get() {
                s.supply(*slot, Some(vec![3; 5]));
            }
        });
        s.record(s.begun(), 1, copy(CopyKind::DeviceToHost, 5), With::Awaited(slot));
        s.end();
        let r = open(&folder.path().join("r.kine"));
        let Some(CallEvent::Copy(c)) = r.events.call(0) else {
            panic!()
        };
        assert_eq!(r.copied(&c).unwrap(), [3; 5]);
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
