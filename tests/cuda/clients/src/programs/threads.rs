//! Threads that launch, each in a stream of its own, while the main thread forks.

use crate::gpu::Arg::{U32, U64};
use crate::gpu::{ClientResult, Gpu};
use crate::program_context::ProgramContext;
use crate::result::{check, words};
use cuda_driver::CuFunction;

const THREADS: u32 = 4;
const ROUNDS: u32 = 100;
const CHILDREN: u32 = 4;

/// A function handle that other threads can use.
#[derive(Clone, Copy)]
struct Function(CuFunction);

// SAFETY: the handle is the driver's, and any thread can use it.
unsafe impl Send for Function {}

impl Function {
    fn handle(self) -> CuFunction {
        self.0
    }
}

fn work(gpu: Gpu, turn: CuFunction, thread: u32, device: u64, pinned: &mut [u32], seed: u32) -> ClientResult {
    gpu.enter()?;
    let stream = gpu.stream()?;
    let n = pinned.len() as u32;
    pinned.copy_from_slice(&words(seed.wrapping_mul(4).wrapping_add(thread), n));
    gpu.upload_async(device, pinned, stream)?;
    for round in 0..ROUNDS {
        let args = [U64(device), U32(n), U32(thread), U32(round)];
        gpu.launch(turn, n.div_ceil(128), 128, stream, &args)?;
        if round % 25 == 24 {
            gpu.finish(stream)?;
        }
    }
    gpu.finish(stream)?;
    // SAFETY: the stream is this thread's.
    unsafe { gpu.d.cuStreamDestroy_v2(stream) }.map_err(|e| e.to_string())
}

/// Forks a child. The child calls the driver, which must refuse, and then executes `true` or ends.
fn child(gpu: Gpu, exec: bool) -> ClientResult {
    // SAFETY: the child makes plain system calls, and driver calls that take no locks in a child.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(std::io::Error::last_os_error().to_string());
    }
    if child == 0 {
        let mut at = 0;
        // SAFETY: the pointer is valid for the answer.
        let refused = unsafe { gpu.d.cuMemAlloc_v2(&raw mut at, 4096) }.is_err();
        if exec {
            let arguments = [c"/bin/true".as_ptr(), std::ptr::null()];
            // SAFETY: the strings end in a zero, and so does the list.
            unsafe { libc::execv(c"/bin/true".as_ptr(), arguments.as_ptr()) };
        }
        // SAFETY: the call ends the child.
        unsafe { libc::_exit(if exec { 127 } else { i32::from(!refused) }) };
    }
    let mut status = 0;
    loop {
        // SAFETY: the pointer is valid for the answer.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if ended == child {
            break;
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Err("the child process cannot be waited for".to_owned());
        }
    }
    if status == 0 {
        Ok(())
    } else {
        Err(format!("a child ended with status {status:#x}"))
    }
}

pub fn threads(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(1_000);
    let gpu = w.gpu;
    let code = gpu.load(include_str!("../../ptx/threads.ptx"))?;
    let turn = Function(gpu.function(code, "turn")?);
    let all = (THREADS * n) as usize;
    let device = gpu.alloc(all * 4)?;
    let pinned = gpu.pinned(all)?;
    let seed = w.options.seed;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (thread, part) in (0..THREADS).zip(pinned.chunks_mut(n as usize)) {
            let device = device + u64::from(thread * n) * 4;
            threads.push(scope.spawn(move || work(gpu, turn.handle(), thread, device, part, seed)));
        }
        for n in 0..CHILDREN {
            child(gpu, n % 2 == 0)?;
        }
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked".to_owned())??;
        }
        Ok::<(), String>(())
    })?;
    let got: Vec<u32> = gpu.download(device, all)?;
    for (thread, got) in (0..THREADS).zip(got.chunks(n as usize)) {
        let mut right = words(seed.wrapping_mul(4).wrapping_add(thread), n);
        for round in 0..ROUNDS {
            let more = thread.wrapping_mul(1_000_003).wrapping_add(round);
            right
                .iter_mut()
                .for_each(|v| *v = v.wrapping_mul(1_664_525).wrapping_add(more));
        }
        check(&format!("thread {thread}"), got, &right)?;
    }
    w.result.give(&got);
    Ok(())
}
