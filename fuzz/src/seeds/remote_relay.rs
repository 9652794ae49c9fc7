//! Seeds of the fuzz target for frames of a relay.

use super::seed::Add;
use remote_calls::message::{
    AllocateHost, CopyToDevice, CopyToHost, HostPart, Launch, MemoryCopy, MemoryPlace, MemorySide,
};
use remote_calls::{CallId, Encoder, HandleKind, HandleNumber, RequestFlags, RequestHeader};
use remote_relay::record::{Area, Content, ProgramMemory, Record};

/// Returns a request.
fn request(call: CallId, write: &dyn Fn(&mut Encoder)) -> Vec<u8> {
    let header = RequestHeader {
        call,
        flags: RequestFlags::ANSWERED,
        thread: 1,
        sequence: 1,
        context: HandleNumber::NULL,
    };
    let mut encoder = Encoder::default();
    encoder.write_raw(&header.to_bytes());
    write(&mut encoder);
    encoder.into_buffer()
}

/// Adds the seeds.
pub(super) fn add(add: Add<'_>) {
    let mut seed = |name: &'static str, records: &[Record<'_>]| {
        let mut encoder = Encoder::default();
        for record in records {
            record.write(&mut encoder);
        }
        add("remote_relay", name, encoder.into_buffer());
    };
    let begin = ProgramMemory {
        window_address: 0x2a00_0000_0000,
        window_bytes: 1 << 30,
        request_bytes: 1 << 20,
        answer_bytes: 1 << 20,
        staging_bytes: 64 << 20,
    };
    seed("begin", &[Record::Begin(begin)]);
    let data = |content| Record::Data {
        area: Area::Window,
        offset: 4096,
        content,
    };
    let kept = Content::Kept {
        digest: [8; 32],
        bytes: &[3],
    };
    let known = Content::Known {
        digest: [7; 32],
        bytes: 65_536,
    };
    seed("data", &[data(Content::Plain(&[1, 2])), data(kept), data(known)]);
    let exposed = Record::Exposed {
        offset: 8192,
        bytes: &[1; 64],
    };
    seed(
        "exposed",
        &[exposed, Record::Output(b"block 0\n"), Record::HostFunction(&[0; 20])],
    );
    let allocate = request(CallId::allocate_host, &|e| {
        AllocateHost {
            offset: 4096,
            bytes: 8192,
            is_exposed: false,
        }
        .write(e);
    });
    let stream = HandleNumber::from_client(HandleKind::Stream, 1).unwrap_or_default();
    let launch = request(CallId::launch, &|e| {
        Launch {
            function: HandleNumber::from_client(HandleKind::Function, 2).unwrap_or_default(),
            grid: [1; 3],
            block: [32, 1, 1],
            shared: 0,
            stream,
            attributes: None,
            cooperative: false,
            arguments: &0x2a00_0000_1010_u64.to_le_bytes(),
        }
        .write(e);
    });
    let messages = [Record::Message(&allocate), Record::Message(&launch)];
    seed("launch-with-pinned-memory", &messages);
    let to_device = request(CallId::copy_to_device, &|e| {
        CopyToDevice {
            to: 0x7000_0000,
            bytes: 4096,
            stream,
            source: HostPart::Window(4096),
        }
        .write(e);
    });
    let to_host = request(CallId::begin_copy_to_host, &|e| {
        CopyToHost {
            from: 0x7000_0000,
            bytes: 4096,
            stream,
            target: HostPart::Window(8192),
        }
        .write(e);
    });
    let fence = Record::Fence(vec![1, 2]);
    seed(
        "copies",
        &[Record::Message(&to_device), fence, Record::Message(&to_host)],
    );
    let side = MemorySide {
        place: MemoryPlace::Window(4096),
        x: 4,
        y: 1,
        z: 0,
        level: 0,
        pitch: 512,
        layer_rows: 16,
    };
    let rows = request(CallId::copy_memory, &|e| {
        e.write(stream);
        MemoryCopy {
            source: side,
            target: MemorySide {
                place: MemoryPlace::Device(0x7000_0000),
                ..side
            },
            width: 64,
            height: 8,
            depth: 2,
        }
        .write(e);
    });
    let (head, tail) = rows.split_at(40);
    let tail = Content::Plain(tail);
    seed("rows", &[Record::Message(&rows), Record::LongMessage { head, tail }]);
}
