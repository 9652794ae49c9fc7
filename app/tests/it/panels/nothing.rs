//! Tests that every panel handles every recording, even one without its data. No panel works forever, and no work ends
//! with an internal error.

use crate::common::Window;
use crate::common::net::net;
use kinescope::panels::PANELS;
use kinescope::panels::recording::plots::{ByKind, Section};
use trace_core::recording::{
    Access, DriverTraceMetadata, EventsBuilder, InterruptRow, ObjectAction, ObjectKind, ObjectRow, Recording,
    RingEntryRow, Space, SpaceKind, SubmitRow, TraceKind, UndecodedRow,
};
use trace_core::{GpuVa, RegOffset};
use trace_query::GroupBy;

/// Returns recordings that lack some kind of data, with their names.
fn incomplete_recordings() -> Vec<(&'static str, Recording)> {
    let recording = |mali: bool, fill: &dyn Fn(&mut EventsBuilder)| {
        let mut b = EventsBuilder::new();
        fill(&mut b);
        let mut r = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        if mali {
            r.metadata.identity.gpu_id = 0x6000_0000;
        }
        r.metadata.spaces.push(Space {
            name: "gpu".into(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        });
        r
    };
    let access = Access {
        space: 0,
        write: true,
        offset: RegOffset::new(0x24),
        width: 4,
        value: 1,
    };
    let submit = SubmitRow {
        head_va: GpuVa::new(0x1000),
        address_space: 0,
        slot: 1,
    };
    vec![
        ("no events", recording(true, &|_| {})),
        ("no events and no map", recording(false, &|_| {})),
        ("only marks", recording(true, &|b| b.mark(1, "begin"))),
        (
            "only interrupts",
            recording(true, &|b| b.interrupt(2, InterruptRow { line: 0, status: 1 })),
        ),
        ("no jobs", recording(true, &|b| b.access(1, 1, access))),
        ("no names", recording(false, &|b| b.access(1, 1, access))),
        (
            "only undecoded accesses",
            recording(true, &|b| {
                b.undecoded(1, 1, 0, UndecodedRow::from_access(RegOffset::new(0x20), true, 4))
            }),
        ),
        ("only submits", recording(true, &|b| b.submit(1, submit))),
        ("only calls", net(1).recording),
        ("driver trace", driver_trace()),
    ]
}

/// Returns a driver trace: a buffer and a ring entry whose commands it does not hold.
fn driver_trace() -> Recording {
    let mut b = EventsBuilder::new();
    b.object(
        0,
        1,
        ObjectRow {
            action: ObjectAction::Create as u32,
            kind: ObjectKind::Buffer as u32,
            ..ObjectRow::default()
        },
    );
    b.ring_entry(1, 1, RingEntryRow::default());
    let mut r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    r.metadata.kind = TraceKind::Driver(DriverTraceMetadata::default());
    r
}

#[test]
fn panels_refer_driver_traces_to_their_verbs() {
    let mut w = Window::from_recording(driver_trace());
    for (panel, named, verb) in [
        ("memory", "Objects", "objects"),
        ("page-tables", "Address space", "objects"),
        ("shader", "Push buffer", "pushbuffer"),
    ] {
        w.run(&format!("show-{panel}"));
        w.settle();
        assert!(w.has_part(&format!("`kinescope {verb}`")), "{panel}");
        assert!(w.has_part(&format!("{named} ")), "{panel} names the panel");
    }
    assert!(!w.has_part("no register map"), "a driver trace needs none");
}

/// Texts that a panel shows while it works.
const AT_WORK: [&str; 4] = ["counting accesses…", "filtering…", "sorting…", "looking for changes…"];

#[test]
fn panels_handle_recordings_without_their_data() {
    for (name, recording) in incomplete_recordings() {
        let mut w = Window::from_recording(recording);
        for panel in PANELS {
            w.run(&format!("show-{}", panel.id));
            w.settle();
            for section in Section::ALL {
                if panel.id == "plots" {
                    w.views().plots.section = section;
                }
                for _ in 0..3 {
                    w.settle();
                }
                assert!(
                    !w.has_part("stopped because of an internal error"),
                    "{name}: {} {section:?}",
                    panel.id
                );
                for at_work in AT_WORK {
                    assert!(!w.has_part(at_work), "{name}: {} {section:?}: {at_work}", panel.id);
                }
                if panel.id != "plots" {
                    break;
                }
            }
        }
    }
}

#[test]
fn counts_panel_refers_api_traces_to_launches() {
    let mut w = Window::from_recording(net(2).recording);
    w.run("show-plots");
    w.views().plots.section = Section::Counts;
    for by in GroupBy::ALL {
        w.views().plots.by = ByKind(by);
        for _ in 0..3 {
            w.settle();
        }
        let message = "This recording has no register accesses to count. Launches lists its kernel launches.";
        assert!(w.has_part(message), "{by:?}");
    }
}
