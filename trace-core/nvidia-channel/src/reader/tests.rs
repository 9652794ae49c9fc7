use super::*;
use crate::GpuVa;
use crate::command::{Component, Copy, Remap, Semaphore, SemaphoreOperation, SemaphoreSource, SurfaceLayout};
use crate::launch::{LaunchError, parameter_offset};
use crate::memory::NoMemory;
use crate::methods::compute::{SEND_PCAS_A, SEND_SIGNALING_PCAS_B, SEND_SIGNALING_PCAS2_B};
use crate::qmd::{QmdKind, QmdVersion};
use crate::{Bindings, ClassTable, push_buffer::PushBuffer};

const COMPUTE: u16 = 0xcbc0;
const COPY: u16 = 0xc8b5;

/// Returns the header of `count` methods, and its words.
fn run(subchannel: u32, method: u32, values: &[u32]) -> Vec<u32> {
    let mut words = vec![1 << 29 | (values.len() as u32) << 16 | subchannel << 13 | (method / 4)];
    words.extend(values);
    words
}

/// Returns the header of words to one method, and these words.
fn data(method: u32, bytes: &[u8]) -> Vec<u32> {
    let mut words = vec![3 << 29 | (bytes.len().div_ceil(4) as u32) << 16 | 1 << 13 | (method / 4)];
    words.extend(bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    }));
    words
}

/// Returns the words of an upload by the compute engine.
fn upload(address: u64, bytes: &[u8]) -> Vec<u32> {
    [
        run(1, 0x188, &[(address >> 32) as u32, address as u32]),
        run(1, 0x180, &[bytes.len() as u32, 1]),
        run(1, 0x1b0, &[0x41]),
        data(0x1b4, bytes),
    ]
    .concat()
}

/// Reads push buffers with compute on subchannel 1 and copy on subchannel 4.
fn read_as(class: u16, words: &[Vec<u32>], memory: &dyn MemoryReader) -> Vec<Command> {
    let bytes: Vec<u8> = words.iter().flatten().flat_map(|w| w.to_le_bytes()).collect();
    let mut bindings = Bindings::new(0xc86f).with(1, class).with(4, COPY);
    let mut reader = CommandReader::new();
    let methods = PushBuffer::new(&bytes).methods(&mut bindings);
    let mut commands: Vec<Command> = methods.filter_map(|m| reader.read(&m.unwrap(), memory)).collect();
    commands.extend(reader.finish());
    commands
}

fn read(words: &[Vec<u32>]) -> Vec<Command> {
    read_as(COMPUTE, words, &NoMemory)
}

