//! Random numbers with cuRAND: in device memory and in host memory, with mistakes.

use super::blas::succeed;
use crate::gpu::ClientResult;
use crate::math_libraries::{Curand, Handle};
use crate::program_context::ProgramContext;
use crate::result::check;

/// Generates numbers of all kinds on the device and on the host: both generators of a seed make the same.
pub fn random(w: &mut ProgramContext<'_>) -> ClientResult {
    let n = w.size(50_000) as usize & !1;
    let random = Curand::load("libcurand.so.10")?;
    let (mut version, mut parts) = (0, [0; 3]);
    succeed("version", random.curandGetVersion(&raw mut version))?;
    for (property, part) in (0..).zip(&mut parts) {
        succeed("property", random.curandGetProperty(property, part))?;
    }
    check("version", &[version], &[parts[0] * 1000 + parts[1] * 100 + parts[2]])?;
    let (mut device, mut host) = (std::ptr::null_mut(), std::ptr::null_mut());
    succeed("device", random.curandCreateGenerator(&raw mut device, 161))?;
    succeed("host", random.curandCreateGeneratorHost(&raw mut host, 161))?;
    let stream = w.gpu.stream()?;
    succeed("stream", random.curandSetStream(device, stream))?;
    for generator in [device, host] {
        succeed("seed", random.curandSetPseudoRandomGeneratorSeed(generator, 42))?;
        succeed("offset", random.curandSetGeneratorOffset(generator, 17))?;
        succeed("order", random.curandSetGeneratorOrdering(generator, 100))?;
        succeed("seeds", random.curandGenerateSeeds(generator))?;
    }
    let memory = w.gpu.alloc(n * 8)?;
    let target = Target { memory, n, stream };
    let generators = [device, host];
    both::<u32>(w, &target, generators, |g, to| random.curandGenerate(g, to, n))?;
    both::<f32>(w, &target, generators, |g, to| random.curandGenerateUniform(g, to, n))?;
    both::<f64>(w, &target, generators, |g, to| {
        random.curandGenerateUniformDouble(g, to, n)
    })?;
    both::<f32>(w, &target, generators, |g, to| {
        random.curandGenerateNormal(g, to, n, 2.0, 3.0)
    })?;
    both::<f64>(w, &target, generators, |g, to| {
        random.curandGenerateNormalDouble(g, to, n, 2.0, 3.0)
    })?;
    both::<f32>(w, &target, generators, |g, to| {
        random.curandGenerateLogNormal(g, to, n, 0.0, 0.5)
    })?;
    both::<f64>(w, &target, generators, |g, to| {
        random.curandGenerateLogNormalDouble(g, to, n, 0.0, 0.5)
    })?;
    both::<u32>(w, &target, generators, |g, to| {
        random.curandGeneratePoisson(g, to, n, 4.0)
    })?;
    let mut quasi = std::ptr::null_mut();
    succeed("quasi", random.curandCreateGenerator(&raw mut quasi, 203))?;
    succeed("dimensions", random.curandSetQuasiRandomGeneratorDimensions(quasi, 2))?;
    let to = std::ptr::without_provenance_mut::<u64>(memory as usize);
    succeed("long long", random.curandGenerateLongLong(quasi, to, n))?;
    let numbers: Vec<u64> = w.gpu.download(memory, n)?;
    w.result.give(&numbers);
    mistakes(&random, device, host, quasi, memory);
    for generator in [device, host, quasi] {
        succeed("destroy", random.curandDestroyGenerator(generator))?;
    }
    // NVIDIA's library itself ends the program for them.
    if w.options.has("--wrong-pointers") {
        println!(
            "destroyed {:?}",
            [
                random.curandDestroyGenerator(device),
                random.curandGenerate(host, std::ptr::null_mut(), 4),
                random.curandSetGeneratorOffset(std::ptr::null_mut(), 4),
            ]
        );
    }
    Ok(())
}

/// Where numbers of the device go.
struct Target {
    memory: u64,
    n: usize,
    stream: *mut std::ffi::c_void,
}

/// Generates on the device and on the host, and compares: processor and device round functions such as logarithms
/// differently.
fn both<T: bytemuck::AnyBitPattern + bytemuck::NoUninit + Into<f64> + std::fmt::Debug>(
    w: &mut ProgramContext<'_>,
    target: &Target,
    [device, host]: [Handle; 2],
    generate: impl Fn(Handle, *mut T) -> i32,
) -> ClientResult {
    let to = std::ptr::without_provenance_mut::<T>(target.memory as usize);
    succeed("on the device", generate(device, to))?;
    w.gpu.finish(target.stream)?;
    let on_device: Vec<T> = w.gpu.download(target.memory, target.n)?;
    let mut on_host = vec![T::zeroed(); target.n];
    succeed("on the host", generate(host, on_host.as_mut_ptr()))?;
    for (index, (host, device)) in on_host.iter().zip(&on_device).enumerate() {
        let (host, device): (f64, f64) = ((*host).into(), (*device).into());
        if (host - device).abs() > 1e-4 * (1.0 + device.abs()) {
            return Err(format!(
                "number {index} is {host} on the host and {device} on the device"
            ));
        }
    }
    w.result.give(&on_host);
    w.result.give(&on_device);
    Ok(())
}

fn mistakes(random: &Curand, device: Handle, host: Handle, quasi: Handle, memory: u64) {
    let to = std::ptr::without_provenance_mut::<f32>(memory as usize);
    let (mut few, mut generator) = ([0f32; 3], std::ptr::null_mut());
    println!(
        "mistakes {:?}",
        [
            random.curandCreateGenerator(&raw mut generator, 7),
            random.curandGenerateNormal(device, to, 3, 0.0, 1.0),
            random.curandGenerateNormal(host, few.as_mut_ptr(), 3, 0.0, 1.0),
            random.curandGenerateUniform(host, few.as_mut_ptr(), 0),
            random.curandGenerateUniform(host, few.as_mut_ptr(), 3),
            random.curandGeneratePoisson(device, to.cast(), 4, -1.0),
            random.curandGenerate(quasi, to.cast(), 4),
            random.curandGenerateLongLong(device, to.cast(), 4),
            random.curandGenerateLongLong(quasi, to.cast(), 3),
            random.curandSetPseudoRandomGeneratorSeed(quasi, 1),
            random.curandSetQuasiRandomGeneratorDimensions(device, 2),
            random.curandSetQuasiRandomGeneratorDimensions(quasi, 0),
            random.curandSetGeneratorOrdering(device, 201),
        ]
    );
    println!("few {few:?}");
}
