//! Fuzz target for the messages of CUDA API remoting: what is accepted is written again as it was.

use remote_calls::library::{GeneratedPart, LibraryArguments, LibraryOpening, OpenLibrary, ReadGenerated};
use remote_calls::message::{
    ArrayCopy, BeginSession, CaptureInfo, CopyToDevice, CopyToHost, CreateTexture, DescribeObject, FunctionDescription,
    FunctionList, FunctionLookup, HostFunctionCall, HostFunctionDone, Launch, LaunchHostFunction, LoadAnswer, LoadCode,
    MemoryCopy, ObjectResource, Snapshot,
};
use remote_calls::{AnswerHeader, Decoder, Encoder, HandleNumber, MessageError, RequestHeader};

/// Reads one message, and writes it to the encoder.
type Message = fn(&mut Decoder<'_>, &mut Encoder) -> Result<(), MessageError>;

macro_rules! messages {
    ($($type:ident)*) => {
        [$(|decoder, encoder| {
            $type::read(decoder)?.write(encoder);
            Ok(())
        },)*]
    };
}

/// All messages. The first byte of an input selects one.
const MESSAGES: [Message; 25] = messages! {
    AnswerHeader BeginSession CopyToDevice CopyToHost FunctionDescription FunctionList FunctionLookup HostFunctionCall
    HostFunctionDone Launch LaunchHostFunction LoadAnswer LoadCode MemoryCopy Snapshot LibraryArguments OpenLibrary
    LibraryOpening ReadGenerated GeneratedPart CreateTexture ArrayCopy CaptureInfo DescribeObject ObjectResource
};

/// Fuzzes the readers of messages. A first byte after those of the messages selects the header of a request.
///
/// # Panics
/// If a message that was accepted is written in another way than it was read.
pub fn remote_calls(data: &[u8]) -> bool {
    let Some((kind, message)) = data.split_first() else {
        return false;
    };
    let mut decoder = Decoder::new(message);
    let mut encoder = Encoder::default();
    let read = match MESSAGES.get(usize::from(*kind)) {
        Some(read) => read(&mut decoder, &mut encoder),
        None => RequestHeader::read(&mut decoder).map(|header| {
            encoder.write_raw(&header.to_bytes());
            let handle = header.context;
            assert!(handle.kind().is_none() || HandleNumber::from_address(handle.as_address()) == Some(handle));
        }),
    };
    if read.is_err() {
        return false;
    }
    let used = message.get(..decoder.offset()).unwrap_or_default();
    // Flags of a snapshot are written as 0 or 1, whatever they were.
    if *kind != SNAPSHOT {
        assert_eq!(encoder.as_bytes(), used, "message {kind}");
    }
    true
}

/// Position of [`Snapshot`] in the list of messages.
const SNAPSHOT: u8 = 14;
