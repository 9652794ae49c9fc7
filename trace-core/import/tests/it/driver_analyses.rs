//! Analyses of driver traces on the logs of `nvidia/`: references, findings, ends of ring entries, engines, figures.

use super::open;
use std::path::Path;
use trace_core::GpuVa;
use trace_core::check::check;
use trace_core::driver_trace::{ChannelEngine, DriverSummary, DriverTrace, DriverWork, NearestBuffer};
use trace_core::families::{find_family, read_driver_work};
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{ObjectAction, Recording};
use trace_core::registers::{RecordedRegisters, RegisterMap};
use trace_core::timeline::{self, Pyramid};
use trace_core::xref::{
    AccessKind, MAX_REFERENCES, Reference, ReferenceItem, SubmittedPart, TargetError, XrefIndex, XrefTarget,
    find_references, parse_target,
};

fn rm_client() -> Recording {
    open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvidia/h100-rm-client.klog.gz"))
}

fn cuda_vadd() -> Recording {
    open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvidia/h100-cuda-vadd.klog.gz"))
}

fn work(r: &Recording) -> DriverWork {
    read_driver_work(r, &Progress::new()).unwrap().unwrap()
}

fn references(r: &Recording, target: &str) -> Vec<Reference> {
    let progress = Progress::new();
    let index = XrefIndex::new(r, &[], &progress).unwrap();
    let target = parse_target(r, None, (0, target), &progress).unwrap();
    let found = find_references(r, &index, target, (u64::MAX, MAX_REFERENCES), &progress).unwrap();
    assert!(found.is_complete);
    found.list
}

/// Returns event, access and part of the references of submissions.
fn parts(list: &[Reference]) -> Vec<(u64, AccessKind, SubmittedPart)> {
    let part = |r: &Reference| match r.item {
        ReferenceItem::Submitted { part, .. } => Some((r.event.unwrap(), r.access, part)),
        _ => None,
    };
    list.iter().filter_map(part).collect()
}

#[test]
fn references_of_an_array_name_parameters_and_copies() {
    let list = references(&cuda_vadd(), "0x7f2bd0802010");
    let actions: Vec<ObjectAction> = list
        .iter()
        .filter_map(|r| match r.item {
            ReferenceItem::DriverBuffer { action, offset, .. } => {
                assert_eq!(offset, 0x2010);
                Some(action)
            }
            _ => None,
        })
        .collect();
    use ObjectAction::{Create, Free, Map, Unmap};
    assert_eq!(actions, [Create, Map, Unmap, Free]);
    let parts = parts(&list);
    let array = GpuVa::new(0x7f2b_d080_2000);
    let launch = |offset| SubmittedPart::Parameter { offset, pointer: array };
    // The kernels take the array as another parameter each.
    for (event, offset) in [(1210, 0), (1215, 0x10), (1224, 8)] {
        assert!(
            parts.contains(&(event, AccessKind::ReadOrWrite, launch(offset))),
            "{event}"
        );
    }
    let copies: Vec<_> = parts
        .iter()
        .filter(|(_, _, p)| matches!(p, SubmittedPart::CopySource { from, bytes: 4000, .. } if *from == array))
        .collect();
    assert_eq!(copies.len(), 1, "{parts:?}");
    assert_eq!((copies[0].0, copies[0].1), (1220, AccessKind::Read));
}

#[test]
fn references_of_code_banks_and_descriptors_are_launches() {
    let r = cuda_vadd();
    let code = parts(&references(&r, "0x7f2bd37acd00"));
    let program = SubmittedPart::Program(GpuVa::new(0x7f2b_d37a_cd00));
    assert_eq!(code[1], (1224, AccessKind::Execute, program));
    assert!(matches!(code[0].2, SubmittedPart::Upload { .. }) && code.len() == 2);
    let bank = parts(&references(&r, "0x7f2bd22a0210"));
    assert!(
        bank.iter()
            .any(|(_, _, p)| matches!(p, SubmittedPart::ConstantBank { index: 0, .. }))
    );
    let descriptor = parts(&references(&r, "0x204e0d000"));
    assert!(
        descriptor
            .iter()
            .any(|(_, _, p)| matches!(p, SubmittedPart::Descriptor(_)))
    );
    let semaphore = parts(&references(&r, "0x20460fff0"));
    let payloads: Vec<u64> = semaphore
        .iter()
        .filter_map(|(_, _, p)| match p {
            SubmittedPart::Release { payload, .. } => Some(*payload),
            _ => None,
        })
        .collect();
    // The driver counts its submissions.
    assert!(payloads.len() > 100 && payloads.is_sorted(), "{payloads:?}");
}

#[test]
fn references_of_methods_name_the_method() {
    // The small client sets the memory of threads once.
    let r = rm_client();
    let list = references(&r, "handle:0xcaf00013");
    let methods: Vec<&str> = parts(&list)
        .iter()
        .filter_map(|(_, access, p)| match p {
            SubmittedPart::Method { name, .. } => {
                assert_eq!(*access, AccessKind::AddressOf);
                Some(*name)
            }
            _ => None,
        })
        .collect();
    assert_eq!(methods, ["SET_SHADER_LOCAL_MEMORY_A"]);
    let saved = references(&r, "0x1000800000");
    assert!(
        saved
            .iter()
            .any(|s| matches!(s.item, ReferenceItem::SavedMemory { bytes: 4096, .. }))
    );
}

