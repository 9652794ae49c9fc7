use super::*;
use std::fs;
use std::io::Write as _;
use trace_core::container::{self, Writer};
use trace_core::recording::{
    ApiTraceMetadata, CopyRow, EventKind, LaunchRow, LostEvents, Metadata, OrderKind, OrderRow, SectionKind, TraceKind,
};

/// Returns metadata of an API trace.
fn metadata(ended: bool, lost: Option<&str>) -> Metadata {
    let mut api = ApiTraceMetadata::default();
    api.process.ended = ended;
    Metadata {
        kind: TraceKind::Api(api),
        lost: lost
            .map(|reason| LostEvents {
                before_event: 0,
                count: None,
                reason: reason.to_owned(),
            })
            .into_iter()
            .collect(),
        ..Metadata::default()
    }
}

/// A recorder that commits a launch, a copy and a wait at a time.
struct Recorder {
    writer: Writer<container::FileSink>,
    commits: u32,
}

impl Recorder {
    fn begin(path: &Path) -> Self {
        let mut writer = Writer::create(path).unwrap();
        writer.metadata(&metadata(false, None)).unwrap();
        Self { writer, commits: 0 }
    }

    fn commit(&mut self) {
        use SectionKind as K;
        let (n, w) = (self.commits, &mut self.writer);
        let kinds = [EventKind::Launch, EventKind::Copy, EventKind::Order].map(|k| k as u8);
        w.push(K::EventKind, &kinds).unwrap();
        w.push_constant(K::EventSpace, 0u8, 3).unwrap();
        w.push(K::EventTime, &[0, 1, 2].map(|t| u64::from(n) * 100 + t))
            .unwrap();
        w.push(K::EventThread, &[7u32; 3]).unwrap();
        w.push(K::EventPayload, &[n; 3]).unwrap();
        w.push(K::Launches, &[LaunchRow::default()]).unwrap();
        w.push(K::Copies, &[CopyRow::default()]).unwrap();
        let kind = OrderKind::ContextDone as u32;
        w.push(
            K::Orders,
            &[OrderRow {
                kind,
                ..OrderRow::default()
            }],
        )
        .unwrap();
        w.commit().unwrap();
        self.commits += 1;
    }

    fn end(mut self, ended: bool, lost: Option<&str>) {
        self.writer.metadata(&metadata(ended, lost)).unwrap();
        self.writer.commit().unwrap();
    }
}

/// Steps until the phase is `phase`, and returns the readings.
fn step_until(following: &mut Following, phase: &FollowPhase) -> Vec<FollowedRecording> {
    let mut read = Vec::new();
    for _ in 0..200 {
        read.extend(following.step(&Progress::new()).unwrap());
        if following.status.phase == *phase {
            return read;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{:?} is not {phase:?}", following.status);
}

fn read_now(following: &mut Following) -> Option<FollowedRecording> {
    following.read_due = Instant::now();
    following.step(&Progress::new()).unwrap()
}

#[test]
fn every_commit_is_counted_and_the_end_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("F.kine");
    let mut following = Following::new(path.clone());
    assert!(following.step(&Progress::new()).unwrap().is_none());
    assert_eq!(following.status.phase, FollowPhase::Waiting);
    let mut recorder = Recorder::begin(&path);
    assert!(read_now(&mut following).is_none());
    assert_eq!(following.status.phase, FollowPhase::Growing);
    for n in 1..=70u64 {
        recorder.commit();
        let read = read_now(&mut following).unwrap();
        let counts = following.status.counts;
        assert_eq!(
            (counts.events, counts.launches, counts.copies, counts.waits),
            (3 * n, n, n, n)
        );
        assert_eq!(read.recording.events.len() as u64, 3 * n);
        assert!(!read.is_final && read.derived.pending.is_empty());
        assert!(read_now(&mut following).is_none(), "nothing is new");
    }
    recorder.end(true, None);
    let last = step_until(&mut following, &FollowPhase::Finished { note: None });
    let last = last.into_iter().next_back().unwrap();
    assert!(last.is_final && last.derived.pending == [crate::derived_data::Stage::File]);
    assert_eq!(last.recording.events.len(), 210);
    assert!(
        following.step(&Progress::new()).unwrap().is_none(),
        "following has ended"
    );
}

#[test]
fn readings_take_a_fixed_share_of_the_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("F.kine");
    let mut recorder = Recorder::begin(&path);
    let mut following = Following::new(path);
    recorder.commit();
    assert!(following.step(&Progress::new()).unwrap().is_some());
    recorder.commit();
    let looked = following.step(&Progress::new()).unwrap();
    assert!(looked.is_none(), "the next reading is not due");
    assert_eq!(following.status.counts.launches, 2, "but the counts are new");
    assert!(following.read_due > Instant::now() + READ_INTERVAL / 2);
}

