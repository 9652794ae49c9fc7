//! Code that the program links itself, and a launch with the block size that the driver recommends.

use crate::gpu::Arg::U64;
use crate::gpu::ClientResult;
use crate::program_context::{DEFAULT, ProgramContext};
use crate::result::check;
use cuda_driver::{CudaError, INPUT_PTX, JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES};
use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};

/// Size of the log of errors, bytes.
const LOG_BYTES: usize = 512;

fn text(e: CudaError) -> String {
    e.to_string()
}

/// Links a text, loads the result, and runs it; then a text with an error, whose log it prints.
pub fn assembled(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let mut log = vec![0u8; LOG_BYTES];
    let mut kinds = [JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), without_provenance_mut(LOG_BYTES)];
    for (source, is_valid) in [(include_str!("../../ptx/vector_add.ptx"), true), ("no ptx", false)] {
        let (mut state, mut image, mut bytes) = (null_mut(), null_mut(), 0);
        let mut source = source.as_bytes().to_vec();
        source.push(0);
        // SAFETY: the lists have two elements and live until the link is destroyed, as the log does. The text ends in a
        // zero, and the pointers are valid for the answers.
        let added = unsafe {
            gpu.d
                .cuLinkCreate_v2(2, kinds.as_mut_ptr(), values.as_mut_ptr(), &raw mut state)
                .map_err(text)?;
            let data = source.as_mut_ptr().cast();
            let name = c"text".as_ptr();
            gpu.d
                .cuLinkAddData_v2(state, INPUT_PTX, data, source.len(), name, 0, null_mut(), null_mut())
        };
        if is_valid {
            added.map_err(text)?;
            let (mut module, mut add) = (null_mut(), null_mut());
            // SAFETY: the link is complete, and its image lives until it is destroyed.
            unsafe {
                gpu.d
                    .cuLinkComplete(state, &raw mut image, &raw mut bytes)
                    .map_err(text)?;
                gpu.d.cuModuleLoadData(&raw mut module, image).map_err(text)?;
                gpu.d
                    .cuModuleGetFunction(&raw mut add, module, c"vector_add".as_ptr())
                    .map_err(text)?;
            }
            let (mut grid, mut block) = (0, 0);
            // SAFETY: the function is loaded, and the pointers are valid for the answers.
            unsafe {
                gpu.d
                    .cuOccupancyMaxPotentialBlockSize(&raw mut grid, &raw mut block, add, null_mut(), 0, 0)
                    .map_err(text)?;
            }
            let ones = gpu.upload_new(&vec![1f32; 5000])?;
            let sums = gpu.alloc(5000 * 4)?;
            let blocks = 5000u32.div_ceil(block.unsigned_abs().max(1));
            let args = [U64(sums), U64(ones), U64(ones), U64(5000)];
            gpu.launch(add, blocks, block.unsigned_abs(), DEFAULT, &args)?;
            let got: Vec<f32> = gpu.download(sums, 5000)?;
            check("sums", &got, &vec![2f32; 5000])?;
            w.result.give(&got);
            w.result.give(&[grid, block]);
        } else {
            let Err(e) = added else {
                return Err("a text that is no code was added to a link".to_owned());
            };
            let message = log.split(|byte| *byte == 0).next().unwrap_or_default();
            println!("{e}: {}", String::from_utf8_lossy(message));
        }
        // SAFETY: the link is this program's, and its image is not used any more.
        unsafe { gpu.d.cuLinkDestroy(state) }.map_err(text)?;
    }
    Ok(())
}
