//! Tests that independent readers of waveforms and traces read what the recording holds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use perfetto_protos::trace::Trace;
use perfetto_protos::track_event::track_event::{Counter_value_field, Name_field, Type};
use protobuf::Message as _;
use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;
use std::path::Path;
use trace_core::filter::Selection;
use trace_core::progress::Progress;
use trace_core::recording::{
    Access, DmaKind, DmaMapRow, EventsBuilder, HostWriteRow, InterruptRow, Space, SpaceKind, SubmitRow, UndecodedRow,
};
use trace_core::registers::RegisterMap;
use trace_core::timeline::{self, JobSpan, Timeline};
use trace_core::{BusAddr, GpuVa, PhysAddr, Recording, RegOffset};
use trace_waves::{Clock, ExportSummary, MAX_LANES, MAX_SIGNALS, MAX_THREADS, Source, WavesError};
use wellen::simple::Waveform;

/// Returns a recording with every kind of event. Some events have one time, the clock runs backwards, and names have
/// odd characters. The accesses include 64 bits, parts of registers, and offsets that no map names.
fn mixed() -> Recording {
    let access = |space, write, offset, width, value| Access {
        space,
        write,
        offset,
        width,
        value,
    };
    let mut b = EventsBuilder::new();
    b.access(100, 7, access(0, false, RegOffset::ZERO, 4, 0x60a0_0002));
    b.access(100, 7, access(0, true, RegOffset::new(0x18e0), 4, 1));
    b.access(100, 7, access(0, true, RegOffset::new(0x18e0), 4, 1));
    b.access(90, 8, access(0, true, RegOffset::new(0x18e0), 4, 0));
    // One access covers both halves of a pair of registers.
    b.access(
        110,
        8,
        access(0, true, RegOffset::new(0x1840), 8, 0xffff_ffff_0000_2000),
    );
    // The next two accesses are between registers.
    b.access(120, 7, access(0, true, RegOffset::new(0x3ff0), 4, 0xdead_beef));
    b.access(121, 7, access(0, false, RegOffset::new(0x3ff0), 1, 0x11));
    b.access(130, 0, access(1, true, RegOffset::new(0x10), 8, u64::MAX));
    b.access(131, 0, access(1, true, RegOffset::new(0x10), 2, 0));
    b.interrupt(140, InterruptRow { line: 0, status: 2 });
    b.interrupt(140, InterruptRow { line: 9, status: 5 });
    b.mark(141, "one $end \"two\"\n#7 é");
    b.submit(
        150,
        SubmitRow {
            head_va: GpuVa::new(0x1_0000_2000),
            address_space: 0,
            slot: 1,
        },
    );
    b.host_write(
        160,
        7,
        HostWriteRow {
            at: PhysAddr::new(0x8000_1000),
            bytes: 64,
            page: 0,
        },
    );
    b.undecoded(170, 7, 0, UndecodedRow::from_access(RegOffset::new(0x3ff0), true, 4));
    let mapping = DmaMapRow {
        bus: BusAddr::new(0x1000),
        bytes: 64,
        kind: DmaKind::Mapped as u32,
        reserved: 0,
    };
    b.dma_map(180, 7, mapping);
    b.dma_map(
        181,
        7,
        DmaMapRow {
            bus: DmaMapRow::UNKNOWN,
            ..mapping
        },
    );
    let mut r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    r.metadata.identity.gpu_id = 0x60a0_0002;
    for name in ["gpu", "bar 1: $end\t#0"] {
        r.metadata.spaces.push(Space {
            name: name.into(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        });
    }
    r
}

fn sample(name: &str) -> Recording {
    let at = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../sample-traces")
        .join(name);
    trace_core::container::open(&at).unwrap()
}

fn derived(r: &Recording) -> Timeline {
    RegisterMap::for_recording(r).map_or_else(Timeline::default, |map| {
        timeline::derive(r, map, &Progress::new()).unwrap()
    })
}

type Write = fn(&Source<'_>, &mut dyn std::io::Write, &Progress) -> Result<ExportSummary, WavesError>;

fn export(write: Write, r: &Recording, events: Option<&Selection>, clock: Clock) -> (Vec<u8>, ExportSummary) {
    let source = Source {
        recording: r,
        timeline: &derived(r),
        events,
        clock,
    };
    let mut out = Vec::new();
    let done = write(&source, &mut out, &Progress::new()).unwrap();
    (out, done)
}

/// Signals by their full names: times and bits of every change.
type Waves = BTreeMap<String, Vec<(u64, String)>>;

fn read(bytes: Vec<u8>) -> Waves {
    let mut file: Waveform = wellen::simple::read_from_reader(Cursor::new(bytes)).unwrap();
    let vars: Vec<_> = file
        .hierarchy()
        .all_vars()
        .map(|v| {
            let v = &file.hierarchy()[v];
            (v.full_name(file.hierarchy()), v.signal_ref())
        })
        .collect();
    let ids: Vec<_> = vars.iter().map(|v| v.1).collect();
    file.load_signals(&ids);
    let times = file.time_table().to_vec();
    vars.into_iter()
        .map(|(name, id)| {
            let changes = file.get_signal(id).unwrap().iter_changes();
            let changes = changes.map(|(t, v)| (times[t as usize], v.to_bit_string().unwrap()));
            // FST has a value of every signal from the first time on. An unknown value is not a change.
            let known = changes.skip_while(|(_, v)| v.bytes().all(|b| b == b'x'));
            (name, known.collect())
        })
        .collect()
}

fn bits(width: usize, value: u64) -> String {
    format!("{value:0width$b}")
}

/// Returns the last change at each time, without changes that repeat the value.
fn settle(changes: impl IntoIterator<Item = (u64, String)>) -> Vec<(u64, String)> {
    let mut out: Vec<(u64, String)> = Vec::new();
    for (time, value) in changes {
        match out.last_mut() {
            Some(last) if last.0 == time => last.1 = value,
            _ => out.push((time, value)),
        }
    }
    out.dedup_by(|b, a| a.1 == b.1);
    out
}

const BOTH: [Write; 2] = [trace_waves::vcd, trace_waves::fst];

#[test]
fn every_kind_of_event_is_in_a_waveform() {
    let r = mixed();
    for write in BOTH {
        let (bytes, done) = export(write, &r, None, Clock::Events);
        let waves = read(bytes);
        assert_eq!(done.events, r.events.len() as u64);
        assert_eq!(done.signals, waves.len() as u64);
        assert_eq!((done.left_out, done.held_back), (0, 0));
        let changes_of = |name: &str| {
            let found = waves.get(name);
            settle(
                found
                    .unwrap_or_else(|| panic!("{name} in {:?}", waves.keys()))
                    .iter()
                    .cloned(),
            )
        };
        let event: Vec<(u64, String)> = (0..r.events.len() as u64).map(|e| (e, bits(64, e))).collect();
        assert_eq!(changes_of("kinescope.event"), event);
        let command = "kinescope.gpu.JOB_SLOT1.JS1_COMMAND_NEXT";
        assert_eq!(changes_of(command), [(1, bits(32, 1)), (3, bits(32, 0))]);
        assert_eq!(
            changes_of(&format!("{command}_writes")),
            [(0, bits(32, 0)), (1, bits(32, 1)), (2, bits(32, 2)), (3, bits(32, 3))]
        );
        assert_eq!(
            changes_of("kinescope.gpu.GPU_CONTROL.GPU_ID"),
            [(0, bits(32, 0x60a0_0002))]
        );
        // This device takes only accesses of 4 bytes, so an access of 8 bytes has a signal of its own. It changes the
        // registers over the same bytes too, if they have a signal.
        let wide = changes_of("kinescope.gpu.unnamed.at_1840");
        assert_eq!(wide, [(4, bits(64, 0xffff_ffff_0000_2000))]);
        let unnamed = changes_of("kinescope.gpu.unnamed.at_3ff0");
        assert_eq!(
            unnamed,
            [
                (5, bits(32, 0xdead_beef)),
                (6, bits(32, 0xdead_be11)),
                (14, "x".repeat(32))
            ]
        );
        let other = "kinescope.bar_1___end__0.unnamed.at_10";
        assert_eq!(
            changes_of(other),
            [(7, bits(64, u64::MAX)), (8, bits(64, 0xffff_ffff_ffff_0000))]
        );
        assert_eq!(changes_of("kinescope.interrupts.job_status"), [(9, bits(64, 2))]);
        assert_eq!(changes_of("kinescope.interrupts.line9_status"), [(10, bits(64, 5))]);
        assert_eq!(changes_of("kinescope.marks"), [(0, bits(32, 0)), (11, bits(32, 1))]);
        assert_eq!(
            changes_of("kinescope.jobs.slot1_submitted_head"),
            [(12, bits(64, 0x1_0000_2000))]
        );
        assert_eq!(
            changes_of("kinescope.memory.cpu_write_address"),
            [(13, bits(64, 0x8000_1000))]
        );
        assert_eq!(
            changes_of("kinescope.memory.dma_address"),
            [(15, bits(64, 0x1000)), (16, "x".repeat(64))]
        );
    }
}

/// Returns a recording of accesses of all widths at all alignments over few bytes: registers of the map and locations
/// without a name, values that are known and accesses that were not decoded.
fn overlapping() -> Recording {
    let mut state = 1u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let mut b = EventsBuilder::new();
    for time in 0..2000u64 {
        let width = [1, 2, 4, 8][next(4) as usize];
        // Job slot registers of a Mali, the last ones of a block, and a hole.
        let base = [0x1840, 0x18fc, 0x3ff0][next(3) as usize];
        let offset = RegOffset::new(base + next(12));
        if next(10) == 0 {
            b.undecoded(time, 1, 0, UndecodedRow::from_access(offset, true, width));
            continue;
        }
        let value = u64::from(next(1 << 16)) << 48 | u64::from(next(1 << 16)) << 24 | u64::from(next(1 << 16));
        let access = Access {
            space: 0,
            write: next(2) == 0,
            offset,
            width,
            value: value & (u64::MAX >> (64 - u32::from(width) * 8)),
        };
        b.access(time, 1, access);
    }
    let mut r = recording_of(b);
    r.metadata.identity.gpu_id = 0x60a0_0002;
    r.metadata.spaces.push(Space {
        name: "gpu".into(),
        kind: SpaceKind::Registers,
        bytes: 0x4000,
    });
    r
}

#[test]
fn signals_over_the_same_bytes_show_the_same_bytes() {
    let r = overlapping();
    let map = RegisterMap::for_recording(&r).unwrap();
    // The bytes of the space after each event; `None` if they are unknown.
    let mut memory: HashMap<u32, Option<u8>> = HashMap::new();
    let mut states = Vec::new();
    for event in 0..r.events.len() {
        let (offset, width, value) = match (r.events.access(event), r.events.undecoded(event)) {
            (Some(a), _) => (a.offset.get(), a.width, Some(a.value)),
            (_, Some(u)) => (u.offset.get(), u.width().unwrap(), None),
            _ => panic!("{event}"),
        };
        for n in 0..u32::from(width) {
            memory.insert(offset + n, value.map(|v| (v >> (n * 8)) as u8));
        }
        states.push(memory.clone());
    }
    let shown = |at: u32, bytes: u32, event: usize| -> String {
        let byte = |n: u32| match states[event].get(&(at + n)).copied().flatten() {
            Some(b) => bits(8, u64::from(b)),
            None => "x".repeat(8),
        };
        (0..bytes).rev().map(byte).collect()
    };
    for write in BOTH {
        let (bytes, _) = export(write, &r, None, Clock::Events);
        let waves = read(bytes);
        let mut compared = 0;
        for (name, changes) in waves {
            let word = name.rsplit('.').next().unwrap();
            let at = match word.strip_prefix("at_") {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => map.find_by_name(word).map(|r| r.offset.get()),
            };
            let Some(at) = at else { continue };
            let width = changes[0].1.len() as u32 / 8;
            let changes = settle(changes);
            let first = changes[0].0 as usize;
            let expected = (first..r.events.len()).map(|e| (e as u64, shown(at, width, e)));
            assert_eq!(changes, settle(expected), "{name}");
            assert!(
                (0..first).all(|e| shown(at, width, e).bytes().all(|b| b == b'x')),
                "{name}"
            );
            compared += 1;
        }
        assert!(compared > 25, "{compared}");
    }
    // A counter has a value once all bytes of its register are known. A location that gets wider keeps its track.
    let (bytes, _) = export(trace_waves::perfetto, &r, None, Clock::Events);
    let mut compared = 0;
    for (name, counts) in perfetto(&bytes).counters {
        let at = match name.strip_prefix("at_") {
            Some(digits) => u32::from_str_radix(digits, 16).unwrap(),
            None => map.find_by_name(&name).unwrap().offset.get(),
        };
        for (event, value) in counts {
            let is_shown = |bytes| {
                let text = shown(at, bytes, event as usize);
                u64::from_str_radix(&text, 2).is_ok_and(|v| v as f64 == value)
            };
            assert!((1..=8).any(is_shown), "{name} at {event}: {value}");
            compared += 1;
        }
    }
    assert!(compared > 2000, "{compared}");
}

#[test]
fn exports_keep_event_order_with_equal_or_backward_times() {
    let r = mixed();
    for write in BOTH {
        let (bytes, done) = export(write, &r, None, Clock::Time);
        let waves = read(bytes);
        assert_eq!(done.held_back, 1);
        let command = settle(waves["kinescope.gpu.JOB_SLOT1.JS1_COMMAND_NEXT"].iter().cloned());
        assert_eq!(command, [(100, bits(32, 0))], "only the last value at a time remains");
        let writes = settle(waves["kinescope.gpu.JOB_SLOT1.JS1_COMMAND_NEXT_writes"].iter().cloned());
        assert_eq!(writes, [(100, bits(32, 3))], "no write is lost");
    }
}

/// Returns the values of all registers without the walk of the library. Every access has the width of its register.
fn naive(r: &Recording) -> HashMap<String, Vec<(u64, String)>> {
    let map = RegisterMap::for_recording(r).unwrap();
    let mut out: HashMap<String, Vec<(u64, String)>> = HashMap::new();
    for (event, a) in r.events.accesses(0..r.events.len()) {
        let Some(register) = map.at(a.offset) else { continue };
        assert_eq!(register.width, a.width);
        let width = usize::from(a.width) * 8;
        out.entry(register.name.clone())
            .or_default()
            .push((event as u64, bits(width, a.value)));
    }
    out
}

#[test]
fn register_signals_have_the_values_of_their_accesses() {
    let r = sample("vecadd.kine");
    let jobs = derived(&r).jobs;
    assert!(!jobs.is_empty());
    for write in BOTH {
        let (bytes, _) = export(write, &r, None, Clock::Events);
        let waves = read(bytes);
        let naive = naive(&r);
        assert!(naive.len() > 20, "{}", naive.len());
        for (name, changes) in naive {
            let end = format!(".{name}");
            let found: Vec<_> = waves.iter().filter(|(n, _)| n.ends_with(&end)).collect();
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(settle(found[0].1.iter().cloned()), settle(changes), "{name}");
        }
        let slot = jobs[0].slot;
        let rises = |n: &&(u64, String)| n.1 == "1";
        let running = settle(waves[&format!("kinescope.jobs.slot{slot}_running")].iter().cloned());
        assert_eq!(running.iter().find(rises).unwrap().0, jobs[0].submit_event);
    }
}

#[test]
fn exported_waves_contain_only_the_selection() {
    let r = mixed();
    let first: Selection = [0u64].into_iter().collect();
    let chosen: Selection = [0u64, 9].into_iter().collect();
    let none = Selection::default();
    for write in BOTH {
        let (bytes, done) = export(write, &r, Some(&chosen), Clock::Time);
        let waves = read(bytes);
        assert_eq!(done.events, 2);
        let names: Vec<&str> = waves.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "kinescope.event",
                "kinescope.gpu.GPU_CONTROL.GPU_ID",
                "kinescope.gpu.GPU_CONTROL.GPU_ID_reads",
                "kinescope.interrupts.job_count",
                "kinescope.interrupts.job_status",
            ]
        );
        let (bytes, _) = export(write, &r, Some(&first), Clock::Events);
        let id = &read(bytes)["kinescope.gpu.GPU_CONTROL.GPU_ID"];
        assert_eq!(settle(id.iter().cloned()), [(0, bits(32, 0x60a0_0002))]);
        let (bytes, done) = export(write, &r, Some(&none), Clock::Time);
        assert_eq!((done.events, done.signals), (0, 1));
        assert_eq!(read(bytes), Waves::from([("kinescope.event".to_owned(), Vec::new())]));
    }
}

