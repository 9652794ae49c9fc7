//! A client that no library is: whatever it sends, the worker answers or ends with a message, and never crashes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use remote_calls::library::{LibraryArguments, LibraryFunction, LibraryHandle};
use remote_calls::message::{BeginSession, Snapshot};
use remote_calls::{AnswerHeader, CallId, Decoder, Encoder, HandleNumber, RequestFlags, RequestHeader, TABLE_DIGEST};
use remote_ring::{
    HostWindow, MessageReader, MessageWriter, Region, RegionLayout, RingError, SocketPeer, Wait, pass_region,
};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use whole_program_tests::cuda::CudaStandIn;
use whole_program_tests::program;

const GREETING: &[u8] = b"kinescope cuda 1";
/// Maximum time for an answer or the end of a worker.
const LIMIT: Duration = Duration::from_secs(30);

/// A client with a worker of its own.
struct Client {
    worker: Child,
    writer: MessageWriter,
    reader: MessageReader,
    peer: SocketPeer<UnixStream>,
    sequence: u64,
    context: HandleNumber,
    /// Kept as long as the session.
    _window: HostWindow,
}

impl Client {
    fn start(stand_in: &CudaStandIn) -> Self {
        let (own, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(program("kinescope"));
        command
            .arg("serve-program")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::piped());
        let worker = stand_in.set_environment(&mut command).spawn().unwrap();
        let region = Arc::new(Region::create(RegionLayout::default()).unwrap());
        pass_region(&own, GREETING, &region).unwrap();
        let window = HostWindow::create().unwrap();
        window.pass(&own).unwrap();
        let functions = Region::create(RegionLayout {
            request_bytes: 4 << 10,
            answer_bytes: 4 << 10,
            staging_bytes: 4 << 10,
        });
        pass_region(&own, GREETING, &functions.unwrap()).unwrap();
        let (writer, reader) = region.client_ends().unwrap();
        let mut client = Self {
            worker,
            writer,
            reader,
            peer: SocketPeer::new(own),
            sequence: 0,
            context: HandleNumber::NULL,
            _window: window,
        };
        let mut begin = Encoder::default();
        let (table, process) = (TABLE_DIGEST, 1);
        BeginSession {
            table,
            program: "hostile",
            process,
        }
        .write(&mut begin);
        let answer = client.ask(CallId::begin_session, begin.as_bytes()).unwrap();
        let snapshot = Snapshot::read(&mut Decoder::new(&answer[remote_calls::ANSWER_HEADER_BYTES..])).unwrap();
        assert_eq!(snapshot.devices.len(), 1);
        let answer = client
            .ask(CallId::cuDevicePrimaryCtxRetain, &0i32.to_le_bytes())
            .unwrap();
        let mut decoder = Decoder::new(&answer[remote_calls::ANSWER_HEADER_BYTES..]);
        client.context = decoder.read().unwrap();
        client
    }

    /// Sends a request. Returns the answer, or `None` if the worker ended instead.
    fn ask(&mut self, call: CallId, arguments: &[u8]) -> Option<Vec<u8>> {
        self.sequence += 1;
        let header = RequestHeader {
            call,
            flags: RequestFlags::ANSWERED,
            thread: 1,
            sequence: self.sequence,
            context: self.context,
        };
        self.send_raw(&[&header.to_bytes(), arguments])
    }

    fn send_raw(&mut self, parts: &[&[u8]]) -> Option<Vec<u8>> {
        match self.writer.write(parts, &self.peer) {
            Ok(()) => {}
            Err(RingError::PeerGone { .. }) => return None,
            Err(e) => panic!("{e}"),
        }
        let mut answer = Vec::new();
        match self
            .reader
            .read(&mut answer, Wait::Until(Instant::now() + LIMIT), &self.peer)
        {
            Ok(true) => {
                AnswerHeader::read(&mut Decoder::new(&answer)).unwrap();
                Some(answer)
            }
            Ok(false) => panic!("no answer"),
            Err(RingError::PeerGone { .. }) => None,
            Err(e) => panic!("{e}"),
        }
    }

