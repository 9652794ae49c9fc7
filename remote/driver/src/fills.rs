//! Fills of device memory. They need no answer if they stay in one allocation of the program.

use crate::forwarded;
use crate::request::CallMode;
use crate::{CallResult, memory};
use cuda_driver::{CuDevicePtr, CuStream, STREAM_PER_THREAD};

/// Returns how a fill of this many bytes is called: its range can be wrong, unless it is known.
fn mode(is_per_thread: bool, to: CuDevicePtr, bytes: Option<usize>) -> CallMode {
    let is_known = bytes.is_some_and(|bytes| memory::contains(to, bytes as u64));
    CallMode {
        is_per_thread,
        needs_answer: !is_known,
    }
}

macro_rules! fills {
    ($($name:ident $with_stream:ident $sync:ident $asynchronous:ident $type:ty;)*) => {$(
        #[doc = concat!("`", stringify!($asynchronous), "`.")]
        pub fn $with_stream(is_per_thread: bool, to: CuDevicePtr, value: $type, count: usize, stream: CuStream) -> CallResult {
            let bytes = count.checked_mul(size_of::<$type>());
            forwarded::$asynchronous(mode(is_per_thread, to, bytes), to, value, count, stream)
        }

        #[doc = concat!("`", stringify!($sync), "`, or its form for the thread's own default stream.")]
        pub fn $name(is_per_thread: bool, to: CuDevicePtr, value: $type, count: usize) -> CallResult {
            if is_per_thread {
                let stream = std::ptr::without_provenance_mut(STREAM_PER_THREAD);
                return $with_stream(true, to, value, count, stream);
            }
            let bytes = count.checked_mul(size_of::<$type>());
            forwarded::$sync(mode(false, to, bytes), to, value, count)
        }
    )*};
}

macro_rules! row_fills {
    ($($name:ident $with_stream:ident $sync:ident $asynchronous:ident $type:ty;)*) => {$(
        #[doc = concat!("`", stringify!($asynchronous), "`.")]
        pub fn $with_stream(
            is_per_thread: bool,
            to: CuDevicePtr,
            pitch: usize,
            value: $type,
            width: usize,
            height: usize,
            stream: CuStream,
        ) -> CallResult {
            let mode = mode(is_per_thread, to, pitch.checked_mul(height));
            forwarded::$asynchronous(mode, to, pitch, value, width, height, stream)
        }

        #[doc = concat!("`", stringify!($sync), "`, or its form for the thread's own default stream.")]
        pub fn $name(
            is_per_thread: bool,
            to: CuDevicePtr,
            pitch: usize,
            value: $type,
            width: usize,
            height: usize,
        ) -> CallResult {
            if is_per_thread {
                let stream = std::ptr::without_provenance_mut(STREAM_PER_THREAD);
                return $with_stream(true, to, pitch, value, width, height, stream);
            }
            let mode = mode(false, to, pitch.checked_mul(height));
            forwarded::$sync(mode, to, pitch, value, width, height)
        }
    )*};
}

fills! {
    fill_8 fill_8_async cuMemsetD8_v2 cuMemsetD8Async u8;
    fill_16 fill_16_async cuMemsetD16_v2 cuMemsetD16Async u16;
    fill_32 fill_32_async cuMemsetD32_v2 cuMemsetD32Async u32;
}

row_fills! {
    fill_rows_8 fill_rows_8_async cuMemsetD2D8_v2 cuMemsetD2D8Async u8;
    fill_rows_16 fill_rows_16_async cuMemsetD2D16_v2 cuMemsetD2D16Async u16;
    fill_rows_32 fill_rows_32_async cuMemsetD2D32_v2 cuMemsetD2D32Async u32;
}