#[test]
fn vcd_signals_over_the_limit_are_counted() {
    let mut b = EventsBuilder::new();
    for i in 0..MAX_SIGNALS as u32 {
        b.access(
            u64::from(i),
            1,
            Access {
                space: 0,
                write: true,
                offset: RegOffset::new(i * 4),
                width: 4,
                value: 1,
            },
        );
    }
    let r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    let (_, done) = export(trace_waves::vcd, &r, None, Clock::Time);
    assert_eq!(done.signals, MAX_SIGNALS as u64);
    assert!(done.left_out > 30_000, "{}", done.left_out);
}

#[test]
fn cancelled_waveform_export_ends() {
    let progress = Progress::new();
    progress.cancel();
    let (r, timeline) = (mixed(), Timeline::default());
    for write in [trace_waves::vcd, trace_waves::fst, trace_waves::perfetto] {
        let source = Source {
            recording: &r,
            timeline: &timeline,
            events: None,
            clock: Clock::Time,
        };
        let ended = write(&source, &mut Vec::new(), &progress);
        assert!(matches!(ended, Err(WavesError::Cancelled(_))));
    }
}

/// A trace that was read with the published schema: slices, instants and counters with the names of their tracks.
#[derive(Default)]
struct Tracks {
    /// Track, begin, end, name.
    slices: Vec<(String, u64, u64, String)>,
    /// Track, time, name, notes.
    instants: Vec<(String, u64, String, HashMap<String, String>)>,
    /// Track: times and values.
    counters: HashMap<String, Vec<(u64, f64)>>,
    threads: Vec<i32>,
}