#[test]
fn buffers_are_targets_by_handle_and_number() {
    let r = rm_client();
    let parse = |text: &str| parse_target(&r, None, (0, text), &Progress::new());
    let bytes = |va, bytes| XrefTarget::Bytes {
        space: 0,
        va: GpuVa::new(va),
        bytes,
    };
    assert_eq!(parse("handle:0xcaf00007"), Ok(bytes(0x10_0080_0000, 0x1_0000)));
    assert_eq!(parse("handle:0xcaf00007 + 0x20"), Ok(bytes(0x10_0080_0020, 1)));
    assert_eq!(parse("#8"), parse("handle:0xcaf00007"));
    assert!(matches!(
        parse("handle:0xcaf00007+0x10000"),
        Err(TargetError::BeyondEnd { .. })
    ));
    // A channel is no buffer.
    assert!(matches!(parse("handle:0xcaf0000e"), Err(TargetError::UnknownBuffer(_))));
}

#[test]
fn sound_traces_have_no_finding_about_their_work() {
    for r in [cuda_vadd(), rm_client()] {
        let found = check(&r);
        let is_one = |f: &&Finding| {
            use FindingKind::{DriverError, NotFreed, UnknownRegister, UnmappedAddress};
            [DriverError, NotFreed, UnmappedAddress, UnknownRegister].contains(&f.kind)
        };
        assert_eq!(found.iter().filter(is_one).collect::<Vec<_>>(), Vec::<&Finding>::new());
    }
}

#[test]
fn doorbells_are_named_registers() {
    let r = cuda_vadd();
    let device = RecordedRegisters::new(&r).unwrap();
    assert_eq!(device.map().name(), "nvidia-usermode");
    let (_, bell) = r.events.accesses(0..r.events.len()).find(|(_, a)| a.write).unwrap();
    assert_eq!(device.name_of(&bell).as_deref(), Some("NOTIFY_CHANNEL_PENDING"));
}

#[test]
fn ring_entries_end_where_saved_memory_shows_their_semaphore() {
    let ends = |r: &Recording| {
        let map = RegisterMap::for_jobs_of(r).unwrap();
        let jobs = timeline::derive(r, map, &Progress::new()).unwrap().jobs;
        assert!(
            jobs.iter().all(|j| j.done_ns.is_none()),
            "the time of the end is unknown"
        );
        jobs.iter().map(|j| j.done_event).collect::<Vec<_>>()
    };
    let end = Some(115);
    // Launches 3 and 4 release no semaphore that the log shows.
    assert_eq!(ends(&rm_client()), [end, end, end, None, None, end, end]);
    assert!(ends(&cuda_vadd()).iter().all(Option::is_none));
}

#[test]
fn channels_of_copy_engines_have_lanes_of_their_own() {
    let r = cuda_vadd();
    let engines = find_family(&r).channel_engines(&r);
    let trace = DriverTrace::from_recording(&r, &Progress::new()).unwrap().unwrap();
    let of_channel = |n: usize| {
        let object = &trace.objects()[trace.channels()[n].object];
        engines[&(object.client.unwrap(), object.handle.unwrap())]
    };
    let all: Vec<ChannelEngine> = (0..20).map(of_channel).collect();
    use ChannelEngine::{Copy, Graphics};
    let expected = [
        [Graphics; 8].as_slice(),
        &[Copy(Some(2)); 4],
        &[Copy(Some(3)); 4],
        &[Copy(Some(4)); 4],
    ];
    assert_eq!(all, expected.concat());
    let pyramid = Pyramid::build(&r, RegisterMap::built_in_for(&r), &Progress::new()).unwrap();
    let lanes: Vec<&str> = pyramid.lanes().iter().map(String::as_str).collect();
    let at = |name: &str| lanes.iter().position(|l| *l == name).unwrap();
    assert!(at("compute 7") < at("copy 0") && at("copy 3") < at("copy 8"));
    let describe = |handle| {
        trace_core::channel_names::ChannelNames::from_recording(&r)
            .list()
            .iter()
            .find(|n| n.handle == handle)
            .unwrap()
            .describe()
    };
    assert_eq!(describe(0x5c00_005c), "copy 8: channel 0x5c00005c, copy engine 4");
}

#[test]
fn summary_counts_objects_memory_and_work() {
    let r = cuda_vadd();
    let s = DriverSummary::new(&r, &work(&r));
    assert_eq!((s.clients, s.channels, s.doorbells), (2, 20, 632));
    assert_eq!((s.submissions.count, s.launches, s.uploads.count), (632, 408, 2094));
    // All buffers have a place, and all are mapped at a time.
    assert_eq!(
        (s.video_buffers.count, s.host_buffers.count, s.other_buffers.count),
        (19, 30, 0)
    );
    assert!(s.max_mapped_bytes.unwrap() <= s.video_buffers.bytes + s.host_buffers.bytes);
    assert_eq!(s.missing, ["the version of the driver", "memory after the work"]);
    assert_eq!(s.assumed.len(), 1);
}

#[test]
fn nearest_buffer_of_a_freed_address_tells_when_it_ended() {
    let r = cuda_vadd();
    let work = work(&r);
    let va = GpuVa::new(0x7f2b_d080_2010);
    let inside = work.trace().find_nearest_buffer(va, 1224);
    assert!(
        matches!(inside, Some(NearestBuffer::Inside { offset: 0x2010, .. })),
        "{inside:?}"
    );
    let after = work.trace().find_nearest_buffer(va, u64::MAX);
    let Some(NearestBuffer::Freed { event, .. }) = after else {
        panic!("{after:?}");
    };
    assert!(event > 2256);
    let text = work.trace().describe_nearest(va, after);
    assert!(text.contains("0x5c000098 + 0x2010"), "{text}");
}
