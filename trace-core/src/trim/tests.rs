use super::*;
use crate::RegOffset;
use crate::recording::{
    Access, ApiTraceMetadata, CallEvent, EventsBuilder, FrameRole, MemoryBuilder, PageId, TraceKind,
};

fn sample(name: &str) -> Recording {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../sample-traces")
        .join(name);
    crate::container::open(&path).unwrap()
}

fn jobs(list: &[u32]) -> TrimRequest {
    TrimRequest::new(Part::Jobs(list.iter().copied().collect()), "whole.kine")
}

fn trim_error(r: &Recording, request: &TrimRequest) -> String {
    trim(r, request, &Progress::new()).unwrap_err().to_string()
}

#[test]
fn trim_errors_name_missing_and_available_parts() {
    let r = sample("chain2.kine");
    assert_eq!(
        trim_error(&r, &jobs(&[1, 2])),
        "job 2 does not exist (the recording has 2, counted from 0)"
    );
    assert!(trim_error(&r, &jobs(&[])).starts_with("nothing is chosen"));
    let none = Recording::default();
    assert!(trim_error(&none, &jobs(&[0])).contains("--events A..=B"));
    let events = |range| TrimRequest::new(Part::Events(range), "");
    assert_eq!(
        trim_error(&r, &events(3..=158)),
        "event 158 does not exist (the recording has 158, counted from 0)"
    );
    #[allow(clippy::reversed_empty_ranges)]
    let empty = events(4..=3);
    assert!(trim_error(&r, &empty).starts_with("nothing is chosen"));
    let progress = Progress::new();
    progress.cancel();
    assert!(matches!(trim(&r, &jobs(&[0]), &progress), Err(TrimError::Cancelled(_))));
}

#[test]
fn trimmed_job_removes_only_its_submission_and_interrupt() {
    let r = sample("chain2.kine");
    let second = trim(&r, &jobs(&[1]), &Progress::new()).unwrap();
    // The removed events are the flush id, seven writes of the submission, and four accesses of the interrupt handler.
    let removed_events: Vec<u64> = (0..158).filter(|e| !second.events.contains(e)).collect();
    assert_eq!(removed_events, (88..100).collect::<Vec<_>>());
    let map = RegisterMap::for_recording(&second.recording).unwrap();
    let timeline = crate::timeline::derive(&second.recording, map, &Progress::new()).unwrap();
    assert_eq!(timeline.jobs.len(), 1);
    assert!(timeline.jobs[0].done_event.is_some());
    let cuts = &second.recording.metadata.cuts;
    assert_eq!(
        (cuts[0].events, cuts[0].jobs, &cuts[0].kept_jobs[..]),
        (158, 2, &[[1, 1]][..])
    );
    // The first job needs none of the CPU writes for the second.
    let first = trim(&r, &jobs(&[0]), &Progress::new()).unwrap();
    assert!(first.recording.events.host_writes.is_empty());
    assert_eq!(first.summary.host_writes_out, 4);
    assert!(first.summary.pages[1] < first.summary.pages[0]);
}

#[test]
fn event_range_starts_with_memory_at_its_start() {
    let mut events = EventsBuilder::new();
    let write = |value| Access {
        space: 0,
        write: true,
        offset: RegOffset::new(8),
        width: 4,
        value,
    };
    let mut m = MemoryBuilder::new();
    let pages: Vec<PageId> = (1..=4u8).map(|n| m.add_page(&[n; 4096])).collect();
    m.add_snapshot(0, [(5, pages[0], FrameRole::Data), (6, pages[1], FrameRole::Data)]);
    for n in 0..10 {
        events.access(n, 1, write(n));
        if n == 2 || n == 6 {
            let page = pages[if n == 2 { 2 } else { 3 }];
            let row = HostWriteRow {
                at: PhysAddr::new(5 << 12),
                bytes: 4096,
                page: page.0,
            };
            events.host_write(n, 1, row);
            m.add_changes(events.len() as u64, [(5, page, FrameRole::Data)]);
        }
    }
    let mut r = Recording {
        events: events.finish(),
        memory: m.finish(),
        ..Recording::default()
    };
    r.register_trace_mut().unwrap().screen_at_end = Some(vec![1]);
    r.extras.insert("note".into(), vec![2]);
    r.metadata.lost.push(crate::recording::LostEvents {
        before_event: 6,
        count: Some(1),
        reason: "full".into(),
    });
    let part = trim(&r, &TrimRequest::new(Part::Events(5..=9), "log"), &Progress::new()).unwrap();
    assert_eq!(part.events, [5, 6, 7, 8, 9]);
    let seen = |event: u64, frame| part.recording.memory.at(event).frame(frame).map(|p| p[0]);
    assert_eq!(
        [seen(0, 5), seen(0, 6), seen(3, 5), seen(4, 5)],
        [Some(3), Some(2), Some(3), Some(4)]
    );
    assert_eq!(part.recording.metadata.lost[0].before_event, 1);
    assert_eq!(part.summary.extras_out, ["note", "screen-at-end"]);
    assert_eq!(part.recording.metadata.cuts[0].kept_events, Some([5, 9]));
    // Contiguous CPU writes stay together.
    let within = trim(&r, &TrimRequest::new(Part::Events(3..=4), "log"), &Progress::new()).unwrap();
    assert_eq!(within.events, [3, 4]);
    // A trim to all events gives the same recording.
    let all = trim(&r, &TrimRequest::new(Part::Events(0..=11), "log"), &Progress::new()).unwrap();
    assert!(all.recording.metadata.cuts.is_empty() && all.recording.extras.contains_key("note"));
    assert!(all.recording.register_trace().unwrap().screen_at_end.is_some());
}

