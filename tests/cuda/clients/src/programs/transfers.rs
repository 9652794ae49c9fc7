//! Large copies of several threads at once, from and to memory that the driver does not know, and one that fails.

use crate::gpu::{ClientResult, Gpu};
use crate::program_context::ProgramContext;
use crate::result::{check, words};

/// Number of threads.
const THREADS: u32 = 4;
/// Number of copies of each thread in each direction.
const ROUNDS: u32 = 3;
/// Default number of words of a copy: a little more than some mebibytes, so that its last part is short.
const WORDS: u32 = (9 << 20) / 4 + 3;

/// Copies words to the device and back, into memory that has other values each time.
fn transfer(gpu: Gpu, thread: u32, seed: u32, count: u32) -> ClientResult<Vec<u32>> {
    gpu.enter()?;
    let at = gpu.alloc(count as usize * 4)?;
    let mut back = Vec::new();
    for round in 0..ROUNDS {
        let values = words(seed.wrapping_add(thread * ROUNDS + round), count);
        gpu.upload(at, &values)?;
        back = gpu.download::<u32>(at, values.len())?;
        check("words", &back, &values)?;
    }
    gpu.free(at)?;
    back.truncate(64);
    Ok(back)
}

/// Copies large ranges in several threads.
pub fn transfers(w: &mut ProgramContext<'_>) -> ClientResult {
    let (gpu, seed, count) = (w.gpu, w.options.seed, w.size(WORDS));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| std::thread::spawn(move || transfer(gpu, thread, seed, count)))
        .collect();
    for thread in threads {
        let values = thread.join().map_err(|_| "a thread panicked".to_owned())??;
        w.result.give(&values);
    }
    // The range goes on behind the allocation: the copy fails, and nothing of it remains on its way.
    let at = gpu.alloc(1 << 20)?;
    let beyond = gpu.download::<u32>(at, 1 << 24).err();
    w.result
        .give(beyond.unwrap_or_else(|| "no error".to_owned()).as_bytes());
    let values = words(seed, 1 << 18);
    gpu.upload(at, &values)?;
    check("words after an error", &gpu.download::<u32>(at, values.len())?, &values)
}
