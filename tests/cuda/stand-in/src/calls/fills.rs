//! Calls that fill memory, in rows of elements of one, two or four bytes.

use crate::call::Call;
use crate::fill::Fill;
use crate::graphs::Work;
use crate::{Answer, capture};
use cuda_driver::{CuDevicePtr, CuStream, FillNode};

/// Fills memory in a stream; the call does not wait.
fn fill(call: &Call, stream: Option<CuStream>, form: FillNode) -> Answer {
    let (context, stream) = match stream {
        Some(stream) => call.stream(stream)?,
        None => call.default_stream()?,
    };
    let fill = Fill::from_node(&form)?;
    fill.check()?;
    if capture::capture_work(&context, &stream, || Work::Fill(fill))? {
        return Ok(());
    }
    context.submit(&stream, Vec::new(), move |_| fill.run());
    Ok(())
}

fn elements(to: u64, value: u32, element: u32, width: usize) -> FillNode {
    rows(to, 0, value, element, width, 1)
}

fn rows(to: u64, pitch: usize, value: u32, element: u32, width: usize, height: usize) -> FillNode {
    FillNode {
        to,
        pitch,
        value,
        element,
        width,
        height,
    }
}

macro_rules! fills {
    ($($now:ident $later:ident $type:ty, $element:literal;)*) => { $(
        pub fn $now(call: &Call, to: CuDevicePtr, value: $type, count: usize) -> Answer {
            fill(call, None, elements(to, value.into(), $element, count))
        }

        pub fn $later(call: &Call, to: CuDevicePtr, value: $type, count: usize, stream: CuStream) -> Answer {
            fill(call, Some(stream), elements(to, value.into(), $element, count))
        }
    )* };
}

macro_rules! fills_of_rows {
    ($($now:ident $later:ident $type:ty, $element:literal;)*) => { $(
        pub fn $now(
            call: &Call,
            to: CuDevicePtr,
            pitch: usize,
            value: $type,
            width: usize,
            height: usize,
        ) -> Answer {
            fill(call, None, rows(to, pitch, value.into(), $element, width, height))
        }

        pub fn $later(
            call: &Call,
            to: CuDevicePtr,
            pitch: usize,
            value: $type,
            width: usize,
            height: usize,
            stream: CuStream,
        ) -> Answer {
            fill(call, Some(stream), rows(to, pitch, value.into(), $element, width, height))
        }
    )* };
}

fills! {
    cuMemsetD8_v2 cuMemsetD8Async u8, 1;
    cuMemsetD16_v2 cuMemsetD16Async u16, 2;
    cuMemsetD32_v2 cuMemsetD32Async u32, 4;
}

fills_of_rows! {
    cuMemsetD2D8_v2 cuMemsetD2D8Async u8, 1;
    cuMemsetD2D16_v2 cuMemsetD2D16Async u16, 2;
    cuMemsetD2D32_v2 cuMemsetD2D32Async u32, 4;
}
