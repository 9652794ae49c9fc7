//! Fuzz target for filters: any text as a filter of a small recording that the start of the input describes.

use crate::input::Input;
use trace_core::filter::{Derived, JobBounds, Query, complete};
use trace_core::progress::Progress;
use trace_core::recording::{
    Access, DmaMapRow, EventsBuilder, HostWriteRow, InterruptRow, Space, SpaceKind, SubmitRow, UndecodedRow,
};
use trace_core::{BusAddr, GpuVa, PhysAddr, Recording, RegOffset};

/// Maximum number of events in the recording.
const MAX_EVENTS: u8 = 64;

/// Fuzzes a filter. The first byte is a number of events of eight bytes each, the rest is the filter's text. An error
/// always has a location, and completion always returns. A valid filter finds the same events in a scan as one by one.
pub fn filter(data: &[u8]) -> bool {
    let mut input = Input(data);
    let (recording, derived) = recorded(&mut input);
    let text = String::from_utf8_lossy(input.0);
    for at in [0, text.len() / 2, text.len()] {
        let offered = complete(&text, at, &recording);
        assert!(text.get(offered.replace).is_some());
    }
    let compiled = Query::parse(&text).and_then(|q| q.compile(&recording, Some(&derived)));
    let filter = match compiled {
        Ok(f) => f,
        Err(e) => {
            assert!(text.get(e.span.clone()).is_some() && e.caret(&text, "").contains('^'));
            return false;
        }
    };
    let found = filter.select(&recording.events, &Progress::new());
    let found = found.unwrap_or_else(|e| panic!("{e}"));
    for event in 0..recording.events.len() as u64 {
        assert_eq!(
            found.contains(event),
            filter.is_match(&recording.events, event),
            "event {event}"
        );
    }
    true
}

/// Reads events of eight bytes each after their number, and the jobs and polls among them.
pub(crate) fn recorded(input: &mut Input<'_>) -> (Recording, Derived) {
    let mut b = EventsBuilder::new();
    let mut derived = Derived::default();
    for event in 0..u64::from(input.u8().min(MAX_EVENTS)) {
        let (kind, thread, offset, value) = (input.u8(), input.u8(), input.u16(), input.u32());
        let time = event * 1_000;
        let thread = u32::from(thread % 4);
        match kind % 16 {
            8 => b.interrupt(
                time,
                InterruptRow {
                    line: u32::from(offset),
                    status: value,
                },
            ),
            9 => b.mark(time, format!("mark {value}")),
            10 => b.submit(
                time,
                SubmitRow {
                    head_va: GpuVa::new(u64::from(value)),
                    address_space: 0,
                    slot: 0,
                },
            ),
            11 => b.host_write(
                time,
                thread,
                HostWriteRow {
                    at: PhysAddr::new(u64::from(value)),
                    bytes: u32::from(offset),
                    page: 0,
                },
            ),
            12 => b.undecoded(
                time,
                thread,
                kind >> 7,
                UndecodedRow {
                    offset: RegOffset::new(u32::from(offset)),
                    code: value,
                },
            ),
            13 => b.dma_map(
                time,
                thread,
                DmaMapRow {
                    bus: BusAddr::new(u64::from(value)),
                    bytes: u64::from(offset),
                    kind: 1,
                    reserved: 0,
                },
            ),
            _ => {
                if kind % 16 == 7 {
                    derived.jobs.push(JobBounds {
                        slot: kind >> 6,
                        submit: event,
                        done: (value & 1 == 0).then_some(event + u64::from(value >> 28)),
                        head_va: GpuVa::new(u64::from(value)),
                    });
                }
                b.access(
                    time,
                    thread,
                    Access {
                        space: kind >> 7,
                        write: kind & 1 == 1,
                        offset: RegOffset::new(u32::from(offset)),
                        width: 1 << (kind >> 4 & 3),
                        value: u64::from(value),
                    },
                );
            }
        }
    }
    derived
        .polls
        .extend(derived.jobs.iter().map(|j| (j.submit, j.done.unwrap_or(j.submit))));
    let space = |name: &str, kind| Space {
        name: name.into(),
        kind,
        bytes: 1 << 16,
    };
    let mut recording = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    // A Mali-G71.
    recording.metadata.identity.gpu_id = 0x6000_0000;
    recording.metadata.spaces = vec![
        space("gpu", SpaceKind::Registers),
        space("bar1", SpaceKind::Framebuffer),
    ];
    (recording, derived)
}
