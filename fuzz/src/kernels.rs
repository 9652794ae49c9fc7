//! Fuzz targets for databases of tools that record single kernels: each file of a database, with the others sound.

use crate::calls;
use crate::folder::in_folder;
use crate::recordings::{check_storable, read_all};
use std::path::Path;
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_import::{ImportError, kernels};

/// Files of a sound database, with the database file first.
pub type Files = [(&'static str, &'static [u8])];

/// Files of RecordReplay: the memory before and after a launch.
pub const RECORD_REPLAY: &Files = &[
    (
        "record_replay.json",
        include_bytes!("../../trace-core/import/tests/kernels/record-replay/record_replay.json"),
    ),
    (
        "Before1234.bin",
        include_bytes!("../../trace-core/import/tests/kernels/record-replay/Before1234.bin"),
    ),
    (
        "After1234.bin",
        include_bytes!("../../trace-core/import/tests/kernels/record-replay/After1234.bin"),
    ),
];

/// Files of Mneme: the first launch has the whole memory after it, the second has only what changed.
pub const MNEME: &Files = &[
    (
        "17293822569102704642.json",
        include_bytes!("../../trace-core/import/tests/kernels/mneme/17293822569102704642.json"),
    ),
    (
        "DeviceState.prologue.17293822569102704642.9001.mneme",
        include_bytes!(
            "../../trace-core/import/tests/kernels/mneme/DeviceState.prologue.17293822569102704642.9001.mneme"
        ),
    ),
    (
        "DeviceState.epilogue.17293822569102704642.9001.mneme",
        include_bytes!(
            "../../trace-core/import/tests/kernels/mneme/DeviceState.epilogue.17293822569102704642.9001.mneme"
        ),
    ),
    (
        "DeviceState.prologue.17293822569102704642.77.mneme",
        include_bytes!(
            "../../trace-core/import/tests/kernels/mneme/DeviceState.prologue.17293822569102704642.77.mneme"
        ),
    ),
    (
        "DeviceState.epilogue.17293822569102704642.77.mneme",
        include_bytes!(
            "../../trace-core/import/tests/kernels/mneme/DeviceState.epilogue.17293822569102704642.77.mneme"
        ),
    ),
];

/// Files of a kernel that LLVM's offload library recorded, in the current form: a copy of four words, and two globals.
pub const LLVM_OFFLOAD: &Files = &[
    (
        "11_22.json",
        br#"{"Name":"__omp_offloading_1_2_f_l3","NumArgs":3,"NumTeams":2,"NumThreads":32,"SharedMemorySize":16,
"LoopTripCount":4,"DeviceId":0,"VAllocAddr":139637976727552,"VAllocSize":1048576,"TeamsLimits":[0,0],
"ThreadsLimits":[1,1024],"ArgPtrs":[0,139637976727552,-1],"ArgOffsets":[0,0,0]}"#,
    ),
    ("11_22.record_input", b"\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0"),
    ("11_22.record_output", b"\x01\0\0\0\x02\0\0\0\x01\0\0\0\x02\0\0\0"),
    (
        "11_22.globals",
        b"\x02\0\0\0\x02\0\0\0\x04\0\0\0\0\0\0\0a\0\x07\0\0\0\x03\0\0\0\x01\0\0\0\0\0\0\0bc\0\x09",
    ),
    ("11_22.image", b"\x7fELF"),
];

/// Fuzzes one file of a database; the first byte selects the file.
fn database(files: &Files, data: &[u8], import: fn(&Path, &Progress) -> Result<Recording, ImportError>) -> bool {
    let Some((selected, fuzzed)) = data.split_first() else {
        return false;
    };
    let selected = usize::from(*selected) % files.len();
    let mut accepted = false;
    in_folder(|folder| {
        for (n, (name, sound)) in files.iter().enumerate() {
            let path = folder.join(name);
            let bytes = if n == selected { fuzzed } else { sound };
            std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
        let Some((first, _)) = files.first() else { return };
        let path = folder.join(first);
        let _ = trace_import::parts(&path);
        if let Ok(recording) = import(&path, &Progress::new()) {
            read_all(&recording);
            check_storable(&recording);
            assert!(calls::query_all(&recording), "an imported recording cannot be replayed");
            accepted = true;
        }
        // Other targets of this thread use the folder as well.
        for (name, _) in files {
            let _ = std::fs::remove_file(folder.join(name));
        }
    });
    accepted
}

/// Fuzzes a file of a RecordReplay database. The first byte selects it: 0 the database, 1 the memory before a launch, 2
/// the memory after it.
pub fn record_replay(data: &[u8]) -> bool {
    database(RECORD_REPLAY, data, kernels::record_replay::import)
}

/// Fuzzes a file of a Mneme database. The first byte selects it: 0 the database, 1 the memory before a launch, 2 what
/// changed. A 3 selects the memory before another launch, and a 4 the whole memory after it.
pub fn mneme(data: &[u8]) -> bool {
    database(MNEME, data, kernels::mneme::import)
}

/// Fuzzes a file of a kernel of LLVM's offload library. The first byte selects it: 0 the description, 1 the memory before
/// the kernel, 2 that after it, 3 the globals, 4 the code.
pub fn llvm_offload(data: &[u8]) -> bool {
    database(LLVM_OFFLOAD, data, kernels::llvm_offload::import)
}