/// A run of a few bytes in a file can declare four billion frames of one image as page tables.
#[test]
fn trimmed_api_trace_keeps_metadata_arguments_copies_and_code() {
    let mut whole = sample("cuda/net.kine");
    if let TraceKind::Api(api) = &mut whole.metadata.kind {
        api.process.ended = true;
    }
    // The first launch of each layer; the module is loaded before, and the last launches and readbacks come after.
    let request = TrimRequest::new(Part::Events(2..=24), "net.kine");
    let trimmed = trim(&whole, &request, &Progress::new()).unwrap();
    let part = &trimmed.recording;
    assert_eq!((part.events.len(), &trimmed.summary.extras_out), (23, &Vec::new()));

    let (before, after) = (whole.api().unwrap(), part.api().unwrap());
    assert!(!after.process.ended, "the end of the program is not in the part");
    let without_pages = |api: &ApiTraceMetadata| {
        let mut api = api.clone();
        api.process.ended = false;
        api.modules.iter_mut().for_each(|m| m.pages.clear());
        api
    };
    assert_eq!(without_pages(after), without_pages(before));
    assert!(!before.modules.is_empty());
    for (m, n) in before.modules.iter().zip(&after.modules) {
        assert!(whole.module_code(m).is_some());
        assert_eq!(part.module_code(n), whole.module_code(m));
    }

    let (mut launches, mut contents) = (0, 0);
    for (new, old) in trimmed.events.iter().enumerate() {
        match (part.events.call(new), whole.events.call(*old as usize)) {
            (Some(CallEvent::Launch(n)), Some(CallEvent::Launch(o))) => {
                let arguments = part.events.call_arguments(n.arguments_at, n.arguments);
                assert!(arguments.as_ref().is_some_and(|a| !a.is_empty()));
                assert_eq!(arguments, whole.events.call_arguments(o.arguments_at, o.arguments));
                assert_eq!(n.function, o.function);
                launches += 1;
            }
            (Some(CallEvent::Copy(n)), Some(CallEvent::Copy(o))) => {
                assert!(part.copy_content(&n).is_some());
                assert_eq!(part.copy_content(&n), whole.copy_content(&o));
                contents += 1;
            }
            (new, old) => assert_eq!(new, old),
        }
    }
    assert_eq!((launches, contents), (4, 8));

    let api_trace = crate::api_trace::ApiTrace::from_recording(part, &Progress::new()).unwrap();
    assert_eq!(api_trace.unwrap().launches().len(), 4);
    // The part is stored and opened like any recording.
    let file = tempfile::NamedTempFile::new().unwrap();
    crate::container::write(part, file.path(), &Progress::new()).unwrap();
    let opened = crate::container::open(file.path()).unwrap();
    assert_eq!(opened.api(), part.api());
}

#[test]
fn huge_page_table_run_uses_little_memory() {
    let mut r = sample("chain2.kine");
    let mut snapshots = r.memory.snapshots.as_ref().clone();
    let run = crate::recording::PageRun {
        first_frame: 1 << 40,
        count: u32::MAX,
        first_page: PageId(1),
        repeat: true,
        role: FrameRole::Table,
    };
    snapshots[0].runs.push(run);
    r.memory.snapshots = Arc::new(snapshots);
    let part = trim(&r, &jobs(&[1]), &Progress::new()).unwrap();
    let last_run = part.recording.memory.snapshots[0].runs.last().unwrap();
    assert_eq!(
        (last_run.first_frame, last_run.count, last_run.repeat),
        (1 << 40, u32::MAX, true)
    );
}
