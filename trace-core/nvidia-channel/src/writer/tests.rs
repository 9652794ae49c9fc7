use super::*;
use crate::CommandReader;
use crate::command::{Command, Copy, Semaphore, SemaphoreOperation, SemaphoreSource, SurfaceLayout};
use crate::memory::{MemoryReader, NoMemory};
use crate::push_buffer::{Method, PushBuffer};
use crate::qmd::{Qmd, QmdBuilder, QmdKind};
use proptest::prelude::*;

fn writer() -> PushBufferWriter {
    PushBufferWriter::new(
        Bindings::new(0xc86f)
            .with(COMPUTE_SUBCHANNEL, 0xcbc0)
            .with(COPY_SUBCHANNEL, 0xc8b5),
    )
}

fn methods(writer: &PushBufferWriter, mut bindings: Bindings) -> Vec<Method> {
    let bytes = writer.to_bytes();
    let methods = PushBuffer::new(&bytes).methods(&mut bindings);
    methods.collect::<Result<_, _>>().unwrap()
}

fn commands(writer: &PushBufferWriter) -> Vec<Command> {
    let mut reader = CommandReader::new();
    let methods = methods(writer, *writer.bindings());
    assert!(methods.iter().all(|m| m.named().is_some()));
    let mut commands: Vec<Command> = methods.iter().filter_map(|m| reader.read(m, &NoMemory)).collect();
    commands.extend(reader.finish());
    commands
}

fn semaphore(writer: &PushBufferWriter) -> Semaphore {
    match commands(writer)[..] {
        [Command::Semaphore(semaphore)] => semaphore,
        ref other => panic!("{other:?}"),
    }
}

fn copies(writer: &PushBufferWriter) -> Vec<Copy> {
    let commands = commands(writer).into_iter();
    let copies = commands.map(|c| match c {
        Command::Copy(copy) => copy,
        other => panic!("{other:?}"),
    });
    copies.collect()
}