fn perfetto(bytes: &[u8]) -> Tracks {
    let trace = Trace::parse_from_bytes(bytes).unwrap();
    let unknown = |m: &protobuf::SpecialFields| m.unknown_fields().iter().count();
    assert_eq!(unknown(&trace.special_fields), 0);
    let mut out = Tracks::default();
    let (mut names, mut tracks) = (HashMap::new(), HashMap::new());
    let mut open: HashMap<u64, Vec<(u64, String)>> = HashMap::new();
    let mut latest: HashMap<u64, u64> = HashMap::new();
    for p in &trace.packet {
        assert_eq!(unknown(&p.special_fields), 0);
        assert_eq!(p.trusted_packet_sequence_id(), 1);
        for n in &p.interned_data.event_names {
            assert!(
                names.insert(n.iid(), n.name().to_owned()).is_none(),
                "a name is defined once"
            );
        }
        if p.has_track_descriptor() {
            let d = p.track_descriptor();
            assert_eq!(unknown(&d.special_fields), 0);
            let name = if d.process.is_some() {
                d.process.process_name()
            } else {
                d.name()
            };
            assert!(d.process.is_some() || tracks.contains_key(&d.parent_uuid()));
            assert!(
                tracks.insert(d.uuid(), name.to_owned()).is_none(),
                "a track has its own number"
            );
            out.threads.extend(d.thread.as_ref().map(|t| t.tid()));
        }
        if !p.has_track_event() {
            continue;
        }
        let (e, time) = (p.track_event(), p.timestamp());
        assert_eq!(unknown(&e.special_fields), 0);
        let track = tracks[&e.track_uuid()].clone();
        let before = latest.insert(e.track_uuid(), time).unwrap_or(0);
        assert!(before <= time, "{track}: {before} then {time}");
        let name = match &e.name_field {
            Some(Name_field::NameIid(id)) => names[id].clone(),
            Some(Name_field::Name(n)) => n.clone(),
            _ => String::new(),
        };
        let notes = e.debug_annotations.iter().map(|a| {
            let value = match () {
                () if a.has_uint_value() => a.uint_value().to_string(),
                () if a.has_pointer_value() => format!("{:#x}", a.pointer_value()),
                () => a.string_value().to_owned(),
            };
            (a.name().to_owned(), value)
        });
        match e.type_() {
            Type::TYPE_SLICE_BEGIN => open.entry(e.track_uuid()).or_default().push((time, name)),
            Type::TYPE_SLICE_END => {
                let (begin, name) = open.get_mut(&e.track_uuid()).unwrap().pop().unwrap();
                out.slices.push((track, begin, time, name));
            }
            Type::TYPE_INSTANT => out.instants.push((track, time, name, notes.collect())),
            Type::TYPE_COUNTER => {
                let value = match e.counter_value_field {
                    Some(Counter_value_field::CounterValue(n)) => n as f64,
                    Some(Counter_value_field::DoubleCounterValue(n)) => n,
                    _ => panic!("{track}: a counter without a value"),
                };
                out.counters.entry(track).or_default().push((time, value));
            }
            other => panic!("{track}: {other:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    out
}

#[test]
fn perfetto_trace_has_every_event_kind() {
    let r = mixed();
    let (bytes, done) = export(trace_waves::perfetto, &r, None, Clock::Events);
    let t = perfetto(&bytes);
    assert_eq!(done.events, r.events.len() as u64);
    assert_eq!(t.instants.len(), r.events.len());
    assert_eq!(t.threads, [7, 8]);
    let all: Vec<(&str, &str)> = t.instants.iter().map(|i| (i.0.as_str(), i.2.as_str())).collect();
    assert_eq!(all[0], ("Thread 7", "read GPU_ID"));
    assert_eq!(all[3], ("Thread 8", "write JS1_COMMAND_NEXT"));
    assert_eq!(all[7], ("Thread 0", "write bar 1: $end\t#0+0x10"));
    assert_eq!(all[9], ("Interrupts", "job"));
    assert_eq!(all[10], ("Interrupts", "line 9"));
    assert_eq!(all[11], ("Marks", "one $end \"two\"\n#7 é"));
    assert_eq!(all[12], ("Submits", "submit to slot 1"));
    assert_eq!(all[13], ("CPU writes to memory", "CPU write"));
    assert_eq!(all[14], ("Thread 7", "undecoded gpu+0x3ff0"));
    assert_eq!(all[15], ("Memory for the device", "mapped 64 bytes at 0x1000"));
    assert_eq!(t.instants[7].3["value"], "0xffffffffffffffff");
    for (at, i) in t.instants.iter().enumerate() {
        assert_eq!((i.1, &i.3["event"]), (at as u64, &at.to_string()));
    }
    assert_eq!(t.counters["JS1_COMMAND_NEXT"], [(1, 1.0), (2, 1.0), (3, 0.0)]);
    assert_eq!(t.counters["at_10"][0], (7, u64::MAX as f64));
}

#[test]
fn jobs_and_phases_are_exported_as_slices() {
    let r = sample("vecadd.kine");
    let timeline = derived(&r);
    let (bytes, _) = export(trace_waves::perfetto, &r, None, Clock::Time);
    let t = perfetto(&bytes);
    let time = |e: u64| r.events.time.get(e as usize).unwrap();
    let jobs: Vec<_> = t.slices.iter().filter(|s| s.0.starts_with("Job slot")).collect();
    assert_eq!(jobs.len(), timeline.jobs.len());
    for (found, job) in jobs.iter().zip(&timeline.jobs) {
        assert_eq!(
            (found.1, found.3.as_str()),
            (time(job.submit_event), format!("job {}", job.index).as_str())
        );
        assert_eq!(found.2, time(job.done_event.unwrap()));
    }
    let phases = t.slices.iter().filter(|s| s.0 == "Phases").count();
    assert_eq!(phases, timeline.phases.len());
    let none = Selection::default();
    let (bytes, done) = export(trace_waves::perfetto, &r, Some(&none), Clock::Time);
    let t = perfetto(&bytes);
    assert_eq!((done.events, t.instants.len(), t.counters.len()), (0, 0, 0));
    assert_eq!(t.slices.len(), timeline.phases.len());
}

/// Returns a write of a register of the first space.
fn write(offset: u32, value: u64) -> Access {
    Access {
        space: 0,
        write: true,
        offset: RegOffset::new(offset),
        width: 4,
        value,
    }
}

fn recording_of(b: EventsBuilder) -> Recording {
    Recording {
        events: b.finish(),
        ..Recording::default()
    }
}

fn export_timeline(write: Write, r: &Recording, timeline: &Timeline) -> (Vec<u8>, ExportSummary) {
    let source = Source {
        recording: r,
        timeline,
        events: None,
        clock: Clock::Time,
    };
    let mut out = Vec::new();
    let done = write(&source, &mut out, &Progress::new()).unwrap();
    (out, done)
}

fn job(index: u32, submit_event: u64, done_event: Option<u64>) -> JobSpan {
    JobSpan {
        index,
        slot: 1,
        submit_event,
        done_event,
        head_va: GpuVa::new(0x1000),
        submit_ns: 0,
        done_ns: None,
        failed: false,
    }
}

#[test]
fn fst_file_keeps_only_the_last_value_at_one_time() {
    let mut b = EventsBuilder::new();
    for i in 0..100_000u32 {
        b.access(5, 1, write(0x10, u64::from(i.wrapping_mul(0x9e37_79b9))));
    }
    b.access(6, 1, write(0x10, 7));
    let r = recording_of(b);
    let (bytes, _) = export(trace_waves::fst, &r, None, Clock::Time);
    assert!(bytes.len() < 4096, "{}", bytes.len());
    let waves = read(bytes);
    let last = u64::from(99_999u32.wrapping_mul(0x9e37_79b9));
    let changes = settle(waves["kinescope.space0.unnamed.at_10"].iter().cloned());
    assert_eq!(changes, [(5, bits(32, last)), (6, bits(32, 7))]);
}

#[test]
fn fst_file_starts_at_its_first_event() {
    let mut b = EventsBuilder::new();
    for i in 0..10u32 {
        b.access(317_000_000_000 + u64::from(i), 1, write(0x10, u64::from(i)));
    }
    let r = recording_of(b);
    // The header is its kind and length, then the start time as eight bytes in big-endian order.
    let start_time = |bytes: &[u8]| u64::from_be_bytes(bytes[9..17].try_into().unwrap());
    let (bytes, _) = export(trace_waves::fst, &r, None, Clock::Time);
    assert_eq!(start_time(&bytes), 317_000_000_000);
    let waves = read(bytes);
    let changes = settle(waves["kinescope.space0.unnamed.at_10"].iter().cloned());
    assert_eq!(changes.len(), 10);
    assert_eq!(changes[9], (317_000_000_009, bits(32, 9)));
    let (bytes, _) = export(trace_waves::fst, &r, None, Clock::Events);
    assert_eq!(start_time(&bytes), 0);
    let (bytes, _) = export(trace_waves::fst, &recording_of(EventsBuilder::new()), None, Clock::Time);
    assert_eq!(start_time(&bytes), 0);
}

#[test]
fn registers_over_the_signal_limit_are_counted() {
    let max = MAX_SIGNALS as u32;
    let mut b = EventsBuilder::new();
    for i in 0..2 * max {
        b.access(u64::from(i), 1, write(i * 4, 1));
    }
    let r = recording_of(b);
    let (bytes, done) = export(trace_waves::perfetto, &r, None, Clock::Time);
    assert_eq!(perfetto(&bytes).counters.len(), MAX_SIGNALS);
    assert_eq!(done.left_out, u64::from(max));
    // A register that has a signal keeps it to the end.
    let mut b = EventsBuilder::new();
    for i in 0..2 * max {
        b.access(u64::from(i), 1, write(i * 4, 1));
    }
    b.access(u64::from(3 * max), 1, write(0, 9));
    let (bytes, _) = export(trace_waves::vcd, &recording_of(b), None, Clock::Time);
    let waves = read(bytes);
    assert_eq!(
        waves["kinescope.space0.unnamed.at_0"].last(),
        Some(&(u64::from(3 * max), bits(32, 9)))
    );
}

#[test]
fn threads_and_jobs_without_a_track_are_counted() {
    let max = MAX_THREADS as u32;
    let mut b = EventsBuilder::new();
    for i in 0..max + 10 {
        b.access(u64::from(i), i + 1, write(0, 1));
    }
    let r = recording_of(b);
    let last = r.events.len() as u64 - 1;
    let timeline = Timeline {
        jobs: (0..4000).map(|n| job(n, u64::from(n), Some(last))).collect(),
        ..Timeline::default()
    };
    let (bytes, done) = export_timeline(trace_waves::perfetto, &r, &timeline);
    assert_eq!((done.jobs_left_out, done.threads_joined), (4000 - MAX_LANES as u64, 10));
    let t = perfetto(&bytes);
    assert_eq!((t.threads.len(), t.slices.len()), (MAX_THREADS, MAX_LANES));
    let others: Vec<_> = t.instants.iter().filter(|i| i.0 == "Other threads").collect();
    assert_eq!(others.len(), 10);
    assert_eq!(others[0].3["thread"], (max + 1).to_string());
}

#[test]
fn slices_match_the_events_of_a_backwards_clock() {
    let mut b = EventsBuilder::new();
    for time in [100, 500, 200, 300, 600, 50] {
        b.access(time, 1, write(0, 1));
    }
    let r = recording_of(b);
    let timeline = Timeline {
        jobs: vec![job(0, 2, Some(3)), job(1, 3, Some(5))],
        ..Timeline::default()
    };
    let (bytes, done) = export_timeline(trace_waves::perfetto, &r, &timeline);
    let t = perfetto(&bytes);
    assert_eq!(done.held_back, 3);
    let at: Vec<u64> = t.instants.iter().map(|i| i.1).collect();
    assert_eq!(at, [100, 500, 500, 500, 600, 600]);
    let jobs: Vec<_> = t.slices.iter().map(|s| (s.1, s.2)).collect();
    assert_eq!(jobs, [(500, 500), (500, 600)]);
}