/// Returns a descriptor of version 4.0 with one block of 32 threads, and a constant bank 0.
fn descriptor(bank: u64, bank_bytes: u32) -> Vec<u8> {
    let mut words = [0u32; 96];
    words[0] = 2 << 23;
    words[13] = 1;
    words[18] = 0x40;
    (words[32], words[33], words[34]) = (1, 1, 1);
    (words[36], words[37]) = (1 << 16 | 32, 1 | 16 << 16);
    words[48] = (bank >> 6) as u32;
    words[49] = (bank >> 38) as u32 | (bank_bytes / 16) << 19;
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

#[test]
fn methods_have_the_same_addresses_in_every_class() {
    let named = |class: u16, offset: u16| {
        ClassTable::find(class)
            .and_then(|t| t.method(offset))
            .map(|m| m.info.name)
    };
    for table in ClassTable::all() {
        let class = table.number();
        match class & 0xff {
            0xc0 => {
                assert_eq!(named(class, SEND_PCAS_A), Some("SEND_PCAS_A"), "{class:x}");
                assert_eq!(
                    named(class, SEND_SIGNALING_PCAS_B),
                    Some("SEND_SIGNALING_PCAS_B"),
                    "{class:x}"
                );
                let later = (class >= 0xc6c0).then_some("SEND_SIGNALING_PCAS2_B");
                assert_eq!(named(class, SEND_SIGNALING_PCAS2_B), later, "{class:x}");
                for (offset, name) in [
                    (0x180, "LINE_LENGTH_IN"),
                    (0x188, "OFFSET_OUT_UPPER"),
                    (0x190, "PITCH_OUT"),
                    (0x1b0, "LAUNCH_DMA"),
                    (0x1b4, "LOAD_INLINE_DATA"),
                    (0x1dc, "SET_I2M_SEMAPHORE_A"),
                    (0x318, "SET_INLINE_QMD_ADDRESS_A"),
                    (0x320, "LOAD_INLINE_QMD_DATA"),
                    (0x1b0c, "SET_REPORT_SEMAPHORE_D"),
                ] {
                    assert_eq!(named(class, offset), Some(name), "{class:x}");
                }
                let execute = (class >= 0xc7c0).then_some("REPORT_SEMAPHORE_EXECUTE");
                assert_eq!(named(class, 0x168), execute, "{class:x}");
                assert!(parameter_offset(class).is_some(), "{class:x}");
            }
            0xb5 => {
                for (offset, name) in [
                    (0x240, "SET_SEMAPHORE_A"),
                    (0x248, "SET_SEMAPHORE_PAYLOAD"),
                    (0x300, "LAUNCH_DMA"),
                    (0x400, "OFFSET_IN_UPPER"),
                    (0x40c, "OFFSET_OUT_LOWER"),
                    (0x410, "PITCH_IN"),
                    (0x418, "LINE_LENGTH_IN"),
                    (0x41c, "LINE_COUNT"),
                    (0x700, "SET_REMAP_CONST_A"),
                    (0x708, "SET_REMAP_COMPONENTS"),
                ] {
                    assert_eq!(named(class, offset), Some(name), "{class:x}");
                }
            }
            0x6f => {
                let semaphore = (class >= 0xc36f).then_some("SEM_EXECUTE");
                assert_eq!(named(class, 0x6c), semaphore, "{class:x}");
                assert_eq!(named(class, 0x1c), Some("SEMAPHORED"), "{class:x}");
            }
            _ => {}
        }
    }
}

#[test]
fn upload_has_its_bytes() {
    let commands = read(&[upload(0x7f_0000_1000, b"twelve bytes and two")]);
    let [Command::Upload(upload)] = &commands[..] else {
        panic!("{commands:?}");
    };
    assert_eq!(
        (upload.word, upload.address, upload.missing_bytes),
        (7, GpuVa(0x7f_0000_1000), 0)
    );
    assert_eq!(upload.bytes, b"twelve bytes and two");
}

#[test]
fn upload_of_an_odd_size_ends_within_its_last_word() {
    let commands = read(&[upload(0x1000, b"12345"), upload(0x2000, b"abc")]);
    let bytes: Vec<&[u8]> = commands
        .iter()
        .map(|c| match c {
            Command::Upload(u) => &u.bytes[..],
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(bytes, [&b"12345"[..], b"abc"]);
}

#[test]
fn upload_of_lines_keeps_their_distance() {
    let mut reader = CommandReader::new();
    let mut bindings = Bindings::new(0xc86f).with(1, 0xa140);
    let words = [
        run(1, 0x180, &[3, 2, 0, 0x1000, 8]),
        run(1, 0x1b0, &[0x1]),
        data(0x1b4, b"abcdef"),
    ]
    .concat();
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let methods = PushBuffer::new(&bytes).methods(&mut bindings);
    let commands: Vec<Command> = methods.filter_map(|m| reader.read(&m.unwrap(), &NoMemory)).collect();
    assert_eq!(commands.len(), 1);
    let memory = reader.uploads().read(GpuVa(0x1000), 12, &NoMemory);
    assert_eq!(memory.known(), [0..3, 8..11]);
    assert_eq!(
        (memory.get(0..3), memory.get(8..11)),
        (Some(&b"abc"[..]), Some(&b"def"[..]))
    );
}

#[test]
fn incomplete_upload_says_what_is_missing() {
    let commands = read(&[
        run(1, 0x180, &[16, 1, 0, 0x1000]),
        run(1, 0x1b0, &[0x41]),
        data(0x1b4, b"abcd"),
    ]);
    let [Command::Upload(upload)] = &commands[..] else {
        panic!("{commands:?}");
    };
    assert_eq!((&upload.bytes[..], upload.missing_bytes), (&b"abcd"[..], 12));
}

#[test]
fn upload_can_release_a_semaphore() {
    let semaphore = run(1, 0x1dc, &[1, 0x3000, 9]);
    let commands = read(&[
        semaphore,
        run(1, 0x180, &[4, 1, 0, 0x1000]),
        run(1, 0x1b0, &[0x1021]),
        data(0x1b4, b"abcd"),
    ]);
    let [Command::Upload(upload)] = &commands[..] else {
        panic!("{commands:?}");
    };
    let semaphore = upload.semaphore.unwrap();
    assert_eq!((semaphore.address, semaphore.payload), (GpuVa(0x1_0000_3000), 9));
    assert_eq!(
        (semaphore.source, semaphore.timestamp),
        (SemaphoreSource::Upload, false)
    );
}

#[test]
fn launch_reads_descriptor_and_parameters() {
    let parameters = [1u8, 2, 3, 4, 5, 6, 7, 8];
    let commands = read(&[
        upload(0x10_0000, &[0; 0x210]),
        upload(0x10_0210, &parameters),
        upload(0x2_0000, &descriptor(0x10_0000, 0x300)),
        run(1, 0x2b4, &[0x200]),
        run(1, 0x2c0, &[9]),
    ]);
    let Some(Command::Launch(launch)) = commands.last() else {
        panic!("{commands:?}");
    };
    assert_eq!(launch.kind, QmdKind::Grid);
    assert_eq!(launch.version, QmdVersion { major: 4, minor: 0 });
    assert_eq!(
        (launch.grid, launch.block, launch.registers),
        ([1, 1, 1], [32, 1, 1], 16)
    );
    assert_eq!(launch.parameters.as_deref(), Some(&parameters[..]));
    assert_eq!(launch.bank_0.known_after(0), Some(0x218));
}

#[test]
fn only_scheduling_launches() {
    let descriptor = upload(0x2_0000, &descriptor(0x10_0000, 0x300));
    for (action, launches) in [
        (0, false),
        (1, false),
        (2, true),
        (3, true),
        (7, false),
        (8, false),
        (9, true),
        (10, true),
        (12, false),
    ] {
        let commands = read(&[descriptor.clone(), run(1, 0x2b4, &[0x200]), run(1, 0x2c0, &[action])]);
        let launched = matches!(commands.last(), Some(Command::Launch(_)));
        assert_eq!(launched, launches, "action {action}");
    }
    let commands = read(&[descriptor, run(1, 0x2b4, &[0x200]), run(1, 0x2bc, &[3])]);
    assert!(matches!(commands.last(), Some(Command::Launch(_))));
}

#[test]
fn inline_descriptor_launches_with_its_last_word() {
    let bytes = descriptor(0x10_0000, 0x300);
    let words: Vec<u32> = bytes
        .chunks(4)
        .map(|c| u32::from_le_bytes(c.try_into().unwrap()))
        .collect();
    let commands = read(&[run(1, 0x318, &[1 << 30, 0x200]), run(1, 0x320, &words)]);
    let [Command::Launch(launch)] = &commands[..] else {
        panic!("{commands:?}");
    };
    assert_eq!(
        (launch.descriptor_address, &launch.descriptor),
        (GpuVa(0x2_0000), &bytes)
    );
    assert_eq!(launch.parameters, None);
}

#[test]
fn launch_without_descriptor_says_so() {
    let commands = read(&[run(1, 0x2b4, &[0x200]), run(1, 0x2c0, &[9])]);
    let unknown = LaunchError::UnknownMemory {
        word: 3,
        address: GpuVa(0x2_0000),
    };
    assert_eq!(commands, [Command::UnreadableLaunch(unknown)]);
    let commands = read(&[
        upload(0x2_0000, &[0; 384]),
        run(1, 0x2b4, &[0x200]),
        run(1, 0x2c0, &[9]),
    ]);
    let Some(Command::UnreadableLaunch(error)) = commands.last() else {
        panic!("{commands:?}");
    };
    let text = error.to_string();
    assert!(
        text.ends_with("byte 72: the descriptor's version V00_00 is unknown"),
        "{text}"
    );
}

#[test]
fn launch_of_an_older_class_needs_256_bytes() {
    let mut bytes = [0; 256];
    bytes[72] = 0x30;
    bytes[48] = 7;
    let launch = [upload(0x2_0000, &bytes), run(1, 0x2b4, &[0x200]), run(1, 0x2c0, &[9])];
    let commands = read_as(0xc7c0, &launch, &NoMemory);
    let Some(Command::Launch(launch)) = commands.last() else {
        panic!("{commands:?}");
    };
    assert_eq!((launch.version.major, launch.grid), (3, [7, 0, 0]));
}

#[test]
fn copy_and_its_semaphore() {
    let commands = read(&[
        run(4, 0x400, &[0x7f, 0x1000, 0x2, 0x2000, 64, 128, 32, 5]),
        run(4, 0x300, &[0x182]),
        run(4, 0x240, &[1, 0x4000, 77]),
        run(4, 0x300, &[0x14]),
        run(4, 0x300, &[0x39d | 1 << 27]),
    ]);
    let semaphore = Semaphore {
        word: 16,
        source: SemaphoreSource::Copy,
        operation: SemaphoreOperation::Release,
        address: GpuVa(0x1_0000_4000),
        payload: 77,
        wide: false,
        timestamp: true,
    };
    let [
        Command::Copy(first),
        Command::Semaphore(released),
        Command::Copy(second),
    ] = &commands[..]
    else {
        panic!("{commands:?}");
    };
    assert_eq!(*released, semaphore);
    assert_eq!(
        (first.source.address, first.destination.address),
        (GpuVa(0x7f_0000_1000), GpuVa(0x2_0000_2000))
    );
    assert_eq!((first.source.layout, first.source.pitch), (SurfaceLayout::Pitch, 64));
    assert_eq!((first.lines, first.bytes(), first.pipelined), (1, 32, false));
    assert_eq!((first.semaphore, first.fill_pattern()), (None, None));
    assert_eq!(
        (second.lines, second.bytes(), second.pipelined, second.flush),
        (5, 160, true, true)
    );
    assert_eq!(second.semaphore.map(|s| (s.wide, s.timestamp)), Some((true, false)));
}

#[test]
fn fill_is_a_copy_of_constants() {
    let commands = read(&[
        run(4, 0x408, &[0, 0x2000]),
        run(4, 0x418, &[100]),
        run(4, 0x700, &[0x1234_5678, 0x9a, 4 | 5 << 4 | 3 << 16 | 1 << 24]),
        run(4, 0x300, &[0x582]),
    ]);
    let [Command::Copy(copy)] = &commands[..] else {
        panic!("{commands:?}");
    };
    assert_eq!(copy.bytes(), 800);
    assert_eq!(copy.fill_pattern(), Some(vec![0x78, 0x56, 0x34, 0x12, 0x9a, 0, 0, 0]));
    let remap: Remap = copy.remap.unwrap();
    let from_source = Remap {
        components: [Component::Source(0); 4],
        ..remap
    };
    let copy = Copy {
        remap: Some(from_source),
        ..*copy
    };
    assert_eq!(copy.fill_pattern(), None);
}

#[test]
fn semaphores_of_channel_and_engine() {
    let commands = read(&[
        run(0, 0x5c, &[0x8000, 2, 5, 6, 0x1003]),
        run(0, 0x6c, &[1 | 1 << 24 | 1 << 25]),
        run(0, 0x6c, &[6 | 5 << 27]),
        run(0, 0x10, &[1, 0x100, 3, 2 | 1 << 24]),
        run(1, 0x1b00, &[2, 0x460_fff0, 0x70, 4]),
        run(1, 0x158, &[1, 2, 0x100, 3, 1 | 1 << 12 | 1 << 3]),
    ]);
    let semaphores: Vec<Semaphore> = commands
        .iter()
        .map(|c| match c {
            Command::Semaphore(s) => *s,
            other => panic!("{other:?}"),
        })
        .collect();
    let parts: Vec<_> = semaphores
        .iter()
        .map(|s| (s.source, s.operation, s.address.0, s.payload, s.timestamp))
        .collect();
    use SemaphoreOperation::{Acquire, AcquireCircularGreaterEqual, Reduce, Release};
    use SemaphoreSource::{Host, Report};
    assert_eq!(
        parts,
        [
            (Host, AcquireCircularGreaterEqual, 0x2_0000_8000, 5, false),
            (Host, Release, 0x2_0000_8000, 5 | 6 << 32, true),
            (Host, Reduce(5), 0x2_0000_8000, 5, false),
            (Host, Release, 0x1_0000_0100, 3, false),
            (Report, Release, 0x2_0460_fff0, 0x70, true),
            (Report, Acquire, 0x3_0000_0100, 1 | 2 << 32, false),
        ]
    );
    assert!(semaphores[0].is_acquire() && !semaphores[1].is_acquire());
    assert_eq!(semaphores[0].operation.to_string(), "acquire >= (circular)");
}

#[test]
fn another_class_on_a_subchannel_starts_anew() {
    let mut reader = CommandReader::new();
    let method = |class, method, value| Method {
        subchannel: 1,
        class: Some(class),
        method,
        value,
        word: 0,
    };
    reader.read(&method(COPY, 0x404, 0x1000), &NoMemory);
    reader.read(&method(COMPUTE, 0x180, 4), &NoMemory);
    let Some(Command::Copy(copy)) = reader.read(&method(COPY, 0x300, 0x182), &NoMemory) else {
        panic!("a launch copies");
    };
    assert_eq!(copy.source.address, GpuVa(0));
}
