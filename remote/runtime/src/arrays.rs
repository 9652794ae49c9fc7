//! Arrays of texels: creation, descriptions, and copies of rows. Handles are those of the driver.

use crate::CallResult;
use crate::channels::{ChannelDescription, TexelFormat};
use crate::contexts::bind;
use crate::copies::{CopyKind, CopyOrder, Extent};
use crate::driver::RuntimeDriver;
use crate::errors::{INVALID_COPY_DIRECTION, INVALID_PITCH, INVALID_VALUE};
use crate::pointers::{address_of, get, put, put_if_wanted};
use cuda_driver::{ArrayDescription, Copy2d, CuArray, CuMipmappedArray, MEMORY_ARRAY};
use std::ffi::c_void;

fn description(channels: *const ChannelDescription, extent: Extent, flags: u32) -> CallResult<ArrayDescription> {
    let TexelFormat { format, channels } = get(channels)?.to_driver()?;
    Ok(ArrayDescription {
        width: extent.width,
        height: extent.height,
        depth: extent.depth,
        format,
        channels,
        flags,
    })
}

/// Returns the description of an array.
pub(crate) fn describe(driver: &RuntimeDriver, array: CuArray) -> CallResult<ArrayDescription> {
    let mut description = ArrayDescription::default();
    driver.cuArray3DGetDescriptor_v2((&raw mut description).cast(), array)?;
    Ok(description)
}

/// Returns the texels of an array.
pub(crate) const fn texel_of(description: &ArrayDescription) -> TexelFormat {
    TexelFormat {
        format: description.format,
        channels: description.channels,
    }
}

/// `cudaMallocArray` and `cudaMalloc3DArray`.
pub fn create(to: *mut CuArray, channels: *const ChannelDescription, extent: Extent, flags: u32) -> CallResult {
    let driver = bind()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let description = description(channels, extent, flags)?;
    driver.cuArray3DCreate_v2(to, (&raw const description).cast())
}

/// `cudaFreeArray`. The null handle is freed without effect.
pub fn destroy(array: CuArray) -> CallResult {
    let driver = bind()?;
    match array.is_null() {
        true => Ok(()),
        false => driver.cuArrayDestroy(array),
    }
}

/// `cudaMallocMipmappedArray`.
pub fn create_mipmapped(
    to: *mut CuMipmappedArray,
    channels: *const ChannelDescription,
    extent: Extent,
    levels: u32,
    flags: u32,
) -> CallResult {
    let driver = bind()?;
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let description = description(channels, extent, flags)?;
    driver.cuMipmappedArrayCreate(to, (&raw const description).cast(), levels)
}

/// `cudaGetMipmappedArrayLevel`.
pub fn write_level(to: *mut CuArray, array: CuMipmappedArray, level: u32) -> CallResult {
    bind()?.cuMipmappedArrayGetLevel(to, array, level)
}

/// `cudaFreeMipmappedArray`. The null handle is freed without effect.
pub fn destroy_mipmapped(array: CuMipmappedArray) -> CallResult {
    let driver = bind()?;
    match array.is_null() {
        true => Ok(()),
        false => driver.cuMipmappedArrayDestroy(array),
    }
}

/// `cudaArrayGetInfo`.
pub fn write_info(
    channels: *mut ChannelDescription,
    extent: *mut Extent,
    flags: *mut u32,
    array: CuArray,
) -> CallResult {
    let description = describe(bind()?, array)?;
    put_if_wanted(channels, ChannelDescription::from_driver(texel_of(&description))?);
    put_if_wanted(
        extent,
        Extent {
            width: description.width,
            height: description.height,
            depth: description.depth,
        },
    );
    put_if_wanted(flags, description.flags);
    Ok(())
}

/// `cudaGetChannelDesc`.
pub fn write_channels(to: *mut ChannelDescription, array: CuArray) -> CallResult {
    let description = describe(bind()?, array)?;
    put(to, ChannelDescription::from_driver(texel_of(&description))?)
}

/// A position in an array: an offset in a row, bytes, and a row.
#[derive(Clone, Copy, Debug)]
pub struct ArrayPosition {
    /// The array.
    pub array: CuArray,
    /// Offset in a row, bytes.
    pub x: usize,
    /// First row.
    pub y: usize,
}

