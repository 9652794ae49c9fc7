//! Compares the time of a dispatch on the simulated Mali and on llvmpipe, Mesa's GLES driver for processors.
//!
//! Both run the same GLSL over the same data on the same machine in the same run. `chains/` has the output of Mesa's
//! driver for the Mali-G71 for this GLSL: job chains, descriptors and shaders. The data of the buffers comes from the
//! programs. The benchmark checks both results before it measures.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark prints its output, and an error ends it"
)]

use driver_mali::{Driver, Recorder};
use gles_programs::compare::compare;
use gles_programs::gpu::{Gpu, GpuError};
use gles_programs::measure::{Measurement, measure};
use gles_programs::programs::BENCHMARKS;
use gles_programs::session::Session;
use gles_programs::work::Work;
use serde_json::Value;
use std::path::Path;
use trace_core::GpuVa;
use trace_core::mmu::Rights;
use trace_core::recording::MmuFormat;

const SECONDS: f64 = 3.0;

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn address(v: &Value) -> GpuVa {
    let text = v.as_str().unwrap();
    GpuVa::new(u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap())
}

/// Runs a chain on the simulated Mali, checks its results and measures it.
fn software_mali(name: &str, work: &Work) -> Measurement {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("chains").join(name);
    let (spec, submit) = (json(&dir.join("spec.json")), json(&dir.join("submit000.json")));
    let mut device = device_mali::factory("mali-g71").unwrap();
    let mut driver = Driver::boot(&mut *device, Recorder::new(name)).unwrap();
    let space = driver.new_space(MmuFormat::MaliLpae).unwrap();
    for object in submit["bos"].as_array().unwrap() {
        let (va, bytes) = (address(&object["va"]), object["size"].as_u64().unwrap());
        let rights = if object["noexec"] == true {
            Rights::RW
        } else {
            Rights::RX
        };
        driver.map(space, va, bytes, rights).unwrap();
        if let Some(file) = object["file"].as_str() {
            driver
                .write(space, va, &std::fs::read(dir.join(file)).unwrap())
                .unwrap();
        }
    }
    let buffer_address = |buffer: &str| {
        let all = spec["buffers"].as_array().unwrap();
        address(&all.iter().find(|b| b["name"] == buffer).unwrap()["gpu_va"])
    };
    for b in &work.buffers {
        driver.write(space, buffer_address(b.name), &b.init).unwrap();
    }
    let head = address(&submit["jc"]);
    driver.run_chain(space, 1, head).unwrap();
    for b in &work.buffers {
        if let Some((expected, tolerance)) = &b.expected {
            let mut got = vec![0; expected.len()];
            driver.read(space, buffer_address(b.name), &mut got).unwrap();
            compare(b.element, &got, expected, *tolerance).unwrap_or_else(|e| panic!("{name} {}: {e}", b.name));
        }
    }
    measure(SECONDS, |count| {
        (0..count).try_for_each(|_| driver.run_chain(space, 1, head))
    })
    .unwrap()
}

/// Runs the GLSL on the machine's GLES driver, checks its results and measures it.
fn gles(gpu: &Gpu, work: &Work) -> Measurement {
    let session = Session::new(gpu, work).unwrap();
    session.run().unwrap();
    for r in session.results().unwrap() {
        if let Some(Err(e)) = r.verdict {
            panic!("{e}");
        }
    }
    measure(SECONDS, |count| {
        (0..count).try_for_each(|_| session.run())?;
        session.finish()
    })
    .unwrap()
}

fn main() {
    let gpu = match Gpu::open() {
        Ok(gpu) => Some(gpu),
        Err(GpuError::Library(e)) => {
            println!("no GLES to compare with: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    };
    let other = gpu.as_ref().map_or_else(|| "-".to_owned(), |g| g.names().0);
    println!(
        "{:14}{:>18}{:>18}{:>8}   ns per dispatch, the fastest of many rounds; GLES is {other}",
        "", "software Mali", "GLES", "ratio"
    );
    for e in BENCHMARKS {
        let work = (e.make)();
        let other = gpu.as_ref().map(|g| gles(g, &work));
        let ours = software_mali(e.name, &work);
        match other {
            Some(o) => println!(
                "{:14}{:18.0}{:18.0}{:8.1}   {}",
                e.name,
                ours.ns,
                o.ns,
                ours.ns / o.ns,
                e.description
            ),
            None => println!("{:14}{:18.0}{:>18}{:>8}   {}", e.name, ours.ns, "-", "-", e.description),
        }
    }
}
