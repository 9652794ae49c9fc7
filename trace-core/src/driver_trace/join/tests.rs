//! Tests of joins on small recordings.

use super::*;
use crate::families::find_driver_ranges;
use crate::recording::{
    Access, ApiTraceMetadata, CopyRow, DriverTraceMetadata, LaunchRow, LostEvents, Metadata, RingEntryRow, Space,
    SpaceKind,
};
use crate::{GpuVa, PAGE_SIZE, RegOffset};

const PROCESS: u32 = 77;

/// A trace whose times start at 1000: a call with arguments at 10 to 20, a launch at 100 to 150, a copy at 300 to 310
/// with a page.
fn api_trace() -> Recording {
    let (mut events, mut memory) = (EventsBuilder::new(), MemoryBuilder::new());
    let arguments_at = events.call_bytes(&[1, 2, 3, 4]);
    let call = CallRow {
        arguments_at,
        arguments: 4,
        took: 10,
        ..CallRow::default()
    };
    events.call(10, 5, call);
    let launch = LaunchRow {
        took: 50,
        ..LaunchRow::default()
    };
    events.launch(100, 5, launch);
    let pages_at = events.call_pages(&[memory.add_page(&[7; PAGE_SIZE]).0]);
    let copy = CopyRow {
        pages_at,
        took: 10,
        ..CopyRow::default()
    };
    events.copy(300, 5, copy);
    let mut calls = ApiTraceMetadata {
        names: vec!["cuInit".into()],
        clock_start: Some(1000),
        ..ApiTraceMetadata::default()
    };
    calls.process.number = PROCESS;
    Recording {
        metadata: Metadata {
            kind: TraceKind::Api(calls),
            lost: vec![LostEvents {
                before_event: 1,
                count: None,
                reason: "late".into(),
            }],
            ..Metadata::default()
        },
        events: events.finish(),
        memory: memory.finish(),
        ..Recording::default()
    }
}

/// A trace whose times start at 900: a request at 50, an entry and its doorbell in the launch, one of another thread.
fn driver_trace() -> Recording {
    let (mut events, mut memory) = (EventsBuilder::new(), MemoryBuilder::new());
    let request = CallRow {
        arguments_at: events.call_bytes(&[9, 9]),
        arguments: 2,
        ..CallRow::default()
    };
    events.call(50, 5, request);
    memory.add_page(&[1; PAGE_SIZE]);
    let pages_at = events.call_pages(&[memory.add_page(&[7; PAGE_SIZE]).0, memory.add_page(&[2; PAGE_SIZE]).0]);
    let entry = RingEntryRow {
        va: GpuVa::new(0x1000),
        bytes: 0x2000,
        pages_at,
        channel: 3,
        ..RingEntryRow::default()
    };
    events.ring_entry(220, 5, entry);
    let doorbell = Access {
        space: 0,
        write: true,
        offset: RegOffset::new(0x90),
        width: 4,
        value: 3,
    };
    events.access(225, 5, doorbell);
    let other = RingEntryRow {
        pages_at: NO_CONTENT,
        ..entry
    };
    events.ring_entry(230, 6, other);
    let requests = DriverTraceMetadata {
        names: vec!["RM_ALLOC".into()],
        clock_start: Some(900),
        process: Some(PROCESS),
        ..DriverTraceMetadata::default()
    };
    Recording {
        metadata: Metadata {
            kind: TraceKind::Driver(requests),
            spaces: vec![Space {
                name: "usermode".into(),
                kind: SpaceKind::Registers,
                bytes: 0x1_0000,
            }],
            ..Metadata::default()
        },
        events: events.finish(),
        memory: memory.finish(),
        ..Recording::default()
    }
}

#[test]
fn events_are_in_the_order_of_their_times() {
    let joined = join_driver_trace(&api_trace(), &driver_trace()).unwrap();
    use EventKind as K;
    let kinds: Vec<K> = (0..joined.events.len())
        .map(|e| joined.events.kind(e).unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            K::Call,
            K::Call,
            K::RingEntry,
            K::Write,
            K::RingEntry,
            K::Launch,
            K::Copy
        ]
    );
    let times: Vec<u64> = joined.events.time.iter().collect();
    assert_eq!(times, [0, 10, 120, 125, 130, 100, 300]);
    assert_eq!(joined.metadata.lost[0].before_event, 5);
    assert_eq!(joined.metadata.spaces.len(), 1);
}

