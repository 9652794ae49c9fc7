//! Copies between host and device, through the staging memory.

use super::CudaDevice;
use super::rows::{Batch, batches, for_each_part, is_one_call, parts};
use super::staging::CAPACITY;
use crate::device::{DeviceError, QueueId, Rows};
use cuda_driver::{Copy2d, MEMORY_DEVICE, MEMORY_HOST};

impl CudaDevice {
    /// Copies packed rows to the device, and waits for the end.
    pub(super) fn send_rows(&mut self, queue: QueueId, rows: Rows, from: &[u8]) -> Result<(), DeviceError> {
        if rows.bytes()? != from.len() {
            return Err(DeviceError::Range(format!("{} bytes for {rows:?}", from.len())));
        }
        for part in parts(rows, CAPACITY) {
            let (rows, range) = part?;
            let half = self.staging.next()?;
            if let (Some(to), Some(from)) = (self.staging.bytes(half).get_mut(..range.len()), from.get(range)) {
                to.copy_from_slice(from);
            }
            self.copy_to_device(queue, half, 0, rows)?;
            self.end_copies(queue, half)?;
            self.staging.wait(half)?;
        }
        Ok(())
    }

    /// Copies rows of the device to packed rows.
    pub(super) fn fetch_rows(&mut self, queue: QueueId, rows: Rows, to: &mut [u8]) -> Result<(), DeviceError> {
        if rows.bytes()? != to.len() {
            return Err(DeviceError::Range(format!("{} bytes for {rows:?}", to.len())));
        }
        for part in parts(rows, CAPACITY) {
            let (rows, range) = part?;
            let half = self.staging.next()?;
            self.copy_from_device(queue, half, 0, rows)?;
            self.end_copies(queue, half)?;
            self.staging.wait(half)?;
            if let (Some(from), Some(to)) = (self.staging.bytes(half).get(..range.len()), to.get_mut(range)) {
                to.copy_from_slice(from);
            }
        }
        Ok(())
    }