/// Rows of bytes in memory with addresses.
#[derive(Clone, Copy, Debug)]
pub struct LinearRows {
    /// First byte.
    pub at: *const c_void,
    /// Distance between rows, bytes.
    pub pitch: usize,
}

/// One side of a copy of rows.
#[derive(Clone, Copy)]
enum RowSide {
    Array(ArrayPosition),
    /// Memory of a type of the driver.
    Linear(LinearRows, u32),
}

fn copy(
    driver: &RuntimeDriver,
    to: RowSide,
    from: RowSide,
    width: usize,
    height: usize,
    order: CopyOrder,
) -> CallResult {
    if width == 0 || height == 0 {
        return Ok(());
    }
    let parts = |side| match side {
        RowSide::Array(ArrayPosition { array, x, y }) => {
            let nowhere = LinearRows {
                at: std::ptr::null(),
                pitch: 0,
            };
            (MEMORY_ARRAY, array, x, y, nowhere)
        }
        RowSide::Linear(rows, kind) => (kind, std::ptr::null_mut(), 0, 0, rows),
    };
    let (to_kind, to_array, to_x, to_y, to) = parts(to);
    let (source_kind, source_array, source_x, source_y, source) = parts(from);
    let copy = Copy2d {
        source_x,
        source_y,
        source_kind,
        source_host: source.at,
        source_device: address_of(source.at),
        source_array,
        source_pitch: source.pitch,
        to_x,
        to_y,
        to_kind,
        to_host: to.at.cast_mut(),
        to_device: address_of(to.at),
        to_array,
        to_pitch: to.pitch,
        width,
        height,
    };
    match order.stream() {
        None => driver.cuMemcpy2DUnaligned_v2(&raw const copy),
        Some(stream) => driver.cuMemcpy2DAsync_v2(&raw const copy, stream),
    }
}

/// Returns the driver's type of the source of a copy to an array.
pub(crate) fn source_of(kind: u32) -> CallResult<u32> {
    match CopyKind::parse(kind)? {
        CopyKind::HostToHost | CopyKind::DeviceToHost => Err(INVALID_COPY_DIRECTION),
        kind => Ok(kind.memory_types().0),
    }
}

/// Returns the driver's type of the target of a copy from an array.
pub(crate) fn target_of(kind: u32) -> CallResult<u32> {
    match CopyKind::parse(kind)? {
        CopyKind::HostToHost | CopyKind::HostToDevice => Err(INVALID_COPY_DIRECTION),
        kind => Ok(kind.memory_types().1),
    }
}

/// `cudaMemcpy2DToArray` and `cudaMemcpy2DToArrayAsync`.
pub fn copy_rows_to(
    to: ArrayPosition,
    from: LinearRows,
    width: usize,
    height: usize,
    kind: u32,
    order: CopyOrder,
) -> CallResult {
    let kind = source_of(kind)?;
    let driver = bind()?;
    if width > from.pitch {
        return Err(INVALID_PITCH);
    }
    let from = RowSide::Linear(from, kind);
    copy(driver, RowSide::Array(to), from, width, height, order)?;
    order.finish()
}

/// `cudaMemcpy2DFromArray` and `cudaMemcpy2DFromArrayAsync`.
pub fn copy_rows_from(
    to: LinearRows,
    from: ArrayPosition,
    width: usize,
    height: usize,
    kind: u32,
    order: CopyOrder,
) -> CallResult {
    let kind = target_of(kind)?;
    let driver = bind()?;
    if width > to.pitch {
        return Err(INVALID_PITCH);
    }
    let to = RowSide::Linear(to, kind);
    copy(driver, to, RowSide::Array(from), width, height, order)?;
    order.finish()
}

/// Checks the kind of a copy between arrays.
fn check_between(kind: u32) -> CallResult {
    match CopyKind::parse(kind)? {
        CopyKind::DeviceToDevice | CopyKind::Default => Ok(()),
        _ => Err(INVALID_COPY_DIRECTION),
    }
}

/// `cudaMemcpy2DArrayToArray`.
pub fn copy_rows_between(
    to: ArrayPosition,
    from: ArrayPosition,
    width: usize,
    height: usize,
    kind: u32,
    order: CopyOrder,
) -> CallResult {
    check_between(kind)?;
    copy(bind()?, RowSide::Array(to), RowSide::Array(from), width, height, order)?;
    order.finish()
}

