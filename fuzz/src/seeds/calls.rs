//! Seeds of API traces: a small sound one with a row of each kind, and one with the memory before a launch.

use super::seed::Add;
use crate::calls::encode;
use trace_core::GpuVa;
use trace_core::recording::{
    AllocationKind, AllocationRow, CallEvent, CallRow, CopyKind, CopyRow, FillRow, LaunchRow, OrderKind, OrderRow,
};

/// Base address of the memory.
const BASE: u64 = 0x1539_4000_0000;
/// Metadata of the recording.
const METADATA: &[u8] = br#"{"api":"cuda","version":13000,"device":{"name":"d","capability":[9,0]},
"window":{"base":23338203119616,"bytes":1099511627776},"names":["snapshot at the begin","cuCtxSynchronize","snapshot before launch","snapshot after launch"],
"modules":[{"origin":"memory","kind":"ptx","bytes":5000,"pages":[[1,2]],"globals":[{"name":"g","at":4096,"bytes":8}]},
{"origin":"x.bc","missing":"not here"}],"functions":[{"name":"_Z1kPf","demangled":"k(float*)","module":0,
"parameters":[[0,8]],"attributes":[[8,1024]]}],"streams":[{"name":"default stream"},{"name":"stream 1","flags":1}],
"range":"whole"}"#;

fn copy(kind: CopyKind, at: u64, pages_at: u64, stream: u32) -> CallEvent {
    let (to, from) = match kind {
        CopyKind::DeviceToHost => (0x7000, at),
        _ => (at, 0x7000),
    };
    CallEvent::Copy(CopyRow {
        to,
        from,
        bytes: 3000,
        rows: 2,
        to_pitch: 3000,
        from_pitch: 3000,
        pages_at,
        kind: kind as u32,
        stream,
        ..CopyRow::default()
    })
}

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    let allocation = |kind: AllocationKind| {
        CallEvent::Allocation(AllocationRow {
            at: GpuVa::new(BASE),
            bytes: 8192,
            kind: kind as u32,
            stream: OrderRow::NONE,
            ..AllocationRow::default()
        })
    };
    let launch = CallEvent::Launch(LaunchRow {
        arguments: 8,
        grid: [2, 1, 1],
        block: [64, 1, 1],
        stream: 1,
        ..LaunchRow::default()
    });
    let order = CallEvent::Order(OrderRow {
        kind: OrderKind::StreamDone as u32,
        stream: 1,
        event: OrderRow::NONE,
        ..OrderRow::default()
    });
    let fill = CallEvent::Fill(FillRow {
        to: GpuVa::new(BASE),
        elements: 16,
        rows: 1,
        element: 4,
        ..FillRow::default()
    });
    let call = |name| {
        CallEvent::Call(CallRow {
            name,
            about: u32::MAX,
            ..CallRow::default()
        })
    };
    let small = [
        allocation(AllocationKind::Take),
        copy(CopyKind::HostToDevice, BASE, 0, 1),
        fill,
        launch,
        order,
        copy(CopyKind::DeviceToHost, BASE, 2, 0),
        call(1),
        allocation(AllocationKind::Give),
    ];
    let arguments = BASE.to_le_bytes();
    add("calls", "small", encode(METADATA, &[1, 2, 3, 0], &arguments, &small));
    let begun = [
        call(0),
        copy(CopyKind::DeviceToHost, BASE + 100, 0, OrderRow::NONE),
        launch,
        copy(CopyKind::DeviceToHost, BASE + 100, 2, 0),
    ];
    let around = [
        call(2),
        copy(CopyKind::DeviceToHost, BASE, 0, OrderRow::NONE),
        launch,
        call(3),
        copy(CopyKind::DeviceToHost, BASE, 2, OrderRow::NONE),
        call(2),
        copy(CopyKind::DeviceToHost, BASE, 0, OrderRow::NONE),
        launch,
    ];
    add(
        "calls",
        "memory-around",
        encode(METADATA, &[1, 2, 3, 4], &arguments, &around),
    );
    add(
        "calls",
        "memory-before",
        encode(METADATA, &[4, 4, 2, 2], &arguments, &begun),
    );
}
