//! The copy engine: copies and fills of linear memory.

use super::address_space::AddressSpace;
use super::faults::{ChannelError, ErrorCode};
use nvidia_channel::GpuVa;
use nvidia_channel::command::{Component, Copy, Remap, Surface, SurfaceLayout};

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Runs a copy.
///
/// # Errors
/// An MMU fault for memory that is not mapped; an error of the engine for physical addresses and surfaces of blocks,
/// which the model does not have.
pub fn run(space: &AddressSpace, copy: &Copy) -> Result<(), ChannelError> {
    let unsupported =
        |surface: &Surface| surface.physical || surface.layout == SurfaceLayout::BlockLinear && copy.lines > 1;
    let reads_source = copy.fill_pattern().is_none();
    if unsupported(&copy.destination) || reads_source && unsupported(&copy.source) {
        return Err(ChannelError::new(ErrorCode::CopyEngine));
    }
    for line in 0..u64::from(copy.lines) {
        let source = line_address(&copy.source, line)?;
        let destination = line_address(&copy.destination, line)?;
        match &copy.remap {
            None => copy_line(space, source, destination, u64::from(copy.line_length))?,
            Some(remap) => remap_line(space, source, destination, copy.line_length, remap)?,
        }
    }
    Ok(())
}

fn line_address(surface: &Surface, line: u64) -> Result<GpuVa, ChannelError> {
    let offset = line.checked_mul(u64::from(surface.pitch));
    let address = offset.and_then(|offset| surface.address.checked_add(offset));
    address.ok_or(ChannelError::new(ErrorCode::MmuFault))
}

fn copy_line(space: &AddressSpace, source: GpuVa, destination: GpuVa, bytes: u64) -> Result<(), ChannelError> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(CHUNK_BYTES as u64);
        let buffer = buffer.get_mut(..part as usize).unwrap_or_default();
        let overflow = ChannelError::new(ErrorCode::MmuFault);
        space.read(source.checked_add(done).ok_or(overflow)?, buffer)?;
        space.write(destination.checked_add(done).ok_or(overflow)?, buffer)?;
        done += part;
    }
    Ok(())
}

/// Copies or fills pixels one by one.
fn remap_line(
    space: &AddressSpace,
    source: GpuVa,
    destination: GpuVa,
    pixels: u32,
    remap: &Remap,
) -> Result<(), ChannelError> {
    let size = remap.component_bytes as usize;
    let source_bytes = size * remap.source_components as usize;
    let pixel_bytes = size * remap.destination_components as usize;
    let overflow = ChannelError::new(ErrorCode::MmuFault);
    let mut at = destination;
    let mut from = source;
    let pattern = remap.fill_pattern();
    for _ in 0..pixels {
        let pixel = match &pattern {
            Some(pattern) => pattern.clone(),
            None => {
                let input = space.read_vec(from, source_bytes)?;
                let mut pixel = space.read_vec(at, pixel_bytes)?;
                for (component, out) in remap.components.iter().zip(pixel.chunks_mut(size.max(1))) {
                    let value = match component {
                        Component::Source(n) => {
                            let start = usize::from(*n) * size;
                            input.get(start..start + size).unwrap_or_default().to_vec()
                        }
                        Component::ConstantA => remap.constant_a.to_le_bytes().to_vec(),
                        Component::ConstantB => remap.constant_b.to_le_bytes().to_vec(),
                        Component::Unwritten => continue,
                    };
                    for (out, value) in out.iter_mut().zip(value) {
                        *out = value;
                    }
                }
                pixel
            }
        };
        space.write(at, &pixel)?;
        at = at.checked_add(pixel_bytes as u64).ok_or(overflow)?;
        from = from.checked_add(source_bytes as u64).unwrap_or(from);
    }
    Ok(())
}
