//! Tests of crashes: a writer that is killed at a random time, and a machine that loses power. After a power cut,
//! writes since the last sync may be missing or incomplete.

use crate::container::generate::Numbers;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use trace_core::Recording;
use trace_core::container::{self, ContainerError, KineFile, Sink, Writer};
use trace_core::finding::FindingKind;
use trace_core::recording::{Digest, FrameRole, Page, PageId, PageRun, SectionKind as K, Snapshot};

/// Contents of one commit of the test's writer: events and a page. They depend only on the number of the commit.
struct Addition {
    kinds: Vec<u8>,
    times: Vec<u64>,
    payloads: Vec<u32>,
    offsets: Vec<u32>,
    values: Vec<u64>,
    page: Box<Page>,
}

/// Returns the number of events before commit `number`, which counts from 1.
fn events_before(number: u64) -> u64 {
    (1..number).map(events_in).sum()
}

fn events_in(number: u64) -> u64 {
    1 + number * 37 % 101
}

impl Addition {
    fn new(number: u64) -> Self {
        let first = events_before(number);
        let rows = first..first + events_in(number);
        let value = |i: u64| Numbers::new(i + 1).next();
        let mut page = Box::new([0; 4096]);
        for (i, b) in page.iter_mut().enumerate() {
            *b = (number as usize * 31 + i * 7) as u8 | 1;
        }
        Self {
            kinds: rows.clone().map(|i| 1 + (i % 2) as u8).collect(),
            times: rows.clone().map(|i| i * 10).collect(),
            payloads: rows.clone().map(|i| i as u32).collect(),
            offsets: rows.clone().map(|i| (i % 4096 * 4) as u32).collect(),
            values: rows.map(value).collect(),
            page,
        }
    }

    fn push<S: Sink>(&self, number: u64, w: &mut Writer<S>) -> Result<(), ContainerError> {
        let mut metadata = crate::container::generate::metadata();
        metadata.identity.board = format!("commit {number}");
        w.metadata(&metadata)?;
        let rows = self.kinds.len() as u64;
        w.push(K::EventKind, &self.kinds)?;
        w.push_constant(K::EventSpace, 0u8, rows)?;
        w.push(K::EventTime, &self.times)?;
        w.push_constant(K::EventThread, 3u32, rows)?;
        w.push(K::EventPayload, &self.payloads)?;
        w.push(K::AccessOffset, &self.offsets)?;
        w.push_constant(K::AccessWidth, 8u8, rows)?;
        w.push(K::AccessValue, &self.values)?;
        let digest: Digest = *blake3::hash(&self.page[..]).as_bytes();
        w.pages(&[digest], std::iter::once(&*self.page))?;
        let first_page = PageId(number as u32);
        let run = PageRun {
            first_frame: number,
            count: 1,
            first_page,
            repeat: false,
            role: FrameRole::Data,
        };
        let parent = (number % 50 != 1).then(|| number as u32 - 2);
        w.snapshots(&[Snapshot {
            event: events_before(number),
            parent,
            runs: vec![run],
        }])?;
        w.extra("count", &number.to_le_bytes())
    }
}

/// Checks that the recording has the data of the first `number` commits, and no other data.
fn assert_has_commits(r: &Recording, number: u64) {
    assert_eq!(r.events.len() as u64, events_before(number + 1), "commit {number}");
    assert_eq!(r.metadata.identity.board, format!("commit {number}"));
    assert_eq!(r.metadata.findings[0].kind, FindingKind::LostEvents);
    assert_eq!(r.extras["count"], number.to_le_bytes());
    assert_eq!(r.memory.snapshots.len() as u64, number);
    let mut row = 0;
    for n in 1..=number {
        let a = Addition::new(n);
        let range = row..row + a.kinds.len();
        assert!(
            r.events.kind.iter_range(range.clone()).eq(a.kinds.iter().copied()),
            "kinds of commit {n}"
        );
        assert!(
            r.events.time.iter_range(range.clone()).eq(a.times.iter().copied()),
            "times of commit {n}"
        );
        assert!(
            r.events
                .payload
                .iter_range(range.clone())
                .eq(a.payloads.iter().copied()),
            "payloads of commit {n}"
        );
        assert!(
            r.events.offset.iter_range(range.clone()).eq(a.offsets.iter().copied()),
            "offsets of commit {n}"
        );
        assert!(
            r.events.value.iter_range(range.clone()).eq(a.values.iter().copied()),
            "values of commit {n}"
        );
        row = range.end;
        assert_eq!(
            r.memory.pages.page(PageId(n as u32)),
            Some(&*a.page),
            "page of commit {n}"
        );
        assert_eq!(r.memory.at(u64::MAX).page_id(number), Some(PageId(number as u32)));
    }
}

// Killed writers

const WRITER: &str = "KINESCOPE_TEST_WRITER";

