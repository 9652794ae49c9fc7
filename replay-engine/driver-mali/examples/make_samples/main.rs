//! Makes the files of `sample-traces` again: `make_samples OUT-FOLDER RECORDINGS-FOLDER`.

#[allow(dead_code, reason = "the tests of the samples use the rest")]
mod samples;

use samples::SAMPLES;
use std::path::PathBuf;
use trace_core::container;
use trace_core::progress::Progress;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(out), Some(recordings)) = (args.next(), args.next()) else {
        return Err("usage: make_samples OUT-FOLDER RECORDINGS-FOLDER".into());
    };
    for sample in SAMPLES {
        let mut device = device_mali::factory(sample.device).ok_or("no such device")?;
        let recording = sample.make(&recordings, &mut *device)?;
        container::write(&recording, &out.join(sample.file), &Progress::new())?;
        eprintln!("{}: {} events", sample.file, recording.events.len());
    }
    Ok(())
}
