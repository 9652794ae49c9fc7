//! Measures submissions on the channel of an NVIDIA GPU: from the doorbell to the semaphore, empty and with a launch.
//!
//! `submission_latency [CUBIN KERNEL]` prints figures. The kernel takes no parameters, or pointers and numbers, and must
//! run with parameters of zero. The example also creates and frees clients, and counts what stays behind.
#![allow(clippy::print_stdout, reason = "an example prints its figures")]

use cuda_code::cubin::Cubin;
use nvidia_channel::launch::{Delivery, LaunchRequest};
use nvidia_channel::writer::{ContextSetup, MemoryWindows};
use nvidia_channel::{Bindings, GpuVa, PushBufferWriter};
use nvidia_client::{Client, Control, DriverBranch, Engine, Memory, Place, Player};
use replay_nvidia::{DriverState, LibraryKernel, check_driver};
use std::error::Error;
use std::time::Instant;

/// Where the example's memory is.
const MEMORY: u64 = 0x20_0000_0000;
const CONTROL: u64 = 0x10_0000_0000;
/// Number of measured submissions, and of clients.
const SUBMISSIONS: usize = 5000;
const CLIENTS: usize = 200;
/// Limit of a submission, nanoseconds.
const LIMIT_NS: u64 = 2_000_000_000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn open(branch: DriverBranch) -> Result<Client<LibraryKernel>> {
    Ok(Client::open(LibraryKernel::default(), branch, 0)?)
}

/// Prints the smallest and the median time of a submission, microseconds.
fn measure(name: &str, player: &mut Player<'_, LibraryKernel>, engine: Engine, va: u64, words: u32) -> Result<()> {
    let mut times = Vec::with_capacity(SUBMISSIONS);
    for n in 0..SUBMISSIONS + 100 {
        let begin = Instant::now();
        player.submit(0, engine, va, words)?;
        if n >= 100 {
            times.push(begin.elapsed().as_nanos() as u64);
        }
    }
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(0) as f64 / 1000.0;
    println!(
        "{name}: min {:.2} us, median {:.2} us, p99 {:.2} us",
        at(0),
        at(50),
        at(99)
    );
    Ok(())
}

fn count_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn main() -> Result<()> {
    let DriverState::Supported { branch, version } = check_driver() else {
        return Err(check_driver().to_string().into());
    };
    println!("driver {version}");
    let mut rooms: Vec<Option<Memory>> = std::iter::repeat_with(|| None).take(8).collect();
    let begin = Instant::now();
    let client = open(branch)?;
    let mut player = Player::new(client, Control { va: CONTROL }, LIMIT_NS, &mut rooms)?;
    println!("client and channels: {:.1} ms", begin.elapsed().as_secs_f64() * 1000.0);
    player.map(Place::Video, MEMORY, 8 << 20)?;
    // One word that does nothing.
    player.write(MEMORY, &[0; 4])?;
    measure("empty submission", &mut player, Engine::Compute, MEMORY, 1)?;

    let mut arguments = std::env::args().skip(1);
    if let (Some(path), Some(name)) = (arguments.next(), arguments.next()) {
        let (va, words) = prepare_launch(&mut player, &std::fs::read(path)?, &name)?;
        measure(&format!("launch of {name}"), &mut player, Engine::Compute, va, words)?;
    }
    player.close()?;

    let files = count_files();
    let begin = Instant::now();
    for _ in 0..CLIENTS {
        let mut rooms: Vec<Option<Memory>> = vec![None];
        let mut player = Player::new(open(branch)?, Control { va: CONTROL }, LIMIT_NS, &mut rooms)?;
        player.map(Place::Video, MEMORY, 64 << 20)?;
        player.write(MEMORY, &[0; 4])?;
        player.submit(0, Engine::Compute, MEMORY, 1)?;
        player.close()?;
    }
    let each = begin.elapsed().as_secs_f64() * 1000.0 / CLIENTS as f64;
    println!(
        "{CLIENTS} clients one after the other: {each:.1} ms each, files {files} before, {} after",
        count_files()
    );
    Ok(())
}

/// Puts a kernel and its launch into memory, and returns the push buffer.
fn prepare_launch(player: &mut Player<'_, LibraryKernel>, bytes: &[u8], name: &str) -> Result<(u64, u32)> {
    let classes = player.client().info().classes;
    let mut next = MEMORY + (1 << 20);
    let image = Cubin::parse(bytes)?.load(&mut |request| {
        let va = next.next_multiple_of(request.alignment.max(256));
        next = va + request.bytes;
        Some(GpuVa(va))
    })?;
    for segment in &image.segments {
        player.write(segment.address.0, &segment.content)?;
    }
    let windows = MemoryWindows {
        shared: GpuVa(0x7294_0000_0000),
        local: GpuVa(0x7293_0000_0000),
    };
    let mut writer = PushBufferWriter::new(Bindings::new(classes.channel));
    writer.set_up_context(&ContextSetup {
        compute_class: classes.compute,
        copy_class: None,
        windows,
        local_memory: None,
        shader_version: None,
        descriptor_version: None,
        shader_exceptions: None,
    })?;
    let setup = writer.to_bytes();
    let _ = writer.take_words();
    player.write(MEMORY + 0x1000, &setup)?;
    player.submit(0, Engine::Compute, MEMORY + 0x1000, setup.len() as u32 / 4)?;
    let kernel = image.find_kernel(name)?;
    let parameters = vec![0; usize::try_from(kernel.description.parameter_bytes)?];
    let request = LaunchRequest {
        kernel: &kernel.description,
        grid: [4, 1, 1],
        block: [256, 1, 1],
        cluster: None,
        dynamic_shared_bytes: 0,
        parameters: &parameters,
        constant_bank_0: GpuVa(MEMORY + 0x1_0000),
        descriptor: GpuVa(MEMORY + 0x2_0000),
        windows,
        local_bytes: 0,
        sm_count: 0,
        launch_number: 0,
        release: None,
        delivery: Delivery::Memory,
    };
    let built = request.build(&writer)?;
    player.write(MEMORY + 0x1_0000, &built.constant_bank_0)?;
    player.write(MEMORY + 0x2_0000, &built.descriptor)?;
    let words: Vec<u8> = built.words.iter().flat_map(|w| w.to_le_bytes()).collect();
    player.write(MEMORY + 0x2000, &words)?;
    Ok((MEMORY + 0x2000, built.words.len() as u32))
}
