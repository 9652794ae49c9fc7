//! Tests of the buffers, arguments, memory, writers, streams and code of a small neural network.

use crate::calls::net::{Build, Net, PTX, net};
use trace_core::GpuVa;
use trace_core::api_trace::{
    ApiTrace, CertainWriter, ContentSource, ContentState, Edge, ParameterType, ReferenceKind, UnknownReason, Value,
};
use trace_core::progress::Progress;
use trace_core::recording::{AllocationKind, CallEvent, CodeKind, LaunchRow, Recording};

fn calls(r: &Recording) -> ApiTrace {
    ApiTrace::from_recording(r, &Progress::new()).unwrap().unwrap()
}

fn row(r: &Recording, event: u64) -> LaunchRow {
    match r.events.call(event as usize) {
        Some(CallEvent::Launch(l)) => l,
        other => panic!("{other:?}"),
    }
}

fn arguments(n: &Net, c: &ApiTrace, launch: usize) -> Vec<String> {
    let event = n.launches[launch];
    let list = c.arguments(&n.recording, event, &row(&n.recording, event));
    list.iter().map(|a| a.describe(c)).collect()
}

#[test]
fn trace_buffers_have_the_replay_names() {
    let n = net(2);
    let c = calls(&n.recording);
    let name = |at| c.buffers().format_address(at, n.around);
    assert_eq!(name(GpuVa::new(n.weights)), "in0");
    assert_eq!(name(GpuVa::new(n.image + 0x40)), "in2 + 0x40");
    assert_eq!(name(GpuVa::new(n.scores)), "out0");
    assert_eq!(name(GpuVa::new(n.features + 4)), "alloc 0 + 0x4");
    assert_eq!(name(GpuVa::new(n.rounds)), "rounds");
    assert_eq!(name(GpuVa::new(0x10)), "0x10");
    let scores = c.buffers().find("out0").unwrap();
    let end = n.recording.events.len() as u64;
    assert_eq!(c.buffers().get(scores).unwrap().to, Some(end - 1));
    assert_eq!(
        c.buffers().locate(GpuVa::new(n.scores), end),
        None,
        "the buffer is freed at the end"
    );
    assert_eq!(
        c.buffers().locate_nearest(GpuVa::new(n.scores), end).map(|p| p.buffer),
        Some(scores)
    );
    assert_eq!(
        c.buffers().locate(GpuVa::new(n.scores), 3),
        None,
        "the buffer is not allocated yet"
    );
    // All buffers except `scores` and `scratch` stay allocated until the end.
    let allocated = c.allocated_bytes();
    assert_eq!(
        allocated.range(),
        Some((576, 576 + 3136 + 16_384 + 10_240 + 40 + 65_536))
    );
    assert_eq!(allocated.values().last(), Some(&(576 + 3136 + 16_384 + 10_240)));
    assert_eq!(c.failed_calls().len(), 1);
    assert_eq!(c.snapshots().len(), 2);
}

#[test]
fn arguments_are_decoded_by_signature_and_layout() {
    let n = net(1);
    let c = calls(&n.recording);
    assert_eq!(
        c.function_name(0),
        "conv2d(float const*, float const*, float*, int, int)"
    );
    assert_eq!(arguments(&n, &c, 0), ["in2", "in0", "alloc 0", "784", "28"]);
    assert_eq!(arguments(&n, &c, 1), ["alloc 0", "4096"]);
    assert_eq!(
        arguments(&n, &c, 2),
        ["48 bytes, alloc 0 at +0x0, in1 at +0x8, out0 at +0x10"]
    );
    assert_eq!(arguments(&n, &c, 3), ["out0", "out0", "10", "0.5"]);
    let softmax = c.arguments(&n.recording, n.around, &row(&n.recording, n.around));
    let Value::Pointer {
        to,
        place,
        constant,
        typed,
    } = softmax[0].value
    else {
        panic!("{:?}", softmax[0])
    };
    assert_eq!((to, constant, typed), (GpuVa::new(n.scores), true, true));
    assert_eq!(place.unwrap().offset, 0);
    assert_eq!(softmax[3].parameter.data_type, ParameterType::Float);
    let gemm = c.arguments(&n.recording, n.launches[2], &row(&n.recording, n.launches[2]));
    assert_eq!(gemm[0].pointers().count(), 3);
    // Arguments without stored bytes are reported as missing.
    let short = LaunchRow {
        arguments_at: 1 << 40,
        ..row(&n.recording, n.launches[0])
    };
    let report = c.arguments(&n.recording, n.launches[0], &short);
    assert!(report.iter().all(|a| a.value == Value::Missing), "{report:?}");
    assert_eq!(c.find_function("relu"), Some(1));
    assert_eq!(c.find_function("_Z4reluPfi"), Some(1));
    assert_eq!(c.find_function("f"), None, "more than one function name contains f");
    assert_eq!(c.launches_of(1).len(), 1);
    assert_eq!(c.launch_at(n.around), Some(3));
}

