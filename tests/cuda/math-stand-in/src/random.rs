//! The functions of cuRAND.

use crate::generators::{Generator, OUT_OF_RANGE, TYPE_ERROR, create, destroy, with};
use crate::numbers::Plain;
use crate::{Answer, exported, memory};
use std::ffi::c_void;

/// `CURAND_STATUS_LENGTH_NOT_MULTIPLE`.
const LENGTH_NOT_MULTIPLE: i32 = 105;
/// `CURAND_STATUS_LAUNCH_FAILURE`.
const LAUNCH_FAILURE: i32 = 201;
/// The version that this library says, in parts.
const VERSION: [i32; 3] = [10, 4, 7];

/// Fills an array with what `next` makes of a generator.
fn generate<T: Plain>(
    generator: *mut c_void,
    to: *mut T,
    count: usize,
    check: impl FnOnce(&Generator) -> Answer,
    next: impl Fn(&mut Generator) -> T,
) -> Answer {
    with(generator, |generator| {
        check(generator)?;
        if generator.is_quasi_random() && !count.is_multiple_of(generator.dimensions as usize) {
            return Err(LENGTH_NOT_MULTIPLE);
        }
        if !generator.is_host {
            memory::read::<T>(to.addr() as u64, count, generator.stream).map_err(|_| LAUNCH_FAILURE)?;
        }
        let numbers: Vec<T> = (0..count).map(|_| next(generator)).collect();
        match generator.is_host {
            true => memory::put(to, &numbers),
            false => memory::write(to.addr() as u64, &numbers).map_err(|_| LAUNCH_FAILURE)?,
        }
        Ok(())
    })
}

fn any(_: &Generator) -> Answer {
    Ok(())
}

/// Quasi-random generators of 64 bits make no numbers of 32.
fn narrow(generator: &Generator) -> Answer {
    match generator.kind {
        203 | 204 => Err(TYPE_ERROR),
        _ => Ok(()),
    }
}

fn wide(generator: &Generator) -> Answer {
    narrow(generator).map_or(Ok(()), |()| Err(TYPE_ERROR))
}

/// Normally distributed numbers of pseudo-random generators are made in pairs.
fn pairs(count: usize) -> impl FnOnce(&Generator) -> Answer {
    move |generator| match !count.is_multiple_of(2) && !generator.is_quasi_random() {
        true => Err(LENGTH_NOT_MULTIPLE),
        false => Ok(()),
    }
}

/// A number around 0: the sum of twelve uniform ones, less 6.
fn normal(generator: &mut Generator) -> f64 {
    (0..12).map(|_| generator.next_uniform()).sum::<f64>() - 6.0
}

fn pseudo_random(generator: *mut c_void, change: impl FnOnce(&mut Generator)) -> Answer {
    with(generator, |generator| match generator.is_quasi_random() {
        true => Err(TYPE_ERROR),
        false => {
            change(generator);
            Ok(())
        }
    })
}

exported! {
    curandCreateGenerator(to: *mut *mut c_void, kind: i32) => create(to, kind, false);
    curandCreateGeneratorHost(to: *mut *mut c_void, kind: i32) => create(to, kind, true);
    curandDestroyGenerator(generator: *mut c_void) => destroy(generator);
    curandGetVersion(to: *mut i32) => {
        let [major, minor, patch] = VERSION;
        memory::put(to, &[major * 1000 + minor * 100 + patch]);
        Ok(())
    };
    curandGetProperty(index: i32, to: *mut i32) => {
        let part = usize::try_from(index).ok().and_then(|index| VERSION.get(index));
        part.ok_or(OUT_OF_RANGE).map(|part| memory::put(to, &[*part]))
    };
    curandSetStream(generator: *mut c_void, stream: *mut c_void) => with(generator, |generator| {
        generator.stream = stream.expose_provenance() as u64;
        Ok(())
    });
    curandSetPseudoRandomGeneratorSeed(generator: *mut c_void, seed: u64) => pseudo_random(generator, |generator| {
        generator.seed = seed;
        generator.offset = 0;
    });
    curandSetGeneratorOffset(generator: *mut c_void, offset: u64) => with(generator, |generator| {
        generator.offset = offset;
        Ok(())
    });
    curandSetGeneratorOrdering(generator: *mut c_void, order: i32) => with(generator, |generator| {
        let orders = if generator.is_quasi_random() { 201..=201 } else { 100..=104 };
        orders.contains(&order).then_some(()).ok_or(OUT_OF_RANGE)
    });
    curandSetQuasiRandomGeneratorDimensions(generator: *mut c_void, dimensions: u32) => with(generator, |generator| {
        match (generator.is_quasi_random(), dimensions) {
            (false, _) => Err(TYPE_ERROR),
            (true, 1..=20_000) => {
                generator.dimensions = dimensions;
                Ok(())
            }
            _ => Err(OUT_OF_RANGE),
        }
    });
    curandGenerateSeeds(generator: *mut c_void) => with(generator, |_| Ok(()));
    curandGenerate(generator: *mut c_void, to: *mut u32, count: usize) =>
        generate(generator, to, count, narrow, |g| (g.next() >> 32) as u32);
    curandGenerateLongLong(generator: *mut c_void, to: *mut u64, count: usize) =>
        generate(generator, to, count, wide, Generator::next);
    curandGenerateUniform(generator: *mut c_void, to: *mut f32, count: usize) =>
        generate(generator, to, count, any, |g| g.next_uniform() as f32);
    curandGenerateUniformDouble(generator: *mut c_void, to: *mut f64, count: usize) =>
        generate(generator, to, count, any, Generator::next_uniform);
    curandGenerateNormal(generator: *mut c_void, to: *mut f32, count: usize, mean: f32, deviation: f32) =>
        generate(generator, to, count, pairs(count), |g| mean + deviation * normal(g) as f32);
    curandGenerateNormalDouble(generator: *mut c_void, to: *mut f64, count: usize, mean: f64, deviation: f64) =>
        generate(generator, to, count, pairs(count), |g| mean + deviation * normal(g));
    curandGenerateLogNormal(generator: *mut c_void, to: *mut f32, count: usize, mean: f32, deviation: f32) =>
        generate(generator, to, count, pairs(count), |g| (mean + deviation * normal(g) as f32).exp());
    curandGenerateLogNormalDouble(generator: *mut c_void, to: *mut f64, count: usize, mean: f64, deviation: f64) =>
        generate(generator, to, count, pairs(count), |g| (mean + deviation * normal(g)).exp());
    curandGeneratePoisson(generator: *mut c_void, to: *mut u32, count: usize, lambda: f64) =>
        match lambda > 0.0 {
            true => generate(generator, to, count, any, |g| (g.next_uniform() * 2.0 * lambda) as u32),
            false => Err(OUT_OF_RANGE),
        };
}