proptest! {
    #[test]
    fn methods_are_read_as_written(
        subchannel in 0u8..8, first in 0x40u16..0x800, values in prop::collection::vec(any::<u32>(), 1..40),
        immediate in 0u16..0x2000, repeated in prop::collection::vec(any::<u32>(), 0..20),
    ) {
        let bindings = Bindings::new(0xc86f).with(subchannel, 0xcbc0);
        let mut writer = PushBufferWriter::new(bindings);
        let method = first * 4;
        writer.write_methods(subchannel, method, &values).unwrap();
        writer.write_immediate(subchannel, method, immediate).unwrap();
        writer.write_repeated(subchannel, method, &repeated).unwrap();
        let mut expected: Vec<(u16, u32)> =
            values.iter().enumerate().map(|(n, v)| (method + 4 * n as u16, *v)).collect();
        expected.push((method, immediate.into()));
        expected.extend(repeated.iter().map(|v| (method, *v)));
        let read = methods(&writer, bindings);
        prop_assert!(read.iter().all(|m| m.subchannel == subchannel));
        let read: Vec<(u16, u32)> = read.iter().map(|m| (m.method, m.value)).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn uploads_are_read_as_written(address in 0u64..1 << 56, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut writer = writer();
        writer.upload(GpuVa(address), &bytes, UploadFlush::Channel).unwrap();
        match &commands(&writer)[..] {
            [Command::Upload(upload)] => {
                prop_assert_eq!((upload.address, &upload.bytes), (GpuVa(address), &bytes));
                prop_assert_eq!((upload.missing_bytes, upload.layout), (0, SurfaceLayout::Pitch));
            }
            other => prop_assert!(other.is_empty() && bytes.is_empty()),
        }
    }

    #[test]
    fn host_semaphores_are_read_as_written(
        address in 0u64..1 << 53, payload in any::<u64>(), wide: bool, timestamp: bool, wait_for_idle: bool,
    ) {
        let address = GpuVa(address << 4);
        let value = if wide { SemaphorePayload::Wide(payload) } else { SemaphorePayload::Word(payload as u32) };
        let expected = if wide { payload } else { payload & 0xffff_ffff };
        let mut first = writer();
        first.release_semaphore(HostRelease { address, payload: value, wait_for_idle, timestamp }).unwrap();
        let read = semaphore(&first);
        prop_assert_eq!((read.address, read.payload, read.wide, read.timestamp), (address, expected, wide, timestamp));
        prop_assert_eq!((read.source, read.operation), (SemaphoreSource::Host, SemaphoreOperation::Release));
        for (condition, operation) in [
            (AcquireCondition::Equal, SemaphoreOperation::Acquire),
            (AcquireCondition::GreaterEqual, SemaphoreOperation::AcquireGreaterEqual),
            (AcquireCondition::CircularGreaterEqual, SemaphoreOperation::AcquireCircularGreaterEqual),
            (AcquireCondition::And, SemaphoreOperation::AcquireAnd),
            (AcquireCondition::Nor, SemaphoreOperation::AcquireNor),
        ] {
            let mut writer = writer();
            writer.acquire_semaphore(address, value, condition, timestamp).unwrap();
            let read = semaphore(&writer);
            prop_assert_eq!((read.operation, read.address, read.payload), (operation, address, expected));
        }
    }

    #[test]
    fn engine_semaphores_are_read_as_written(address in 0u64..1 << 53, payload: u32, timestamp: bool, flush: bool) {
        let address = GpuVa(address << 4);
        let mut report = writer();
        report.report_semaphore(ReportSemaphore { address, payload, timestamp, flush }).unwrap();
        let mut copy = writer();
        copy.release_copy_semaphore(address, payload, timestamp).unwrap();
        for (writer, source) in [(report, SemaphoreSource::Report), (copy, SemaphoreSource::Copy)] {
            let read = semaphore(&writer);
            prop_assert_eq!((read.source, read.operation), (source, SemaphoreOperation::Release));
            prop_assert_eq!((read.address, read.payload, read.timestamp), (address, payload.into(), timestamp));
        }
    }

    #[test]
    fn copies_are_read_as_written(
        source in 0u64..1 << 55, destination in 0u64..1 << 55, bytes in 1u64..4 << 30, lines in 1u32..1 << 20,
    ) {
        let (from, to) = (GpuVa(source), GpuVa(destination));
        let mut line = writer();
        line.copy(from, to, bytes).unwrap();
        let parts = copies(&line);
        prop_assert_eq!(parts.iter().map(Copy::bytes).sum::<u64>(), bytes);
        let mut done = 0;
        for part in &parts {
            prop_assert_eq!(part.source.address, GpuVa(source + done));
            prop_assert_eq!(part.destination.address, GpuVa(destination + done));
            prop_assert!(part.bytes() <= MAX_COPY_BYTES && part.remap.is_none());
            done += part.bytes();
        }
        let rectangle = CopyRectangle {
            source: from, source_pitch: 4096, destination: to, destination_pitch: 512, line_bytes: 300, lines,
        };
        let mut writer = writer();
        writer.copy_rectangle(rectangle).unwrap();
        let [copy] = copies(&writer)[..] else { panic!("not one copy") };
        prop_assert_eq!((copy.source.address, copy.source.pitch), (from, 4096));
        prop_assert_eq!((copy.destination.address, copy.destination.pitch), (to, 512));
        prop_assert_eq!((copy.line_length, copy.lines, copy.source.layout), (300, lines, SurfaceLayout::Pitch));
    }

    #[test]
    fn fills_are_read_as_written(destination in 0u64..1 << 55, value: u64, count in 1u64..1 << 29) {
        for pattern in [
            FillPattern::Byte(value as u8),
            FillPattern::Half(value as u16),
            FillPattern::Word(value as u32),
            FillPattern::Wide(value),
        ] {
            let mut writer = writer();
            writer.fill(GpuVa(destination), pattern, count).unwrap();
            let parts = copies(&writer);
            prop_assert_eq!(parts.iter().map(Copy::bytes).sum::<u64>(), count * pattern.bytes());
            let expected = value.to_le_bytes()[..pattern.bytes() as usize].to_vec();
            prop_assert!(parts.iter().all(|p| p.fill_pattern().as_ref() == Some(&expected)));
            prop_assert_eq!(parts[0].destination.address, GpuVa(destination));
        }
    }
}

#[test]
fn long_uploads_are_split() {
    let bytes: Vec<u8> = (0..100_001u32).map(|n| (n * 7) as u8).collect();
    let mut writer = writer();
    writer.upload(GpuVa(0x1_0000), &bytes, UploadFlush::System).unwrap();
    let uploads: Vec<_> = commands(&writer)
        .into_iter()
        .map(|c| match c {
            Command::Upload(upload) => upload,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(uploads.len(), bytes.len().div_ceil(MAX_UPLOAD_BYTES));
    let joined: Vec<u8> = uploads.iter().flat_map(|u| u.bytes.clone()).collect();
    assert_eq!(joined, bytes);
    for (n, upload) in uploads.iter().enumerate() {
        assert_eq!(upload.address, GpuVa(0x1_0000 + (n * MAX_UPLOAD_BYTES) as u64));
    }
}

#[test]
fn long_repetitions_get_several_headers() {
    let values: Vec<u32> = (0..20_000).collect();
    let mut writer = writer();
    writer.write_repeated(1, 0x1b4, &values).unwrap();
    assert_eq!(writer.words().len(), values.len() + 3);
    let read: Vec<u32> = methods(&writer, Bindings::new(0xc86f))
        .iter()
        .map(|m| m.value)
        .collect();
    assert_eq!(read, values);
}

/// Memory that holds a descriptor.
struct Descriptor(GpuVa, Vec<u8>);

impl MemoryReader for Descriptor {
    fn read(&self, address: GpuVa, out: &mut [u8]) -> bool {
        let at = address.0.checked_sub(self.0.0).map(|at| at as usize);
        let bytes = at.and_then(|at| self.1.get(at..at + out.len()));
        bytes.map(|bytes| out.copy_from_slice(bytes)).is_some()
    }
}

#[test]
fn launches_are_read_as_written() {
    let built = QmdBuilder::new(0xcbc0)
        .unwrap()
        .with_kind(QmdKind::Grid)
        .with_grid([5, 6, 7]);
    let descriptor = built.with_block([8, 9, 10]).build().unwrap();
    let address = GpuVa(0x12_3456_7800);
    let memory = Descriptor(address, descriptor.clone());
    for action in [LaunchAction::PrefetchSchedule, LaunchAction::InvalidateCopySchedule] {
        let mut by_address = writer();
        by_address.launch_descriptor(address, action).unwrap();
        let mut inline = writer();
        inline.launch_inline_descriptor(address, &descriptor).unwrap();
        for writer in [by_address, inline] {
            let mut reader = CommandReader::new();
            let methods = methods(&writer, *writer.bindings());
            let commands: Vec<Command> = methods.iter().filter_map(|m| reader.read(m, &memory)).collect();
            let [Command::Launch(launch)] = &commands[..] else {
                panic!("{commands:?}");
            };
            assert_eq!((launch.descriptor_address, &launch.descriptor), (address, &descriptor));
            assert_eq!((launch.grid, launch.block), ([5, 6, 7], [8, 9, 10]));
        }
    }
    assert!(Qmd::parse(&descriptor, Some(0xcbc0)).is_ok());
}

#[test]
fn values_that_do_not_fit_are_errors() {
    let mut writer = writer();
    let is_address = |result| matches!(result, Err(EncodeError::Address { .. }));
    assert!(is_address(
        writer.launch_descriptor(GpuVa(0x80), LaunchAction::PrefetchSchedule)
    ));
    assert!(is_address(
        writer.launch_descriptor(GpuVa(1 << 40), LaunchAction::PrefetchSchedule)
    ));
    assert!(is_address(writer.upload(GpuVa(1 << 57), &[1], UploadFlush::System)));
    assert!(is_address(writer.upload(GpuVa(u64::MAX), &[1], UploadFlush::System)));
    assert!(is_address(writer.upload(
        GpuVa((1 << 57) - 40_000),
        &[1; 40_001],
        UploadFlush::System
    )));
    assert!(is_address(writer.copy(GpuVa((1 << 57) - 1), GpuVa(0), 2)));
    assert!(is_address(writer.copy(
        GpuVa(0),
        GpuVa((1 << 57) - (3 << 30)),
        (3 << 30) + 1
    )));
    assert!(is_address(writer.fill(GpuVa(u64::MAX), FillPattern::Byte(1), 1)));
    assert!(matches!(
        writer.fill(GpuVa(0), FillPattern::Wide(1), u64::MAX),
        Err(EncodeError::Size { .. })
    ));
    assert!(matches!(
        writer.launch_inline_descriptor(GpuVa(0), &[0; 100]),
        Err(EncodeError::Size { .. })
    ));
    assert!(matches!(
        writer.write_methods(8, 0, &[0]),
        Err(EncodeError::Header { .. })
    ));
    assert!(matches!(
        writer.write_methods(0, 0x3ffc, &[0, 0]),
        Err(EncodeError::Header { .. })
    ));
    assert!(matches!(
        writer.entry(GpuVa(0)),
        Err(EncodeError::Size { value: 0, .. })
    ));
    assert_eq!(writer.words(), [0u32; 0], "a refused command leaves no words");
    writer.wait_for_engines().unwrap();
    assert!(is_address(writer.entry(GpuVa(2)).map(|_| ())));
    let entry = writer.entry(GpuVa(0x1000)).map(GpfifoEntry::decode);
    assert!(
        matches!(entry, Ok(GpfifoEntry::Segment(Segment { words: 2, .. }))),
        "{entry:?}"
    );
}

#[test]
fn engines_and_methods_must_exist() {
    let mut unbound = PushBufferWriter::new(Bindings::new(0xc86f));
    assert_eq!(
        unbound.wait_for_idle(),
        Err(EncodeError::UnboundEngine(EngineKind::Compute))
    );
    assert_eq!(
        unbound.copy(GpuVa(0), GpuVa(8), 8),
        Err(EncodeError::UnboundEngine(EngineKind::Copy))
    );
    unbound.bind_class(3, 0xc3c0).unwrap();
    assert_eq!(unbound.compute_class(), Ok(0xc3c0));
    let launch = unbound.launch_descriptor(GpuVa(0), LaunchAction::PrefetchSchedule);
    assert_eq!(
        launch,
        Err(EncodeError::UnknownMethod {
            class: 0xc3c0,
            method: 0x2c0
        })
    );
}
