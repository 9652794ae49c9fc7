//! Copies between the host and the memories of the system calls, warp by warp: many copies in one transfer.

use crate::device::{Device, DeviceAddress, DeviceError, QueueId, Rows};
use std::ops::Range;
use std::sync::OnceLock;
use wasm_ptx::{LANES, Layout, MemoryRegion};

/// The memories of the system calls of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyMemories<'a> {
    pub queue: QueueId,
    pub layout: &'a Layout,
    pub region: &'a MemoryRegion,
    /// Address of the area of the group's first warp.
    pub areas: DeviceAddress,
}

/// A range of the memory of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyRange {
    pub copy: u32,
    pub range: Range<u32>,
}

impl CopyRange {
    fn bytes(&self) -> u32 {
        self.range.end.saturating_sub(self.range.start)
    }
}

/// Ranges next to each other: those of consecutive copies of one warp, from the same offset on.
struct Run {
    /// Positions in the list of ranges.
    positions: Range<usize>,
    /// Length of the longest range.
    width: usize,
    rows: Rows,
}

impl CopyMemories<'_> {
    /// Divides ranges, sorted by copy for each offset, into runs. Empty ranges are in no run.
    fn runs(&self, ranges: &[CopyRange]) -> Result<Vec<Run>, DeviceError> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (position, next) in ranges.iter().enumerate().filter(|(_, r)| r.bytes() > 0) {
            let joins = |last: &Range<usize>| {
                let before = last.end.checked_sub(1).and_then(|p| ranges.get(p));
                last.end == position
                    && !next.copy.is_multiple_of(LANES)
                    && before
                        .is_some_and(|b| b.copy.checked_add(1) == Some(next.copy) && b.range.start == next.range.start)
            };
            match runs.last_mut() {
                Some(last) if joins(last) => last.end = position + 1,
                _ => runs.push(position..position + 1),
            }
        }
        let run = |positions: Range<usize>| {
            let members = ranges.get(positions.clone()).unwrap_or_default();
            let first = members.first().ok_or_else(|| DeviceError::Range("no copy".into()))?;
            let width = members.iter().map(CopyRange::bytes).max().unwrap_or(0);
            let start = self.layout.memory_byte(first.copy, self.region, first.range.start);
            let rows = Rows {
                start: self.areas.offset(start.0)?,
                pitch: self.region.capacity(),
                width: width.into(),
                count: members.len() as u64,
            };
            Ok(Run {
                positions,
                width: width as usize,
                rows,
            })
        };
        runs.into_iter().map(run).collect()
    }

    /// Writes ranges of the memories of copies. `fill` writes the bytes for the range at a position of the list; several
    /// threads call it.
    ///
    /// Copies next to each other are written together: `fill` gets as many bytes as the longest range has, and the
    /// caller leaves room for them in the memory.
    ///
    /// # Errors
    /// When the device fails.
    pub fn write(
        &self,
        device: &mut dyn Device,
        ranges: &[CopyRange],
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<(), DeviceError> {
        let runs = self.runs(ranges)?;
        let parts: Vec<Rows> = runs.iter().map(|run| run.rows).collect();
        device.write_parts(self.queue, &parts, &|part, bytes| {
            let Some(run) = runs.get(part) else { return };
            for (position, row) in run.positions.clone().zip(bytes.chunks_exact_mut(run.width.max(1))) {
                fill(position, row);
            }
        })
    }

    /// Reads ranges of copies, and returns the bytes of each in their order.
    ///
    /// # Errors
    /// When the device fails.
    pub fn read(&self, device: &mut dyn Device, ranges: &[CopyRange]) -> Result<Vec<Vec<u8>>, DeviceError> {
        let runs = self.runs(ranges)?;
        let parts: Vec<Rows> = runs.iter().map(|run| run.rows).collect();
        let found: Vec<OnceLock<Vec<u8>>> = ranges.iter().map(|_| OnceLock::new()).collect();
        device.read_parts(self.queue, &parts, &|part, bytes| {
            let Some(run) = runs.get(part) else { return };
            for (position, row) in run.positions.clone().zip(bytes.chunks_exact(run.width.max(1))) {
                if let (Some(to), Some(range)) = (found.get(position), ranges.get(position)) {
                    let bytes = row.get(..range.bytes() as usize).unwrap_or(row);
                    // Each range is in one run, so that the value is set once.
                    let _ = to.set(bytes.to_vec());
                }
            }
        })?;
        Ok(found
            .into_iter()
            .map(|cell| cell.into_inner().unwrap_or_default())
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InterpreterDevice;
    use wasm_ptx::{CellSize, Placement, ProgramBuilder};

    #[test]
    fn ranges_come_back_and_runs_end_at_gaps_warps_and_offsets() {
        let mut builder = ProgramBuilder::new(wasm_ptx::Options {
            cell: CellSize::Four,
            ..wasm_ptx::Options::default()
        });
        let binary = wat::parse_str("(module (memory (export \"memory\") 1 1))").unwrap();
        let instance = builder.add_module("m", &binary, wasm_ptx::ModuleRole::User).unwrap();
        let Some(wasm_ptx::ExportedItem::Memory(memory)) = builder.export(instance, "memory") else {
            panic!("no memory");
        };
        builder
            .place_memory(memory, Placement::Contiguous, None, Some(1))
            .unwrap();
        let program = builder.translate().unwrap();
        let mut device = InterpreterDevice::new();
        let areas = device.allocate(program.layout.bytes_of_copies(96)).unwrap();
        let memories = CopyMemories {
            queue: QueueId(0),
            layout: &program.layout,
            region: program.layout.memory(memory).unwrap(),
            areas,
        };
        let range = |copy: u32, start: u32, bytes: u32| CopyRange {
            copy,
            range: start..start + bytes,
        };
        let mut ranges: Vec<CopyRange> = [0, 1, 3, 30, 31, 32, 33, 64]
            .into_iter()
            .map(|copy| range(copy, 16, copy % 5 + 1))
            .collect();
        ranges.push(range(65, 16, 0));
        ranges.push(range(66, 32, 2));
        ranges.push(range(67, 48, 2));
        let runs: Vec<Range<usize>> = memories
            .runs(&ranges)
            .unwrap()
            .into_iter()
            .map(|run| run.positions)
            .collect();
        assert_eq!(runs, [0..2, 2..3, 3..5, 5..7, 7..8, 9..10, 10..11]);
        memories
            .write(&mut device, &ranges, &|position, to| to.fill(position as u8 + 1))
            .unwrap();
        let found = memories.read(&mut device, &ranges).unwrap();
        for (position, (found, range)) in found.iter().zip(&ranges).enumerate() {
            assert_eq!(*found, vec![position as u8 + 1; range.bytes() as usize], "{range:?}");
        }
    }
}