    /// Ends the session. Returns the worker's exit code and its messages.
    fn finish(self) -> (i32, String) {
        let Self {
            mut worker,
            peer,
            writer,
            reader,
            ..
        } = self;
        drop((peer, writer, reader));
        let begun = Instant::now();
        let status = loop {
            match worker.try_wait().unwrap() {
                Some(status) => break status,
                None if begun.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(2)),
                None => {
                    worker.kill().unwrap();
                    panic!("the worker did not end");
                }
            }
        };
        let mut messages = String::new();
        worker.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        let code = status.code();
        let code = code.unwrap_or_else(|| panic!("signal {:?}: {messages}", status.signal()));
        (code, messages)
    }
}

/// Returns pseudo-random bytes, fewer than 128; small numbers are frequent.
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let count = next() % 128;
    (0..count)
        .map(|_| if next() % 3 == 0 { next() as u8 } else { 0 })
        .collect()
}

#[test]
fn worker_survives_or_refuses_any_arguments_of_any_call() {
    send_to_every_call(0..1);
}

#[test]
#[ignore = "long: more seeds for each call"]
fn worker_survives_or_refuses_more_arguments_of_any_call() {
    send_to_every_call(1..8);
}

/// Sends arguments of these seeds with every call.
fn send_to_every_call(seeds: std::ops::Range<u64>) {
    let stand_in = CudaStandIn::default();
    let mut client = Client::start(&stand_in);
    let (mut answers, mut ends) = (0, 0);
    for (number, call) in (0u64..).zip(CallId::ALL) {
        for seed in seeds.clone() {
            if client.ask(*call, &bytes(number * 100 + seed + 1)).is_some() {
                answers += 1;
                continue;
            }
            ends += 1;
            let (code, messages) = client.finish();
            assert_eq!(code, 2, "{call:?}, seed {seed}: {messages}");
            assert!(messages.contains("request "), "{call:?}, seed {seed}: {messages}");
            client = Client::start(&stand_in);
        }
    }
    assert!(answers > 20 && ends > 20, "{answers} answers, {ends} ends");
    assert_eq!(client.finish().0, 0);
}

#[test]
fn worker_survives_any_arguments_of_library_calls() {
    let stand_in = CudaStandIn::default();
    let library = program("libcuda_math_stand_in.so");
    for name in ["libcublas.so.13", "libcurand.so.10"] {
        std::os::unix::fs::symlink(&library, stand_in.file(name)).unwrap();
    }
    let mut client = Client::start(&stand_in);
    let (mut answers, mut ends) = (0, 0);
    for (number, function) in (0u64..).zip(LibraryFunction::ALL) {
        for seed in 0..12 {
            // Objects 1 and 2 exist, if the session has begun to make them.
            let mut arguments = Encoder::default();
            arguments.write(*function);
            if function.has_object() {
                arguments.write(LibraryHandle::from_number(seed as u32 % 4));
            }
            let mut message = arguments.into_buffer();
            message.extend(bytes(number * 50 + seed + 7));
            let call = match seed % 2 {
                0 => CallId::library_call,
                _ => CallId::finish_library_call,
            };
            // As many bytes as the function takes, where there are enough: other lengths are refused by themselves.
            let mut decoder = Decoder::new(&message);
            if LibraryArguments::read(&mut decoder).is_ok() {
                let length = decoder.offset();
                message.truncate(length);
            }
            if client.ask(call, &message).is_some() {
                answers += 1;
                continue;
            }
            ends += 1;
            let (code, messages) = client.finish();
            assert_eq!(code, 2, "{function:?}, seed {seed}: {messages}");
            assert!(messages.contains("request "), "{function:?}, seed {seed}: {messages}");
            client = Client::start(&stand_in);
            for (function, kind) in [
                (LibraryFunction::cublasCreate_v2, &[][..]),
                (LibraryFunction::curandCreateGeneratorHost, &[161, 0, 0, 0]),
            ] {
                let mut message = Encoder::default();
                message.write(function);
                message.write_raw(kind);
                assert!(client.ask(CallId::finish_library_call, message.as_bytes()).is_some());
            }
        }
    }
    assert!(answers > 20 && ends > 20, "{answers} answers, {ends} ends");
    assert_eq!(client.finish().0, 0);
}

#[test]
fn worker_ends_with_a_message_for_an_invalid_header() {
    let stand_in = CudaStandIn::default();
    for header in [&[][..], &[0xff; 20], &[0; 7]] {
        let mut client = Client::start(&stand_in);
        assert_eq!(client.send_raw(&[header]), None);
        let (code, messages) = client.finish();
        assert_eq!(code, 2, "{messages}");
        assert!(messages.contains("request 0: "), "{messages}");
    }
}