/// Body of the process that the next test kills, not a test. The process appends commits to the file in the environment
/// variable, and prints the number of each commit when it is durable.
#[test]
fn the_writer_that_is_killed() {
    let Some(path) = std::env::var_os(WRITER) else { return };
    let path = Path::new(&path);
    let mut w = if path.exists() {
        Writer::append(path).unwrap()
    } else {
        Writer::create(path).unwrap()
    };
    let mut number = KineFile::open(path).map_or(0, |f| f.commit());
    let mut out = io::stdout().lock();
    // The test harness prints an unfinished line first, so the output starts with a line end.
    writeln!(out, "\nready").unwrap();
    out.flush().unwrap();
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    loop {
        number += 1;
        Addition::new(number).push(number, &mut w).unwrap();
        assert_eq!(w.commit().unwrap().number, number);
        writeln!(out, "durable {number}").unwrap();
        out.flush().unwrap();
    }
}

/// Starts a writer, which waits for a line on its standard input.
fn start_writer(path: &Path) -> (Child, ChildStdin, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "container::crash::the_writer_that_is_killed",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(WRITER, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim() != "ready" {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the writer did not start");
    }
    let stdin = child.stdin.take().unwrap();
    (child, stdin, lines)
}

/// Returns the number of the next commit that the writer reports as durable, or `None` if the writer has ended.
fn next_durable(lines: &mut BufReader<std::process::ChildStdout>) -> Option<u64> {
    let mut line = String::new();
    while lines.read_line(&mut line).ok()? > 0 {
        let number = line.strip_prefix("durable ").and_then(|n| n.trim().parse().ok());
        if number.is_some() {
            return number;
        }
        line.clear();
    }
    None
}

/// Returns the mean time of a commit on this machine. Kills within this time hit all points of a commit; no result
/// depends on it.
fn commit_time(path: &Path) -> Duration {
    const COMMITS: u32 = 10;
    let mut w = Writer::create(path).unwrap();
    let started = Instant::now();
    for number in 1..=u64::from(COMMITS) {
        Addition::new(number).push(number, &mut w).unwrap();
        w.commit().unwrap();
    }
    (started.elapsed() / COMMITS).clamp(Duration::from_micros(200), Duration::from_millis(100))
}

#[test]
fn writer_killed_at_200_random_times_loses_nothing_durable() {
    let folder = tempfile::tempdir().unwrap();
    let mut n = Numbers::new(20);
    let mean = commit_time(&folder.path().join("timed.kine"));
    println!("a commit takes {mean:?} here");
    let (mut torn, mut unreported, mut max, mut total) = (0, 0, 0, 0);
    for round in 0..200 {
        // Five writers append to each file, so the test also covers appends after a crash.
        let path = folder.path().join(format!("{}.kine", round / 5));
        let before = KineFile::open(&path).map_or(0, |f| f.commit());
        let (mut child, mut stdin, mut lines) = start_writer(&path);
        let (commits, delay) = (n.below(8), n.below(mean.as_micros() as u64));
        let mut durable = before;
        stdin.write_all(b"go\n").unwrap();
        for _ in 0..commits {
            durable = next_durable(&mut lines).expect("the writer ended by itself");
        }
        // The kill must hit any point of a commit, and a commit does not report its progress. The test therefore sleeps
        // for a random time, whose exact length does not matter.
        std::thread::sleep(Duration::from_micros(delay));
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        while let Some(number) = next_durable(&mut lines) {
            durable = number;
        }
        match container::open(&path) {
            Ok(r) => {
                let file = KineFile::open(&path).unwrap();
                // The kill may come between a commit and its report, so at most one commit is not reported.
                assert!(
                    file.commit() == durable || file.commit() == durable + 1,
                    "{} of {durable}",
                    file.commit()
                );
                assert_has_commits(&r, file.commit());
                assert_eq!(container::verify(&path).unwrap().findings, []);
                torn += u64::from(file.trailing_bytes() > 0);
                unreported += u64::from(file.commit() > durable);
                max = max.max(file.commit());
                total += file.commit() - before;
            }
            Err(ContainerError::NoCommit { .. } | ContainerError::NotKine { .. }) => {
                assert_eq!(durable, 0);
                std::fs::remove_file(&path).unwrap();
            }
            Err(e) => panic!("{e}"),
        }
    }
    println!(
        "200 kills: {total} commits, at most {max} in a file; {torn} files end in a torn commit, {unreported} have an unreported commit"
    );
    assert!(
        total > 200 && torn > 10,
        "too few kills hit a running commit: {total} commits, {torn} torn"
    );
}

// Power cuts

/// Records the writes and syncs.
#[derive(Default)]
struct Recorder {
    steps: Vec<Step>,
}

enum Step {
    Write {
        at: u64,
        bytes: Vec<u8>,
    },
    Sync,
    /// Mark of the test: this commit is durable from here on.
    Durable(u64),
}

impl Sink for &mut Recorder {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.steps.push(Step::Write {
            at,
            bytes: bytes.to_vec(),
        });
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.steps.push(Step::Sync);
        Ok(())
    }
}