#[test]
fn names_and_contents_keep_their_meaning() {
    let joined = join_driver_trace(&api_trace(), &driver_trace()).unwrap();
    let text = |event: usize| joined.events.call(event).unwrap().describe(joined.api());
    assert_eq!((text(0).as_str(), text(1).as_str()), ("RM_ALLOC", "cuInit"));
    let arguments: Vec<_> = joined
        .events
        .calls
        .iter()
        .map(|c| (c.arguments_at, c.arguments, c.is_request()))
        .collect();
    assert_eq!(arguments, [(4, 2, true), (0, 4, false)]);
    assert_eq!(joined.events.call_arguments(4, 2).unwrap(), [9, 9]);
    let content = |event: usize| {
        let rows = joined.events.stored_content(event)?.rows()?;
        let pages = rows.map(|row| {
            let id = joined.events.call_pages.get(row as usize).unwrap();
            joined.memory.pages.page(PageId(id)).unwrap()[0]
        });
        Some(pages.collect::<Vec<u8>>())
    };
    assert_eq!(content(2), Some(vec![7, 2]));
    assert_eq!(content(4), None);
    let copy = joined.events.copies.get(0).unwrap();
    assert_eq!(joined.events.call_pages.get(copy.pages_at as usize), Some(1));
    assert_eq!(joined.driver_trace().unwrap().names, ["RM_ALLOC"]);
}

#[test]
fn joined_requests_keep_their_names() {
    let call = |numbers: [u64; 4], events: &mut EventsBuilder| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let row = CallRow {
            arguments_at: events.call_bytes(&bytes),
            arguments: 32,
            ..CallRow::default()
        };
        events.call(60, 5, row);
    };
    let (mut events, mut own) = (EventsBuilder::new(), EventsBuilder::new());
    call([0, 0x2000, 0, 0x7f00_0000_0000], &mut events);
    call([1, 2, 3, 0x5c00_0003_c1d0_0000], &mut own);
    let (mut driver, mut api) = (driver_trace(), api_trace());
    let TraceKind::Driver(requests) = &mut driver.metadata.kind else {
        panic!("a driver trace");
    };
    requests.names = vec!["mmap /dev/nvidia-uvm".into()];
    driver.events = events.finish();
    api.events = own.finish();
    let expected = GpuVa::new(0x7f00_0000_0000)..GpuVa::new(0x7f00_0000_2000);
    let joined = join_driver_trace(&api, &driver).unwrap();
    for recording in [&driver, &joined] {
        assert_eq!(find_driver_ranges(recording), std::slice::from_ref(&expected));
    }
    let names: Vec<_> = (0..2)
        .map(|n| joined.call_name(&joined.events.calls.get(n).unwrap()).unwrap())
        .collect();
    assert_eq!(names, ["mmap /dev/nvidia-uvm", "cuInit"]);
}

#[test]
fn recordings_that_do_not_fit_are_refused() {
    let (api, driver) = (api_trace(), driver_trace());
    assert_eq!(join_driver_trace(&driver, &api).unwrap_err(), JoinError::WrongKind);
    let joined = join_driver_trace(&api, &driver).unwrap();
    assert_eq!(
        join_driver_trace(&joined, &driver).unwrap_err(),
        JoinError::AlreadyJoined
    );
    let with = |change: fn(&mut DriverTraceMetadata)| {
        let mut changed = driver_trace();
        if let TraceKind::Driver(requests) = &mut changed.metadata.kind {
            change(requests);
        }
        join_driver_trace(&api, &changed).unwrap_err()
    };
    let recording = "driver trace";
    assert_eq!(with(|r| r.clock_start = None), JoinError::UnknownClock { recording });
    let other = JoinError::DifferentProcesses {
        api: PROCESS,
        driver: 78,
    };
    assert_eq!(with(|r| r.process = Some(78)), other);
}
