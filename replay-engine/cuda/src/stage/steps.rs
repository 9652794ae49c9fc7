//! The steps of a stage, each one driver call: copies, fills, launches.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::{HostBytes, Stage};
use crate::script::Step;
use cuda_driver::{
    Copy2d, CuFunction, CudaError, EXTRA_BUFFER, EXTRA_END, EXTRA_SIZE, LAUNCH_CLUSTER, LAUNCH_COOPERATIVE,
    LaunchAttribute, LaunchConfig, MEMORY_DEVICE, MEMORY_HOST,
};
use std::ffi::c_void;
use trace_core::GpuVa;
use trace_core::recording::{CopyRow, FillRow, LaunchRow};

/// An empty copy descriptor, to be filled in.
const NO_COPY: Copy2d = Copy2d {
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
    width: 0,
    height: 0,
};

impl Stage<'_> {
    /// Runs a step. A recorded host wait waits here too.
    pub(crate) fn do_step(&mut self, step: &Step) -> Result<(), CudaError> {
        match step {
            Step::Input(n) => self.copy_in(*n),
            Step::Output(n) => self.copy_out(*n),
            Step::Copy(row) => self.copy(row),
            Step::Fill(row) => self.fill(row),
            Step::Launch(row, arguments) => match self.code.get(row.function) {
                Some(function) => self.launch(row, arguments, function),
                None => Err(CudaError::Missing { call: "function" }),
            },
            Step::Order(row) => self.streams.apply_order(row, true),
        }
    }

    /// Waits for a copy that the program's call waited for. It is then complete before all later steps, also in other
    /// streams.
    pub(super) fn wait(&self, step: &Step) -> Result<(), CudaError> {
        match self.script.waited_stream(step) {
            // SAFETY: a stream of this value.
            Some(stream) => unsafe { self.driver.cuStreamSynchronize(self.streams.get(stream)) },
            None => Ok(()),
        }
    }

    fn copy_in(&self, n: usize) -> Result<(), CudaError> {
        let (Some(t), Some(bytes)) = (self.script.inputs.get(n), self.inputs.get(n)) else {
            return Ok(());
        };
        let bytes = bytes.as_slice();
        let to = self.code.moved_to(GpuVa::new(t.row.to));
        let stream = self.streams.get(t.row.stream);
        if t.row.rows == 1 || t.row.to_pitch == t.row.bytes {
            // SAFETY: the source buffer has the given length; the driver checks the destination. Unpinned bytes are
            // read before the call returns. Pinned bytes live as long as the stage.
            return unsafe {
                self.driver
                    .cuMemcpyHtoDAsync_v2(to.get(), bytes.as_ptr().cast(), bytes.len(), stream)
            };
        }
        let form = Copy2d {
            source_kind: MEMORY_HOST,
            source_host: bytes.as_ptr().cast(),
            source_pitch: t.row.bytes as usize,
            to_kind: MEMORY_DEVICE,
            to_device: to.get(),
            to_pitch: t.row.to_pitch as usize,
            width: t.row.bytes as usize,
            height: t.row.rows as usize,
            ..NO_COPY
        };
        // SAFETY: as above.
        unsafe { self.driver.cuMemcpy2DAsync_v2(&raw const form, stream) }
    }

    fn copy_out(&mut self, n: usize) -> Result<(), CudaError> {
        let (Some(t), Some(slot)) = (self.script.outputs.get(n), self.outputs.get_mut(n)) else {
            return Ok(());
        };
        let (to, total): (*mut c_void, usize) = match slot {
            HostBytes::Plain(b) => (b.as_mut_ptr().cast(), b.len()),
            HostBytes::Pinned(p) => (p.at(), p.bytes().len()),
        };
        let from = self.code.moved_to(GpuVa::new(t.row.from));
        let stream = self.streams.get(t.row.stream);
        if t.row.rows == 1 || t.row.from_pitch == t.row.bytes {
            // SAFETY: the buffer has the given length and stays until the streams are synchronized: nothing resizes it.
            return unsafe { self.driver.cuMemcpyDtoHAsync_v2(to, from.get(), total, stream) };
        }
        let form = Copy2d {
            source_kind: MEMORY_DEVICE,
            source_device: from.get(),
            source_pitch: t.row.from_pitch as usize,
            to_kind: MEMORY_HOST,
            to_host: to,
            to_pitch: t.row.bytes as usize,
            width: t.row.bytes as usize,
            height: t.row.rows as usize,
            ..NO_COPY
        };
        // SAFETY: as above.
        unsafe { self.driver.cuMemcpy2DAsync_v2(&raw const form, stream) }
    }

    fn copy(&self, row: &CopyRow) -> Result<(), CudaError> {
        let (to, from) = (
            self.code.moved_to(GpuVa::new(row.to)),
            self.code.moved_to(GpuVa::new(row.from)),
        );
        let stream = self.streams.get(row.stream);
        let linear = row.rows == 1 || row.to_pitch == row.bytes && row.from_pitch == row.bytes;
        if linear {
            let total = usize::try_from(row.total().unwrap_or(0)).unwrap_or(0);
            // SAFETY: the driver checks both ranges.
            return unsafe { self.driver.cuMemcpyDtoDAsync_v2(to.get(), from.get(), total, stream) };
        }
        let form = Copy2d {
            source_kind: MEMORY_DEVICE,
            source_device: from.get(),
            source_pitch: row.from_pitch as usize,
            to_kind: MEMORY_DEVICE,
            to_device: to.get(),
            to_pitch: row.to_pitch as usize,
            width: row.bytes as usize,
            height: row.rows as usize,
            ..NO_COPY
        };
        // SAFETY: as above.
        unsafe { self.driver.cuMemcpy2DAsync_v2(&raw const form, stream) }
    }

    fn fill(&self, row: &FillRow) -> Result<(), CudaError> {
        let d = &self.driver;
        let to = self.code.moved_to(row.to);
        let stream = self.streams.get(row.stream);
        let (width, height, pitch) = (row.elements as usize, row.rows as usize, row.pitch as usize);
        // SAFETY: the driver checks the range.
        unsafe {
            match (row.element, height) {
                (1, 0 | 1) => d.cuMemsetD8Async(to.get(), row.value as u8, width, stream),
                (2, 0 | 1) => d.cuMemsetD16Async(to.get(), row.value as u16, width, stream),
                (_, 0 | 1) => d.cuMemsetD32Async(to.get(), row.value, width, stream),
                (1, _) => d.cuMemsetD2D8Async(to.get(), pitch, row.value as u8, width, height, stream),
                (2, _) => d.cuMemsetD2D16Async(to.get(), pitch, row.value as u16, width, height, stream),
                _ => d.cuMemsetD2D32Async(to.get(), pitch, row.value, width, height, stream),
            }
        }
    }

    /// Launches a function with the parameters of a row and recorded arguments. The function may differ from the row's.
    ///
    /// # Errors
    /// The error of the driver.
    pub(crate) fn launch(&self, row: &LaunchRow, recorded: &[u8], function: CuFunction) -> Result<(), CudaError> {
        let mut arguments = recorded.to_vec();
        self.code.move_arguments(&mut arguments);
        let mut size = arguments.len();
        let mut extra: [*mut c_void; 5] = [
            EXTRA_BUFFER as *mut c_void,
            arguments.as_mut_ptr().cast(),
            EXTRA_SIZE as *mut c_void,
            (&raw mut size).cast(),
            EXTRA_END as *mut c_void,
        ];
        // Arguments are passed by address if the layout is known: graph nodes accept cooperative launches in no other
        // form.
        let base = arguments.as_mut_ptr();
        let mut addresses: Vec<*mut c_void> = Vec::new();
        let function_told = self.script.metadata.functions.get(row.function as usize);
        for [offset, bytes] in function_told.map_or(&[][..], |f| &f.parameters) {
            let end = (*offset as usize).checked_add(*bytes as usize);
            if end.is_none_or(|end| end > size) {
                addresses.clear();
                break;
            }
            addresses.push(base.wrapping_add(*offset as usize).cast());
        }
        let (parameters, extra) = if arguments.is_empty() {
            (std::ptr::null_mut(), std::ptr::null_mut())
        } else if addresses.is_empty() {
            (std::ptr::null_mut(), extra.as_mut_ptr())
        } else {
            (addresses.as_mut_ptr(), std::ptr::null_mut())
        };
        let mut attributes = [LaunchAttribute {
            id: 0,
            pad: [0; 4],
            value: [0; 8],
        }; 2];
        let mut count = 0;
        let mut wanted = Vec::new();
        if row.flags & LaunchRow::COOPERATIVE != 0 {
            wanted.push((LAUNCH_COOPERATIVE, [1, 0]));
        }
        if row.cluster != [0; 3] {
            let [x, y, z] = row.cluster.map(u64::from);
            wanted.push((LAUNCH_CLUSTER, [x | y << 32, z]));
        }
        for (slot, (id, [low, high])) in attributes.iter_mut().zip(wanted) {
            slot.id = id;
            slot.value = [low, high, 0, 0, 0, 0, 0, 0];
            count += 1;
        }
        let config = LaunchConfig {
            grid: row.grid,
            block: row.block,
            shared: row.shared,
            stream: self.streams.get(row.stream),
            attributes: attributes.as_ptr(),
            attribute_count: count,
        };
        // SAFETY: the driver reads these descriptors before the call returns; the arguments have the given length.
        unsafe {
            self.driver
                .cuLaunchKernelEx(&raw const config, function, parameters, extra)
        }
    }
}
