//! Tests of messages: what is written is read, and what no client writes is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod graph;
mod library;
mod texture;

use crate::message::{
    BeginSession, CodeImage, CopyToDevice, CopyToHost, DeviceSnapshot, FunctionDescription, FunctionList,
    FunctionLookup, HostPart, JitOption, Launch, LaunchAttributeValue, LoadAnswer, LoadCode, ParameterPlace, Snapshot,
};
use crate::*;

/// Writes a message, and returns its bytes.
fn written(write: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut encoder = Encoder::default();
    write(&mut encoder);
    encoder.into_buffer()
}

/// Checks that every shorter form of a message is an error, and that a longer one is seen.
fn check_cuts<'m, T: 'm>(bytes: &'m [u8], read: impl Fn(&mut Decoder<'m>) -> Result<T, MessageError>) {
    for length in 0..bytes.len() {
        let mut decoder = Decoder::new(bytes.get(..length).unwrap());
        assert!(read(&mut decoder).is_err(), "{length} of {} bytes", bytes.len());
    }
    let mut decoder = Decoder::new(bytes);
    read(&mut decoder).unwrap();
    decoder.finish().unwrap();
}

fn handle(index: u32) -> HandleNumber {
    HandleNumber::from_client(HandleKind::Stream, index).unwrap()
}

#[test]
fn request_headers_are_read_as_written_for_every_call() {
    for (number, call) in (0..).zip(CallId::ALL) {
        assert_eq!(CallId::from_number(number), Some(*call));
        let header = RequestHeader {
            call: *call,
            flags: RequestFlags::ANSWERED.with(RequestFlags::BLOCKING),
            thread: 7,
            sequence: u64::MAX - u64::from(number),
            context: HandleNumber::from_client(HandleKind::Context, 3).unwrap(),
        };
        let bytes = header.to_bytes();
        assert_eq!(RequestHeader::read(&mut Decoder::new(&bytes)).unwrap(), header);
    }
    assert_eq!(CallId::from_number(CallId::ALL.len() as u16), None);
}

#[test]
fn unknown_calls_and_flags_are_refused() {
    let header = RequestHeader {
        call: CallId::launch,
        flags: RequestFlags::default(),
        thread: 1,
        sequence: 1,
        context: HandleNumber::NULL,
    };
    for (at, value) in [(1, 0xff), (2, 0x04), (3, 0x80)] {
        let mut bytes = header.to_bytes();
        *bytes.get_mut(at).unwrap() = value;
        let error = RequestHeader::read(&mut Decoder::new(&bytes)).unwrap_err();
        assert!(matches!(error, MessageError::Unknown { .. }), "{error}");
    }
    assert!(RequestHeader::read(&mut Decoder::new(&header.to_bytes()[..REQUEST_HEADER_BYTES - 1])).is_err());
}

#[test]
fn answer_headers_are_read_as_written() {
    let header = AnswerHeader {
        sequence: 5,
        result: 700,
        deferred: 1,
        released: 1 << 40,
    };
    let bytes = written(|encoder| header.write(encoder));
    assert_eq!(bytes.len(), ANSWER_HEADER_BYTES);
    check_cuts(&bytes, AnswerHeader::read);
    assert_eq!(AnswerHeader::read(&mut Decoder::new(&bytes)).unwrap(), header);
}

#[test]
fn launches_are_read_as_written() {
    let attribute = LaunchAttributeValue {
        id: 4,
        value: [2, 1, 1, 0, 0, 0, 0, u64::MAX],
    };
    for attributes in [None, Some(Vec::new()), Some(vec![attribute; 3])] {
        let launch = Launch {
            function: HandleNumber::from_worker(HandleKind::Kernel, 9).unwrap(),
            grid: [1, 2, 3],
            block: [4, 5, 6],
            shared: 49_152,
            stream: handle(1),
            cooperative: attributes.is_none(),
            attributes,
            arguments: &[1, 2, 3, 4, 5],
        };
        let bytes = written(|encoder| launch.write(encoder));
        check_cuts(&bytes, Launch::read);
        assert_eq!(Launch::read(&mut Decoder::new(&bytes)).unwrap(), launch);
    }
}

#[test]
fn launches_with_too_many_attributes_are_refused_before_memory_is_allocated() {
    let bytes = written(|encoder| {
        Launch {
            function: handle(1),
            grid: [1; 3],
            block: [1; 3],
            shared: 0,
            stream: handle(1),
            attributes: Some(Vec::new()),
            cooperative: false,
            arguments: &[],
        }
        .write(encoder);
    });
    let mut changed = bytes.clone();
    let count_at = bytes.len() - 8;
    changed
        .get_mut(count_at..count_at + 4)
        .unwrap()
        .copy_from_slice(&u32::MAX.to_le_bytes());
    let error = Launch::read(&mut Decoder::new(&changed)).unwrap_err();
    assert!(matches!(error, MessageError::TooLong { .. }), "{error}");
    // A list within the limit, but longer than the message.
    changed
        .get_mut(count_at..count_at + 4)
        .unwrap()
        .copy_from_slice(&60u32.to_le_bytes());
    let error = Launch::read(&mut Decoder::new(&changed)).unwrap_err();
    assert!(matches!(error, MessageError::Truncated { .. }), "{error}");
}