#[test]
fn every_prefix_of_a_file_is_a_state_without_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let files = [2, 8].map(|commits| {
        let whole = dir.path().join(format!("whole{commits}.kine"));
        let mut recorder = Recorder::begin(&whole);
        (0..commits).for_each(|_| recorder.commit());
        recorder.end(true, None);
        fs::read(&whole).unwrap()
    });
    // A fixed generator: cuts of one byte up to some sections, and each byte around the commit records.
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |max: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        1 + seed % max
    };
    for round in 0..6u64 {
        // Few commits for small steps.
        let (bytes, all) = if round < 2 { (&files[0], 6) } else { (&files[1], 24) };
        let path = dir.path().join(format!("F{round}.kine"));
        let mut file = fs::File::create(&path).unwrap();
        file.lock().unwrap();
        let mut following = Following::new(path);
        let (mut at, mut events, mut readings) = (0, 0, 0);
        while at < bytes.len() {
            let max = [1, 40, 600, 2000, 5000, 20_000][round as usize];
            let step = match bytes[at..].len() {
                // Byte by byte where a record or a header is.
                _ if round == 0 && (at % 512) > 130 => 512 - at % 512,
                _ => next(max) as usize,
            };
            let end = (at + step).min(bytes.len());
            file.write_all(&bytes[at..end]).unwrap();
            at = end;
            let read = read_now(&mut following);
            let status = following.status();
            assert!(status.problem.is_none(), "{at}: {:?}", status.problem);
            assert!(
                matches!(status.phase, FollowPhase::Growing) || at == bytes.len(),
                "{at}: {:?}",
                status.phase
            );
            assert!(status.counts.events >= events, "{at}: fewer events than before");
            events = status.counts.events;
            assert_eq!(events % 3, 0);
            if let Some(read) = read {
                readings += 1;
                assert_eq!(read.recording.events.len() as u64, events);
                assert!(read.recording.find_damage(&Progress::new()).unwrap().is_none());
            }
        }
        assert_eq!(
            (events, following.status().phase.has_ended()),
            (all, true),
            "round {round}"
        );
        assert!(readings > 0);
        drop(file);
    }
}

#[test]
fn killed_recorders_and_recorders_that_stop_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let killed = dir.path().join("killed.kine");
    let mut recorder = Recorder::begin(&killed);
    recorder.commit();
    let mut following = Following::new(killed);
    read_now(&mut following).unwrap();
    drop(recorder);
    let note = Some("its program was killed, so it ends at its last commit".to_owned());
    let read = step_until(&mut following, &FollowPhase::Finished { note });
    assert!(read.last().unwrap().is_final);

    let full = dir.path().join("full.kine");
    let mut recorder = Recorder::begin(&full);
    recorder.commit();
    recorder.end(false, Some("it reached its limit of 5 bytes"));
    let note = Some("it ends early: it reached its limit of 5 bytes".to_owned());
    step_until(&mut Following::new(full), &FollowPhase::Finished { note });

    let empty = dir.path().join("empty.kine");
    drop(Writer::create(&empty).unwrap());
    let mut following = Following::new(empty.clone());
    let reason = format!("{} holds no commit, and no process writes it", empty.display());
    step_until(&mut following, &FollowPhase::RecorderGone { reason });
}

#[test]
fn temporary_file_is_followed_until_the_finished_one_replaces_it() {
    let dir = tempfile::tempdir().unwrap();
    let requested = dir.path().join("F.kine");
    let folder = dir.path().join(format!(".kinescope-record-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let growing = folder.join("F.kine");
    let mut recorder = Recorder::begin(&growing);
    recorder.commit();
    let mut following = Following::new(requested.clone());
    assert_eq!(read_now(&mut following).unwrap().recording.events.len(), 3);
    assert_eq!(following.status.file.as_deref(), Some(&*growing));
    recorder.end(true, None);
    step_until(&mut following, &FollowPhase::Closing);
    fs::rename(&growing, &requested).unwrap();
    fs::remove_dir(&folder).unwrap();
    step_until(&mut following, &FollowPhase::Finished { note: None });
    assert_eq!(following.status.file.as_deref(), Some(&*requested));
}

#[test]
fn file_that_nobody_moves_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let folder = dir.path().join(format!(".kinescope-record-{dead}"));
    fs::create_dir(&folder).unwrap();
    let growing = folder.join("F.kine");
    let mut recorder = Recorder::begin(&growing);
    recorder.commit();
    let mut following = Following::new(dir.path().join("F.kine"));
    read_now(&mut following).unwrap();
    assert_eq!(following.status.phase, FollowPhase::Growing, "its program still runs");
    recorder.commit();
    drop(recorder);
    let reason = format!(
        "the command that records it is gone, so the recording stays in {}",
        growing.display()
    );
    let read = step_until(&mut following, &FollowPhase::RecorderGone { reason });
    assert_eq!(
        read.last().unwrap().recording.events.len(),
        6,
        "the last commit is read"
    );
}

#[test]
fn file_of_a_later_version_fails_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("F.kine");
    let mut bytes = container::to_bytes(&trace_core::Recording::default()).unwrap();
    bytes[8] = 9;
    let digest = *blake3::hash(&bytes[..32]).as_bytes();
    bytes[32..64].copy_from_slice(&digest);
    fs::write(&path, bytes).unwrap();
    let mut following = Following::new(path);
    following.step(&Progress::new()).unwrap();
    assert!(matches!(&following.status.phase, FollowPhase::Failed { reason } if reason.contains("version 9")));
}

