//! A loop like that of a training: each step has launches, events and a fill, and only its end has a copy back.

use crate::gpu::Arg::U64;
use crate::gpu::ClientResult;
use crate::program_context::ProgramContext;
use crate::result::check;

/// Number of elements.
const ELEMENTS: u32 = 256;

/// Adds a one to each element in every step, in two streams by turns.
pub fn steps(w: &mut ProgramContext<'_>) -> ClientResult {
    let (gpu, steps) = (w.gpu, w.size(100));
    let code = gpu.load(include_str!("../../ptx/vector_add.ptx"))?;
    let add = gpu.function(code, "vector_add")?;
    let sum = gpu.upload_new(&vec![0f32; ELEMENTS as usize])?;
    let ones = gpu.upload_new(&vec![1f32; ELEMENTS as usize])?;
    let scratch = gpu.upload_new(&vec![0f32; ELEMENTS as usize])?;
    let streams = [gpu.stream()?, gpu.stream()?];
    gpu.synchronize()?;
    let args = [U64(sum), U64(sum), U64(ones), U64(ELEMENTS.into())];
    for step in 0..steps {
        let [here, next] = match step % 2 {
            0 => streams,
            _ => [streams[1], streams[0]],
        };
        gpu.fill(scratch, step, ELEMENTS as usize, here)?;
        gpu.launch(add, ELEMENTS.div_ceil(128), 128, here, &args)?;
        let event = gpu.event()?;
        gpu.record(event, here)?;
        gpu.wait(next, event)?;
        // SAFETY: the event is this program's, and is not used any more.
        unsafe { gpu.d.cuEventDestroy_v2(event) }.map_err(|e| e.to_string())?;
    }
    gpu.synchronize()?;
    let got: Vec<f32> = gpu.download(sum, ELEMENTS as usize)?;
    check("sums", &got, &vec![steps as f32; ELEMENTS as usize])?;
    w.result.give(&got);
    Ok(())
}
