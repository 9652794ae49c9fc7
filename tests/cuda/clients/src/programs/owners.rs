//! One PTX text loaded several times: kernels with the same name, each with variables of its own.

use crate::gpu::Arg::{U32, U64};
use crate::gpu::ClientResult;
use crate::program_context::ProgramContext;
use crate::result::{check, words};

/// Number of loads of the text.
const TIMES: u32 = 5;

/// Launches the same kernel of each load in a graph. Each kernel uses its own variable as weights. `--module` looks up
/// functions in the libraries' modules, `--listed` in lists of functions.
pub fn owners(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(600);
    let gpu = w.gpu;
    let values = words(w.options.seed, n);
    let input = gpu.upload_new(&values)?;
    let mut all = Vec::new();
    for time in 0..TIMES {
        let mut code = gpu.load(include_str!("../../ptx/globals.ptx"))?;
        if w.options.has("--module") {
            code = gpu.module(code)?;
        }
        let weigh = if w.options.has("--listed") {
            gpu.find_listed_function(code, "weigh_globals")?
        } else {
            gpu.function(code, "weigh_globals")?
        };
        let (weights, _) = gpu.variable(code, "weights")?;
        gpu.upload(weights, &[time + 2, time + 3, time + 5, time + 7])?;
        all.push((weigh, gpu.alloc(n as usize * 4)?));
    }
    let stream = gpu.stream()?;
    let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the stream is the driver's.
    unsafe { gpu.d.cuStreamBeginCapture_v2(stream, 0) }.map_err(|e| e.to_string())?;
    for (weigh, out) in &all {
        gpu.launch(*weigh, n.div_ceil(128), 128, stream, &[U64(*out), U64(input), U32(n)])?;
    }
    // SAFETY: the pointers are valid for the answers, and the handles are the driver's.
    unsafe {
        gpu.d
            .cuStreamEndCapture(stream, &raw mut graph)
            .and_then(|()| gpu.d.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0))
            .and_then(|()| gpu.d.cuGraphLaunch(exec, stream))
    }
    .map_err(|e| e.to_string())?;
    gpu.finish(stream)?;
    for ((_, out), time) in all.iter().zip(0u32..) {
        let got: Vec<u32> = gpu.download(*out, n as usize)?;
        let weights = [time + 2, time + 3, time + 5, time + 7];
        let weighted = |(i, v): (usize, &u32)| {
            let bank = if i % 16 < 4 { 100 + i as u32 % 16 } else { 0 };
            v.wrapping_mul(weights[i % 4]).wrapping_add(7).wrapping_add(bank)
        };
        let right: Vec<u32> = values.iter().enumerate().map(weighted).collect();
        check(&format!("words of module {time}"), &got, &right)?;
        w.result.give(&got);
    }
    Ok(())
}