const SECTOR: usize = 512;

/// Applies a write to the disk; `keep` decides for each sector whether it is written.
fn apply(disk: &mut Vec<u8>, at: u64, bytes: &[u8], mut keep: impl FnMut() -> bool) {
    let at = at as usize;
    let mut from = 0;
    while from < bytes.len() {
        let to = ((at + from) / SECTOR * SECTOR + SECTOR - at).min(bytes.len());
        if keep() {
            if disk.len() < at + to {
                disk.resize(at + to, 0);
            }
            disk[at + from..at + to].copy_from_slice(&bytes[from..to]);
        }
        from = to;
    }
}

#[test]
fn after_a_power_cut_the_last_durable_commit_opens_intact() {
    const COMMITS: u64 = 12;
    let mut recorder = Recorder::default();
    for number in 1..=COMMITS {
        // Each round writes one commit more, so that the mark follows the last sync of its commit.
        let mut fresh = Recorder::default();
        let mut w = Writer::begin(&mut fresh).unwrap();
        for n in 1..=number {
            Addition::new(n).push(n, &mut w).unwrap();
            assert_eq!(w.commit().unwrap().number, n);
        }
        drop(w);
        let recorded_steps = recorder.steps.iter().filter(|s| !matches!(s, Step::Durable(_))).count();
        recorder.steps.extend(fresh.steps.into_iter().skip(recorded_steps));
        recorder.steps.push(Step::Durable(number));
    }
    let mut n = Numbers::new(1000);
    let mut opened = [0u64; COMMITS as usize + 1];
    let (mut torn, mut newer) = (0, 0);
    for _ in 0..1000 {
        let stop = n.below(recorder.steps.len() as u64 + 1) as usize;
        let steps = &recorder.steps[..stop];
        let durable = steps
            .iter()
            .rev()
            .find_map(|s| if let Step::Durable(d) = s { Some(*d) } else { None });
        let durable = durable.unwrap_or(0);
        let synced = steps.iter().rposition(|s| matches!(s, Step::Sync)).map_or(0, |i| i + 1);
        let mut disk = Vec::new();
        for step in &steps[..synced] {
            if let Step::Write { at, bytes } = step {
                apply(&mut disk, *at, bytes, || true);
            }
        }
        // A write without a sync reaches the disk completely, not at all, or in some sectors. The order does not
        // matter, because writes never overlap.
        for step in &steps[synced..] {
            if let Step::Write { at, bytes } = step {
                match n.below(3) {
                    0 => apply(&mut disk, *at, bytes, || true),
                    1 => {}
                    _ => {
                        torn += 1;
                        apply(&mut disk, *at, bytes, || n.below(2) == 0);
                    }
                }
            }
        }
        // The file system may extend the file before it writes the data.
        if n.below(4) == 0 {
            disk.resize(disk.len() + n.below(9000) as usize, 0);
        }
        match KineFile::from_bytes(disk.clone()) {
            Ok(file) => {
                assert!(
                    file.commit() == durable || file.commit() == durable + 1,
                    "{} of {durable}",
                    file.commit()
                );
                newer += u64::from(file.commit() > durable);
                assert_has_commits(&file.recording().unwrap(), file.commit());
                assert_eq!(container::verify_bytes(disk).unwrap().findings, []);
                opened[file.commit() as usize] += 1;
            }
            Err(ContainerError::NoCommit { .. } | ContainerError::NotKine { .. }) => assert_eq!(durable, 0),
            Err(ContainerError::Damaged { byte: 0, .. }) => assert_eq!(
                durable, 0,
                "only a file without a durable commit may have a torn header"
            ),
            Err(e) => panic!("{e}"),
        }
    }
    println!("1000 power cuts, {torn} torn writes, {newer} opened at an unreported commit; by commit: {opened:?}");
    assert!(
        opened[1..].iter().all(|c| *c > 0) && torn > 500,
        "{opened:?}, {torn} torn"
    );
}

#[test]
fn a_failed_write_or_sync_ends_the_writer() {
    struct Fails(u64);
    impl Sink for Fails {
        fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
            self.sync()
        }
        fn sync(&mut self) -> io::Result<()> {
            self.0 = self
                .0
                .checked_sub(1)
                .ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
            Ok(())
        }
    }
    let mut ends = 0;
    for good in 0..40 {
        let Ok(mut w) = Writer::begin(Fails(good)) else {
            continue;
        };
        let first = Addition::new(1).push(1, &mut w).and_then(|()| w.commit());
        if first.is_ok() {
            continue;
        }
        assert!(matches!(first, Err(ContainerError::Io { .. })));
        let second = w.commit();
        assert!(
            matches!(second, Err(ContainerError::Poisoned { .. })),
            "the writer accepts a commit after a failed sync"
        );
        ends += 1;
    }
    assert!(ends > 10);
}