#[test]
fn memory_around_a_launch_comes_from_the_snapshots() {
    let n = net(1);
    let (c, r) = (calls(&n.recording), &n.recording);
    let state = |at: u64, event: u64| c.pieces(r, GpuVa::new(at)..GpuVa::new(at + 4), event);
    let float = |at: u64, event: u64| {
        f32::from_le_bytes(
            c.read(r, GpuVa::new(at)..GpuVa::new(at + 4), event)
                .bytes
                .try_into()
                .unwrap(),
        )
    };
    // The state before the launch comes from the snapshot before it, the state after it from the snapshot after it.
    assert_eq!(float(n.scores + 4, n.around), 3.0);
    let after = c.read(r, GpuVa::new(n.scores)..GpuVa::new(n.scores + 40), n.around + 1);
    assert!(
        matches!(after.pieces[..], [ref p] if matches!(p.state, ContentState::Known(ContentSource::ReadBack, e) if e > n.around))
    );
    let sum: f32 = after
        .bytes
        .chunks(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    // Memory that a kernel writes and that no event reads back is unknown after the kernel.
    let conv = n.launches[0];
    let never = state(n.features, conv);
    assert!(
        matches!(never[0].state, ContentState::Unknown(UnknownReason::NeverWritten, e) if e < conv),
        "{never:?}"
    );
    assert_eq!(
        state(n.features, conv + 1)[0].state,
        ContentState::Unknown(UnknownReason::Launch { certain: true }, conv)
    );
    // A kernel does not write through a const pointer, so the weights stay known after all launches.
    let end = r.events.len() as u64;
    assert!(state(n.weights, end)[0].state.is_known());
    assert_eq!(float(n.weights, end), -0.5);
    assert!(matches!(state(n.image, n.around)[0].state, ContentState::Known(_, _)));
    assert!(matches!(
        state(n.image, n.image_in)[0].state,
        ContentState::Unknown(UnknownReason::NeverWritten, _)
    ));
    assert_eq!(
        state(0x5000, 9)[0].state,
        ContentState::Unknown(UnknownReason::NotAllocated, 0)
    );
}

#[test]
fn last_writer_is_certain_for_copies_and_possible_for_launches() {
    let n = net(1);
    let (c, r) = (calls(&n.recording), &n.recording);
    let end = r.events.len() as u64 - 2;
    let scores = c.find_last_writer(r, GpuVa::new(n.scores + 8), end);
    // The snapshots before and after the last launch show that this launch changed the byte.
    let changed = scores.change.unwrap();
    assert_eq!((changed.event, changed.launch), (n.around, 3));
    assert_eq!(
        c.read(r, GpuVa::new(n.scores + 8)..GpuVa::new(n.scores + 9), n.around)
            .bytes,
        [changed.before]
    );
    assert_eq!((scores.certain, scores.launches.len(), scores.others), (None, 0, 0));
    // The program's own readback comes later and is not part of the snapshot after the launch.
    let changes = c.launch_changes(n.around).unwrap();
    assert!(
        matches!(changes.list[..], [ref l] if l.bytes <= 40 && l.span.start >= GpuVa::new(n.scores) && l.span.end <= GpuVa::new(n.scores + 40)),
        "{changes:?}"
    );
    // Before that launch, the only possible writer is the launch whose arguments contain the address.
    let before = c.find_last_writer(r, GpuVa::new(n.scores + 8), n.around);
    let entries: Vec<(u64, ReferenceKind)> = before.launches.iter().map(|l| (l.event, l.reference)).collect();
    assert_eq!(entries, [(n.launches[2], ReferenceKind::ArgumentWord)]);
    assert_eq!((before.certain, before.change, before.others), (None, None, 2));
    assert_eq!(scores.byte.is_some(), scores.state.is_known());
    let image = c.find_last_writer(r, GpuVa::new(n.image), end);
    assert_eq!(image.certain, Some((n.image_in, CertainWriter::Copy)));
    assert_eq!((image.launches.len(), image.readers), (0, 1));
    let variable = c.find_last_writer(r, GpuVa::new(n.rounds), end);
    assert_eq!(
        variable.launches.len(),
        2,
        "all launches of the module except the one that did not change the variable"
    );
    assert_eq!(variable.excluded, 1);
    assert!(variable.launches.iter().all(|l| l.reference == ReferenceKind::Variable));
    assert_eq!(variable.allocated_at, None);
    // The last writer of bytes that were copied on the device names the source address.
    let scratch = c.buffers().list().iter().find(|b| b.bytes == 64 << 10).unwrap().at;
    let copied = c.find_last_writer(r, scratch + 16_384 + 4, end);
    let (_, writer) = copied.certain.unwrap();
    assert_eq!(writer, CertainWriter::CopyFrom(GpuVa::new(n.features + 4)));
    assert!(
        matches!(copied.state, ContentState::Unknown(UnknownReason::Launch { certain: true }, e) if e == n.launches[1])
    );
    let filled = c.find_last_writer(r, scratch + 8, end);
    assert!(matches!(filled.certain, Some((_, CertainWriter::Fill))));
    assert_eq!(filled.byte, Some(0));
}

#[test]
fn stream_order_and_kernel_code_are_available() {
    let n = net(2);
    let (c, r) = (calls(&n.recording), &n.recording);
    let o = c.order();
    assert_eq!(o.edges_in(0..u64::MAX).len(), 4);
    let waits = |e: &Edge| (e.from_stream, e.to_stream) == (1, 2) && e.from > n.image_in && e.to < n.launches[0];
    assert!(
        o.edges_in(0..n.launches[0]).iter().any(waits),
        "the kernel waits for the image"
    );
    assert!(c.events_of(2).contains(&n.launches[0]) && !c.events_of(1).contains(&n.launches[0]));
    assert_eq!(c.stream_name(0), "default stream");
    let code = c.kernel(r, 1);
    assert_eq!(
        (code.kind, &*code.arch, code.problem.clone()),
        (CodeKind::Ptx, "sm_80", None)
    );
    assert_eq!(code.lines(), PTX.trim_end().lines().count());
    assert!(
        code.line(code.entry_line).contains(".entry _Z4reluPfi"),
        "{}",
        code.line(code.entry_line)
    );
    assert_eq!(code.resources.registers, Some(24));
    assert_eq!(c.kernel(r, 0).resources.bound, Some([256, 1, 1]));
    let missing = c.kernel(r, 2);
    assert!(missing.problem.unwrap().contains("its memory is gone"));
    assert!(c.kernel(r, 99).problem.is_some());
    assert!(
        ApiTrace::from_recording(&Recording::default(), &Progress::new())
            .unwrap()
            .is_none()
    );
}

#[test]
fn reallocated_address_is_a_new_buffer() {
    let mut b = Build::new();
    b.stream("default stream", 0);
    let early = 0x1539_5000_0000;
    b.snapshot("snapshot at the begin", &[(early, 256)]);
    let at = b.take(64);
    b.copy_in(at, &[1; 64], (1, 64), 0, true);
    b.give(at, 64);
    b.take_at(at, 64);
    b.allocation(AllocationKind::TakeManaged, 0x1539_6000_0000, 4096);
    let r = b.finish();
    let c = calls(&r);
    let end = r.events.len() as u64;
    let names: Vec<&str> = c.buffers().list().iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["memory0", "in0", "in0 #2", "alloc 0"]);
    assert!(matches!(
        c.pieces(&r, GpuVa::new(at)..GpuVa::new(at + 8), end)[0].state,
        ContentState::Unknown(UnknownReason::NeverWritten, 5)
    ));
    assert!(c.pieces(&r, GpuVa::new(at)..GpuVa::new(at + 8), 4)[0].state.is_known());
    assert!(
        c.pieces(&r, GpuVa::new(early)..GpuVa::new(early + 8), 0)[0]
            .state
            .is_known(),
        "a later readback gives the content"
    );
    let managed = c.pieces(&r, GpuVa::new(0x1539_6000_0000)..GpuVa::new(0x1539_6000_0001), end);
    assert!(matches!(
        managed[0].state,
        ContentState::Unknown(UnknownReason::Shared, _)
    ));
}
