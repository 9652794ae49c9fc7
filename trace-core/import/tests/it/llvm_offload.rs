//! A target region that LLVM 16 recorded on the host. The expected memory is what its program computes.

use super::open;
use std::path::Path;
use trace_core::GpuVa;
use trace_core::finding::FindingKind;
use trace_core::recording::CallEvent;

const FOLDER: &str = "tests/kernels/llvm-16";
const NAME: &str = "__omp_offloading_fe00_990167_main_l3";
/// First argument in the description.
const MEMORY: GpuVa = GpuVa::new(139_852_007_608_336);

#[test]
fn region_without_an_address_of_its_memory_gets_it_from_its_arguments() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(FOLDER)
        .join(format!("{NAME}.json"));
    let recording = open(&path);
    let metadata = recording.api().unwrap();
    assert_eq!(metadata.window.base, MEMORY);
    assert_eq!(metadata.functions[0].name, NAME);
    let assumed = recording
        .metadata
        .findings
        .iter()
        .filter(|f| f.kind == FindingKind::Assumed);
    let assumed: Vec<&str> = assumed.map(|f| f.message.as_str()).collect();
    assert!(
        assumed.iter().any(|m| m.contains("does not give the address")),
        "{assumed:?}"
    );
    let calls = (0..recording.events.len()).filter_map(|e| recording.events.call(e));
    let content: Vec<Vec<f32>> = calls
        .filter_map(|call| match call {
            CallEvent::Copy(copy) => recording.copy_content(&copy),
            _ => None,
        })
        .map(|bytes| bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
        .collect();
    let x = || (0..64u8).map(f32::from);
    // The library maps `y` first.
    let before: Vec<f32> = std::iter::repeat_n(1.0, 64).chain(x()).collect();
    let after: Vec<f32> = x().map(|x| 1.0 + 2.0 * x).chain(x()).collect();
    assert_eq!(content, [before, after]);
}
