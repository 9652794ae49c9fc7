//! A recorder that grows a file of calls on request, and a window that follows it.

use super::{HANG_LIMIT, Window};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trace_core::container::{FileSink, Writer};
use trace_core::recording::{
    ApiTraceMetadata, CallFunction, CopyRow, EventKind, LaunchRow, Metadata, OrderKind, OrderRow, SectionKind,
    TraceKind,
};

/// A recorder of launches, copies and waits.
pub struct Recorder {
    writer: Writer<FileSink>,
    commits: u32,
}

fn metadata(ended: bool) -> Metadata {
    let mut api = ApiTraceMetadata::default();
    api.process.ended = ended;
    api.functions.push(CallFunction {
        name: "saxpy".into(),
        ..CallFunction::default()
    });
    Metadata {
        kind: TraceKind::Api(api),
        ..Metadata::default()
    }
}

impl Recorder {
    /// Creates the file.
    pub fn begin(path: &Path) -> Self {
        let mut writer = Writer::create(path).unwrap();
        writer.metadata(&metadata(false)).unwrap();
        Self { writer, commits: 0 }
    }

    /// Commits a launch, a copy and a wait, `times` times in one commit.
    pub fn commit(&mut self, times: u32) {
        use SectionKind as K;
        let w = &mut self.writer;
        let rows = self.commits..self.commits + times;
        let kinds = [EventKind::Launch, EventKind::Copy, EventKind::Order].map(|k| k as u8);
        let count = 3 * times as usize;
        let of = |n: &u32| [0, 1, 2].map(|t| u64::from(*n) * 30_000 + t * 10_000);
        w.push(K::EventKind, &kinds.repeat(times as usize)).unwrap();
        w.push_constant(K::EventSpace, 0u8, count as u64).unwrap();
        let times_ns: Vec<u64> = rows.clone().flat_map(|n| of(&n)).collect();
        w.push(K::EventTime, &times_ns).unwrap();
        w.push(K::EventThread, &vec![7u32; count]).unwrap();
        let payload: Vec<u32> = rows.flat_map(|n| [n; 3]).collect();
        w.push(K::EventPayload, &payload).unwrap();
        let launch = LaunchRow {
            grid: [4, 1, 1],
            block: [64, 1, 1],
            ..LaunchRow::default()
        };
        w.push(K::Launches, &vec![launch; times as usize]).unwrap();
        w.push(K::Copies, &vec![CopyRow::default(); times as usize]).unwrap();
        let wait = OrderRow {
            kind: OrderKind::ContextDone as u32,
            ..OrderRow::default()
        };
        w.push(K::Orders, &vec![wait; times as usize]).unwrap();
        w.commit().unwrap();
        self.commits += times;
    }

    /// Ends the recording as a program does that ends normally.
    pub fn end(mut self) {
        self.writer.metadata(&metadata(true)).unwrap();
        self.writer.commit().unwrap();
    }
}

impl Window {
    /// Runs frames until a condition holds.
    pub fn wait_until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let since = Instant::now();
        loop {
            self.harness.step();
            if holds(self) {
                return;
            }
            assert!(since.elapsed() < HANG_LIMIT, "{what}: {:?}", self.app().last_error());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the open recording has this many events.
    pub fn wait_for_events(&mut self, events: u64) {
        self.wait_until(&format!("{events} events"), |w| {
            w.app().doc.as_ref().is_some_and(|d| d.len() == events)
        });
        self.settle();
    }

    /// Creates a window that follows a file with three hundred events. Returns it, the file and its recorder.
    pub fn following() -> (Self, PathBuf, Recorder) {
        let mut w = Self::empty();
        let (path, recorder) = w.follow_new();
        (w, path, recorder)
    }

    /// Follows a new file with three hundred events.
    pub fn follow_new(&mut self) -> (PathBuf, Recorder) {
        let path = self.folder.path().join("live.kine");
        let mut recorder = Recorder::begin(&path);
        recorder.commit(100);
        let ctx = self.harness.ctx.clone();
        self.app().follow_file(&ctx, path.clone());
        self.wait_for_events(300);
        (path, recorder)
    }
}
