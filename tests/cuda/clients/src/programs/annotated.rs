//! A program that annotates its work: nested ranges, a range of a second thread, names of device and host memory.

use crate::annotations::{NOT_RECORDED, annotate_without_text, begin_range, end_range, name_buffer};
use crate::gpu::Arg::U64;
use crate::gpu::{ClientResult, mark};
use crate::program_context::ProgramContext;
use crate::result::{check, words};

/// Result for an argument that is not valid.
const INVALID: i32 = -2;

fn floats(seed: u32, n: u32) -> Vec<f32> {
    words(seed, n).iter().map(|w| (w >> 8) as f32).collect()
}

/// Adds vectors twice, all in one allocation, as the allocators of frameworks do.
pub fn annotated(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1000);
    let gpu = w.gpu;
    let bytes = u64::from(n) * 4;
    let code = gpu.load(include_str!("../../ptx/vector_add.ptx"))?;
    let add = gpu.function(code, "vector_add")?;
    let base = gpu.alloc(n as usize * 12)?;
    let (a, b, c) = (base, base + bytes, base + 2 * bytes);
    let form = std::ffi::CString::new(format!("f32:2x{}", n / 2)).unwrap_or_default();
    let mut results = Vec::new();
    for round in 0..2 {
        let (x, y) = (
            floats(w.options.seed + 2 * round, n),
            floats(w.options.seed + 2 * round + 1, n),
        );
        if w.options.marks && round == 1 {
            mark(c"begin");
        }
        results.push(begin_range(c"step"));
        results.push(begin_range(c"upload"));
        // The name of host memory goes to where it is copied to.
        results.push(name_buffer(y.as_ptr() as u64, bytes, Some(c"right"), Some(c"f32")));
        gpu.upload(a, &x)?;
        gpu.upload(b, &y)?;
        // A name after the copy holds for it too.
        results.push(name_buffer(a, bytes, Some(c"left"), None));
        results.push(end_range());
        let loader = std::thread::spawn(|| (begin_range(c"loader"), end_range()));
        let loaded = loader.join().unwrap_or((INVALID, INVALID));
        results.extend([loaded.0, loaded.1]);
        gpu.launch_for_each(add, n, &[U64(c), U64(a), U64(b), U64(n.into())])?;
        results.push(name_buffer(c, bytes, Some(c"sum"), Some(&form)));
        let got: Vec<f32> = gpu.download(c, n as usize)?;
        results.push(end_range());
        if w.options.marks && round == 1 {
            mark(c"end");
        }
        let right: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
        check("sums", &bits(&got), &bits(&right))?;
        w.result.give(&got);
    }
    let [mark_without_text, range_without_name] = annotate_without_text();
    let refused = [
        mark_without_text,
        range_without_name,
        name_buffer(a, bytes, None, None),
        begin_range(c""),
        name_buffer(a, bytes, Some(c"in0"), None),
        name_buffer(a, bytes, Some(c"left"), Some(c"f32:3")),
        name_buffer(a, 0, Some(c"nothing"), None),
        name_buffer(a, bytes, Some(c"left"), Some(c"float")),
    ];
    let all = |list: &[i32], result: i32| list.iter().all(|r| *r == result);
    let is_recorded = all(&results, 0) && all(&refused, INVALID);
    let is_alone = all(&results, NOT_RECORDED) && all(&refused, NOT_RECORDED);
    // Some annotations are outside the recorded part between the marks.
    if !is_recorded && !is_alone && !w.options.marks {
        return Err(format!("annotations returned {results:?} and {refused:?}"));
    }
    gpu.free(base)?;
    gpu.synchronize()
}