#[test]
fn copies_are_read_as_written() {
    let staging = HostPart::Staging {
        ticket: 9,
        offset: 4096,
    };
    for source in [HostPart::Inline(&[1, 2, 3]), staging] {
        let copy = CopyToDevice {
            to: 0x7000_0000,
            bytes: 3,
            stream: handle(2),
            source,
        };
        let bytes = written(|encoder| copy.write(encoder));
        check_cuts(&bytes, CopyToDevice::read);
        assert_eq!(CopyToDevice::read(&mut Decoder::new(&bytes)).unwrap(), copy);
    }
    for target in [HostPart::Inline(&[]), staging] {
        let copy = CopyToHost {
            from: 0x7000_0000,
            bytes: 300,
            stream: handle(2),
            target,
        };
        let bytes = written(|encoder| copy.write(encoder));
        check_cuts(&bytes, CopyToHost::read);
        assert_eq!(CopyToHost::read(&mut Decoder::new(&bytes)).unwrap(), copy);
    }
}

#[test]
fn copies_with_fewer_bytes_than_announced_are_refused() {
    let copy = CopyToDevice {
        to: 0,
        bytes: 4,
        stream: handle(2),
        source: HostPart::Inline(&[1, 2, 3]),
    };
    let bytes = written(|encoder| copy.write(encoder));
    assert!(CopyToDevice::read(&mut Decoder::new(&bytes)).is_err());
}

#[test]
fn sessions_begin_with_what_the_other_end_wrote() {
    let begin = BeginSession {
        table: TABLE_DIGEST,
        program: "matmul",
        process: 1234,
    };
    let bytes = written(|encoder| begin.write(encoder));
    check_cuts(&bytes, BeginSession::read);
    assert_eq!(BeginSession::read(&mut Decoder::new(&bytes)).unwrap(), begin);
    let snapshot = Snapshot {
        driver_version: 13_000,
        is_relayed: true,
        devices: vec![
            DeviceSnapshot {
                name: "Stand-in GPU".into(),
                total_bytes: 1 << 30,
                uuid: [7; 16],
                attributes: vec![None, Some(1024), Some(-1)],
            };
            2
        ],
    };
    let bytes = written(|encoder| snapshot.write(encoder));
    check_cuts(&bytes, Snapshot::read);
    assert_eq!(Snapshot::read(&mut Decoder::new(&bytes)).unwrap(), snapshot);
}

#[test]
fn code_messages_are_read_as_written() {
    for image in [CodeImage::Inline(b"// ptx"), CodeImage::Collected(1 << 33)] {
        let load = LoadCode {
            handle: HandleNumber::from_client(HandleKind::Module, 1).unwrap(),
            options: vec![JitOption { kind: 4, value: 8192 }],
            image,
        };
        let bytes = written(|encoder| load.write(encoder));
        check_cuts(&bytes, LoadCode::read);
        assert_eq!(LoadCode::read(&mut Decoder::new(&bytes)).unwrap(), load);
    }
    let answer = LoadAnswer {
        info: b"info",
        error: b"",
    };
    let bytes = written(|encoder| answer.write(encoder));
    check_cuts(&bytes, LoadAnswer::read);
    let lookup = FunctionLookup {
        owner: HandleNumber::from_client(HandleKind::Module, 1).unwrap(),
        name: "_Z3addPfS_",
    };
    let bytes = written(|encoder| lookup.write(encoder));
    check_cuts(&bytes, FunctionLookup::read);
    let function = FunctionDescription {
        handle: HandleNumber::from_worker(HandleKind::Function, 1).unwrap(),
        name: "add".into(),
        max_threads: 1024,
        shared_bytes: 64,
        parameters: vec![
            ParameterPlace { offset: 0, bytes: 8 },
            ParameterPlace { offset: 8, bytes: 4 },
        ],
    };
    assert_eq!(function.argument_bytes(), 12);
    let list = FunctionList {
        functions: vec![function; 3],
    };
    let bytes = written(|encoder| list.write(encoder));
    check_cuts(&bytes, FunctionList::read);
    assert_eq!(FunctionList::read(&mut Decoder::new(&bytes)).unwrap(), list);
}

#[test]
fn texts_with_zeros_and_other_encodings_are_refused() {
    for bytes in [&b"a\0b"[..], &[0xff, 0xfe]] {
        let message = written(|encoder| encoder.write_bytes(bytes));
        assert!(matches!(
            Decoder::new(&message).read_text(),
            Err(MessageError::Text { .. })
        ));
    }
}

#[test]
fn handles_look_like_addresses_and_are_read_back() {
    for kind in [HandleKind::Context, HandleKind::Stream, HandleKind::Memory] {
        for index in [0, 1, 77, HandleNumber::MAX_INDEX] {
            for handle in [
                HandleNumber::from_client(kind, index),
                HandleNumber::from_worker(kind, index),
            ] {
                let handle = handle.unwrap();
                assert_eq!((handle.kind(), handle.index()), (Some(kind), index));
                assert_eq!(HandleNumber::from_address(handle.as_address()), Some(handle));
                assert_eq!(HandleNumber::from_address(handle.as_address() + 1), None);
            }
        }
        assert_eq!(HandleNumber::from_client(kind, HandleNumber::MAX_INDEX + 1), None);
    }
    for stream in [
        HandleNumber::NULL,
        HandleNumber::STREAM_LEGACY,
        HandleNumber::STREAM_PER_THREAD,
    ] {
        assert_eq!(HandleNumber::from_address(stream.as_address()), Some(stream));
        assert_eq!(stream.kind(), None);
    }
    assert_eq!(HandleNumber::from_address(3), None);
    assert_eq!(HandleNumber::from_address(0x7fff_0000_0000), None);
}
