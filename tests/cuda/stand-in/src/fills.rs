//! Memory fills, in rows of elements of one, two or four bytes.

use crate::Answer;
use crate::call::Call;
use crate::codes::{ILLEGAL_ADDRESS, INVALID_VALUE};
use crate::graphs::capture;
use crate::graphs::nodes::Work;
use crate::memory::{ranges, spans};
use crate::streams::submit;
use cuda_driver::{CuDevicePtr, CuStream, FillNode};

/// A fill of memory with a value.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    to: u64,
    pitch: u64,
    value: u32,
    element: u32,
    width: u64,
    height: u64,
}

impl Fill {
    /// Returns the fill as a graph node's structure.
    pub fn to_node(self) -> FillNode {
        FillNode {
            to: self.to,
            pitch: self.pitch as usize,
            value: self.value,
            element: self.element,
            width: self.width as usize,
            height: self.height as usize,
        }
    }

    /// Parses a fill from the driver's structure.
    pub fn from_node(form: &FillNode) -> Answer<Self> {
        if !matches!(form.element, 1 | 2 | 4) || !form.to.is_multiple_of(form.element.into()) {
            return Err(INVALID_VALUE);
        }
        let (width, height) = (form.width as u64, form.height.max(1) as u64);
        let bytes = width.checked_mul(form.element.into()).ok_or(INVALID_VALUE)?;
        if height > 1 && (form.pitch as u64) < bytes {
            return Err(INVALID_VALUE);
        }
        Ok(Self {
            to: form.to,
            pitch: form.pitch as u64,
            value: form.value,
            element: form.element,
            width,
            height,
        })
    }

    fn row(&self, y: u64) -> Answer<(u64, u64)> {
        let at = self.pitch.checked_mul(y).and_then(|offset| self.to.checked_add(offset));
        Ok((at.ok_or(INVALID_VALUE)?, self.width * u64::from(self.element)))
    }

    fn check(&self) -> Answer {
        let ranges = ranges();
        (0..self.height).try_for_each(|y| {
            let (at, bytes) = self.row(y)?;
            spans(&ranges, at, bytes, true, INVALID_VALUE).map(drop)
        })
    }

    /// Runs the fill.
    pub fn run(&self) -> Answer {
        let ranges = ranges();
        let value = self.value.to_le_bytes();
        let pattern = value.get(..self.element as usize).unwrap_or(&value);
        for y in 0..self.height {
            let (at, bytes) = self.row(y)?;
            let mut offset = 0;
            for span in spans(&ranges, at, bytes, true, ILLEGAL_ADDRESS)? {
                for n in 0..span.bytes {
                    let byte = pattern.get((offset + n) as usize % pattern.len()).copied().unwrap_or(0);
                    // SAFETY: the table of ranges holds the memory, which cannot be freed during the access.
                    unsafe { span.pointer().add(n as usize).write(byte) };
                }
                offset += span.bytes;
            }
        }
        Ok(())
    }
}

/// Fills memory in a stream and does not wait.
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
    submit(&context, &stream, Vec::new(), move |_| fill.run());
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
