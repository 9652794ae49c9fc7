//! Fuzz target for frames of a relay: what is accepted is written again as it was, and requests in it name ranges that
//! no program can have outside of its memory.

use remote_calls::{Decoder, Encoder, REQUEST_HEADER_BYTES, RequestHeader};
use remote_relay::record::{Area, Record, read_records};
use remote_relay::{HostMemory, RelayError, RequestRanges};

/// Address of the window.
const WINDOW: u64 = 0x2a00_0000_0000;
/// Size of the window, bytes.
const WINDOW_BYTES: u64 = 1 << 30;

/// Fuzzes the reader of frames, and what a relay's end derives from the requests in them.
///
/// # Panics
/// If a record that was accepted is written in another way than it was read, or an allocation ends outside of the window.
pub fn remote_relay(data: &[u8]) -> bool {
    let mut encoder = Encoder::default();
    let mut memory = HostMemory::new(WINDOW, WINDOW_BYTES);
    let read = read_records(data, |record| {
        record.write(&mut encoder);
        if let Record::Message(message) = record {
            check_request(&mut memory, message);
        }
        Ok::<(), RelayError>(())
    });
    let written = encoder.as_bytes();
    assert_eq!(data.get(..written.len()), Some(written), "a frame");
    read.is_ok()
}

fn check_request(memory: &mut HostMemory, message: &[u8]) {
    let Ok(header) = RequestHeader::read(&mut Decoder::new(message)) else {
        return;
    };
    let arguments = message.get(REQUEST_HEADER_BYTES..).unwrap_or_default();
    let Ok(ranges) = RequestRanges::of(memory, &header, arguments) else {
        return;
    };
    let is_in_window = |offset: u64, bytes: u64| offset.checked_add(bytes).is_some_and(|end| end <= WINDOW_BYTES);
    for (offset, bytes) in ranges.allocates.into_iter().chain(ranges.frees) {
        assert!(is_in_window(offset, bytes), "{offset} and {bytes} bytes of the window");
    }
    for first in &ranges.exposes {
        let (bytes, _) = memory.allocation(*first).unwrap_or_default();
        assert!(is_in_window(*first, bytes), "{first} and {bytes} bytes of the window");
    }
    for range in ranges.reads.iter().chain(&ranges.writes) {
        assert!(
            range.bytes > 0 && matches!(range.area, Area::Staging | Area::Window),
            "{range:?}"
        );
    }
}