/// Returns the size of an array's row, bytes, after a check that `count` bytes from a position on are in the array.
fn row_bytes(driver: &RuntimeDriver, position: ArrayPosition, count: usize) -> CallResult<usize> {
    let description = describe(driver, position.array)?;
    let row = texel_of(&description).bytes()?.checked_mul(description.width);
    let row = row.filter(|row| position.x < *row).ok_or(INVALID_VALUE)?;
    let end = position
        .y
        .checked_mul(row)
        .and_then(|first| first.checked_add(position.x)?.checked_add(count));
    let all = row.checked_mul(description.height.max(1));
    match (end, all) {
        (Some(end), Some(all)) if end <= all => Ok(row),
        _ => Err(INVALID_VALUE),
    }
}

/// Calls `part` for the parts of consecutive bytes of an array that are boxes: the rest of a row, whole rows, and the
/// start of a row. Each has a position, an offset in the bytes, a width and a number of rows.
fn each_part(
    position: ArrayPosition,
    row: usize,
    count: usize,
    mut part: impl FnMut(ArrayPosition, usize, usize, usize) -> CallResult,
) -> CallResult {
    let (mut position, mut done) = (position, 0);
    while done < count {
        let rest = count - done;
        let (width, height) = match rest / row {
            rows if position.x == 0 && rows > 0 => (row, rows),
            _ => (rest.min(row - position.x), 1),
        };
        part(position, done, width, height)?;
        done += width * height;
        (position.x, position.y) = (0, position.y + height);
    }
    Ok(())
}

/// `cudaMemcpyToArray` and `cudaMemcpyToArrayAsync`: consecutive bytes, which can go over several rows.
pub fn copy_to(to: ArrayPosition, from: *const c_void, count: usize, kind: u32, order: CopyOrder) -> CallResult {
    let kind = source_of(kind)?;
    let driver = bind()?;
    let pitch = row_bytes(driver, to, count)?;
    each_part(to, pitch, count, |position, offset, width, height| {
        let at = from.wrapping_byte_add(offset);
        let from = RowSide::Linear(LinearRows { at, pitch }, kind);
        copy(driver, RowSide::Array(position), from, width, height, order)
    })?;
    order.finish()
}

/// `cudaMemcpyFromArray` and `cudaMemcpyFromArrayAsync`.
pub fn copy_from(to: *mut c_void, from: ArrayPosition, count: usize, kind: u32, order: CopyOrder) -> CallResult {
    let kind = target_of(kind)?;
    let driver = bind()?;
    let pitch = row_bytes(driver, from, count)?;
    each_part(from, pitch, count, |position, offset, width, height| {
        let at = to.cast_const().wrapping_byte_add(offset);
        let to = RowSide::Linear(LinearRows { at, pitch }, kind);
        copy(driver, to, RowSide::Array(position), width, height, order)
    })?;
    order.finish()
}

/// `cudaMemcpyArrayToArray`.
pub fn copy_between(to: ArrayPosition, from: ArrayPosition, count: usize, kind: u32, order: CopyOrder) -> CallResult {
    check_between(kind)?;
    let driver = bind()?;
    let (to_row, row) = (row_bytes(driver, to, count)?, row_bytes(driver, from, count)?);
    let side = |position: ArrayPosition, row: usize, done: usize| {
        let first = position.y * row + position.x + done;
        ArrayPosition {
            array: position.array,
            x: first % row,
            y: first / row,
        }
    };
    let mut done = 0;
    while done < count {
        let (target, source) = (side(to, to_row, done), side(from, row, done));
        let rest = count - done;
        let (width, height) = match rest / row {
            rows if (target.x, source.x, to_row) == (0, 0, row) && rows > 0 => (row, rows),
            _ => (rest.min(to_row - target.x).min(row - source.x), 1),
        };
        copy(
            driver,
            RowSide::Array(target),
            RowSide::Array(source),
            width,
            height,
            order,
        )?;
        done += width * height;
    }
    order.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_bytes_are_split_at_rows() {
        let mut parts = Vec::new();
        let start = ArrayPosition {
            array: std::ptr::null_mut(),
            x: 6,
            y: 1,
        };
        let split = each_part(start, 10, 29, |position, offset, width, height| {
            parts.push((position.x, position.y, offset, width, height));
            Ok(())
        });
        assert_eq!(split, Ok(()));
        assert_eq!(parts, [(6, 1, 0, 4, 1), (0, 2, 4, 10, 2), (0, 4, 24, 5, 1)]);
    }
}