    /// Copies parts to the device in batches: one is filled while the one before it is copied.
    pub(super) fn send_parts(
        &mut self,
        queue: QueueId,
        all: &[Rows],
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<(), DeviceError> {
        for batch in batches(all, CAPACITY)? {
            let rows = all.get(batch.parts.clone()).unwrap_or_default();
            let bytes: usize = batch.sizes.iter().sum();
            if let [rows] = rows
                && (bytes > CAPACITY || !is_one_call(*rows))
            {
                let mut packed = vec![0; bytes];
                fill(batch.parts.start, &mut packed);
                self.send_rows(queue, *rows, &packed)?;
                continue;
            }
            let half = self.staging.next()?;
            let mut rest = self.staging.bytes(half);
            let mut items = Vec::with_capacity(batch.sizes.len());
            for (number, size) in batch.parts.clone().zip(&batch.sizes) {
                let (first, later) = std::mem::take(&mut rest).split_at_mut(*size);
                rest = later;
                items.push((number, first));
            }
            for_each_part(items, bytes, &|number, to: &mut [u8]| fill(number, to));
            let mut offset = 0;
            for (rows, size) in rows.iter().zip(&batch.sizes) {
                self.copy_to_device(queue, half, offset, *rows)?;
                offset += size;
            }
            self.end_copies(queue, half)?;
        }
        Ok(())
    }

    /// Copies parts of the device in batches: one is taken while the next one is copied.
    pub(super) fn fetch_parts(
        &mut self,
        queue: QueueId,
        all: &[Rows],
        take: &(dyn Fn(usize, &[u8]) + Sync),
    ) -> Result<(), DeviceError> {
        // The copies of a batch run while the batch before it is taken.
        let mut before: Option<(usize, Batch)> = None;
        for batch in batches(all, CAPACITY)? {
            let rows = all.get(batch.parts.clone()).unwrap_or_default();
            let bytes: usize = batch.sizes.iter().sum();
            if let [rows] = rows
                && (bytes > CAPACITY || !is_one_call(*rows))
            {
                self.take_batch(before.take(), take)?;
                let mut packed = vec![0; bytes];
                self.fetch_rows(queue, *rows, &mut packed)?;
                take(batch.parts.start, &packed);
                continue;
            }
            let half = self.staging.next()?;
            let mut offset = 0;
            for (rows, size) in rows.iter().zip(&batch.sizes) {
                self.copy_from_device(queue, half, offset, *rows)?;
                offset += size;
            }
            self.end_copies(queue, half)?;
            self.take_batch(before.replace((half, batch)), take)?;
        }
        self.take_batch(before, take)
    }

    /// Starts a copy of rows from a half of the staging memory, which holds them from `offset` on.
    fn copy_to_device(&mut self, queue: QueueId, half: usize, offset: usize, rows: Rows) -> Result<(), DeviceError> {
        let copy = Copy2d {
            source_kind: MEMORY_HOST,
            source_host: self.staging.address(half, offset).cast_const(),
            source_pitch: rows.width as usize,
            to_kind: MEMORY_DEVICE,
            to_device: rows.start.0,
            to_pitch: rows.pitch as usize,
            ..empty_copy(rows)
        };
        self.start_copy(queue, offset, rows, &copy)
    }

    /// Starts a copy of rows to a half of the staging memory, from `offset` on.
    fn copy_from_device(&mut self, queue: QueueId, half: usize, offset: usize, rows: Rows) -> Result<(), DeviceError> {
        let copy = Copy2d {
            source_kind: MEMORY_DEVICE,
            source_device: rows.start.0,
            source_pitch: rows.pitch as usize,
            to_kind: MEMORY_HOST,
            to_host: self.staging.address(half, offset),
            to_pitch: rows.width as usize,
            ..empty_copy(rows)
        };
        self.start_copy(queue, offset, rows, &copy)
    }

    fn start_copy(&mut self, queue: QueueId, offset: usize, rows: Rows, copy: &Copy2d) -> Result<(), DeviceError> {
        let end = rows.bytes()?.checked_add(offset);
        if end.is_none_or(|end| end > CAPACITY) {
            return Err(DeviceError::Range(format!(
                "{rows:?} from byte {offset} of the staging memory on"
            )));
        }
        if rows.width == 0 || rows.count == 0 {
            return Ok(());
        }
        let stream = self.queue(queue)?.stream;
        // SAFETY: the half holds all rows, as just checked, and is not reused before the event of `end_copies`. The
        // driver checks the device's addresses.
        unsafe { self.driver.cuMemcpy2DAsync_v2(copy, stream)? };
        Ok(())
    }

    /// Marks the end of the copies of a queue that use a half.
    fn end_copies(&mut self, queue: QueueId, half: usize) -> Result<(), DeviceError> {
        let stream = self.queue(queue)?.stream;
        self.staging.record(half, queue.0, stream)
    }

    /// Waits for the copies of a batch, and passes its parts on.
    fn take_batch(
        &mut self,
        batch: Option<(usize, Batch)>,
        take: &(dyn Fn(usize, &[u8]) + Sync),
    ) -> Result<(), DeviceError> {
        let Some((half, batch)) = batch else { return Ok(()) };
        self.staging.wait(half)?;
        let bytes: &[u8] = self.staging.bytes(half);
        let mut items = Vec::with_capacity(batch.sizes.len());
        let mut offset = 0;
        for (number, size) in batch.parts.clone().zip(&batch.sizes) {
            items.push((number, bytes.get(offset..offset + size).unwrap_or_default()));
            offset += size;
        }
        for_each_part(items, offset, &|number, from: &[u8]| take(number, from));
        Ok(())
    }
}

/// Returns a copy of rows without its two ends.
fn empty_copy(rows: Rows) -> Copy2d {
    Copy2d {
        source_x: 0,
        source_y: 0,
        source_kind: 0,
        source_host: std::ptr::null(),
        source_device: 0,
        source_array: std::ptr::null_mut(),
        source_pitch: 0,
        to_x: 0,
        to_y: 0,
        to_kind: 0,
        to_host: std::ptr::null_mut(),
        to_device: 0,
        to_array: std::ptr::null_mut(),
        to_pitch: 0,
        width: rows.width as usize,
        height: rows.count as usize,
    }
}