#[test]
fn follower_ends_with_the_file_and_on_drop() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("F.kine");
    let (notify, notified) = channel();
    let follower = Follower::start(path.clone(), move || notify.send(()).unwrap_or_default()).unwrap();
    notified.recv_timeout(Duration::from_secs(20)).unwrap();
    let mut recorder = Recorder::begin(&path);
    recorder.commit();
    recorder.end(true, None);
    // The channel closes when the thread ends.
    while notified.recv_timeout(Duration::from_secs(20)).is_ok() {}
    let (status, read) = follower.take();
    assert_eq!(status.phase, FollowPhase::Finished { note: None });
    assert!(read.is_some_and(|r| r.is_final) && follower.take().1.is_none());

    let (notify, notified) = channel();
    let follower = Follower::start(dir.path().join("never.kine"), move || {
        notify.send(()).unwrap_or_default()
    })
    .unwrap();
    notified.recv_timeout(Duration::from_secs(20)).unwrap();
    drop(follower);
    while notified.recv_timeout(Duration::from_secs(20)).is_ok() {}
}

/// Returns unpacked test data of the importers.
fn unpack(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../trace-core/import/tests")
        .join(name);
    let mut log = Vec::new();
    std::io::copy(
        &mut flate2::read::GzDecoder::new(fs::File::open(path).unwrap()),
        &mut log,
    )
    .unwrap();
    log
}

/// Writes a log in steps and follows it. Returns the numbers of events that were seen.
fn follow_log(path: &Path, log: &[u8], steps: usize, write: impl Fn(&[u8])) -> Vec<u64> {
    let mut following = Following::new(path.to_owned());
    let mut seen = Vec::new();
    for step in 1..=steps {
        write(&log[..log.len() * step / steps]);
        let read = read_now(&mut following);
        let status = following.status();
        assert_eq!(
            (&status.phase, &status.problem),
            (&FollowPhase::Growing, &None),
            "step {step}"
        );
        if let Some(read) = read {
            assert_eq!(read.recording.events.len() as u64, status.counts.events);
            let cut = trace_core::finding::FindingKind::TruncatedSection;
            assert!(
                read.recording.metadata.findings.iter().all(|f| f.kind != cut),
                "step {step}"
            );
        }
        assert!(
            seen.last().is_none_or(|before| *before <= status.counts.events),
            "step {step}"
        );
        seen.push(status.counts.events);
    }
    assert!(read_now(&mut following).is_none(), "nothing is new");
    seen
}

#[test]
fn file_that_rests_and_cannot_be_read_has_a_problem() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("F.kine");
    fs::write(&path, "no recording at all\n".repeat(9)).unwrap();
    let mut following = Following::new(path.clone());
    read_now(&mut following);
    assert_eq!(following.status.problem, None, "the file is new");
    read_now(&mut following);
    let problem = following.status.problem.clone().unwrap();
    assert!(problem.contains("F.kine"), "{problem}");
    assert_eq!(following.status.phase, FollowPhase::Growing);
}

#[test]
fn log_of_a_linux_driver_is_read_again_as_it_grows() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(format!(".F.recording-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let (log, file) = (unpack("mmio/pl031-rwmmio.txt.gz"), folder.join("F.txt"));
    let seen = follow_log(&dir.path().join("F.kine"), &log, 8, |part| {
        fs::write(&file, part).unwrap()
    });
    assert!(seen[7] > seen[3] && seen[3] > 0, "{seen:?}");
}

#[test]
fn log_of_nvidias_driver_grows_in_reserved_space() {
    use std::os::unix::fs::FileExt as _;
    let log = unpack("nvidia/h100-rm-client.klog.gz");
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(format!(".kinescope-record-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let file = fs::File::create(folder.join("F.klog")).unwrap();
    file.set_len(log.len() as u64 + (1 << 20)).unwrap();
    let seen = follow_log(&dir.path().join("F.kine"), &log, 5, |part| {
        file.write_all_at(part, 0).unwrap()
    });
    assert!(seen[4] > seen[1] && seen[1] > 0, "{seen:?}");
}
