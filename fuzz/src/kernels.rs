//! Databases of tools that record single kernels: each file of one beside sound other ones.

use crate::recordings::{check_storable, read_all};
use crate::{calls, in_folder};
use std::path::Path;
use trace_core::Recording;
use trace_core::import::{ImportError, kernels};
use trace_core::progress::Progress;

/// Files of a sound database, the database first.
pub type Files = [(&'static str, &'static [u8])];

/// Those of RecordReplay: the memory before a launch and behind it.
pub const RECORD_REPLAY: &Files = &[
    (
        "record_replay.json",
        include_bytes!("../../trace-core/tests/kernels/record-replay/record_replay.json"),
    ),
    (
        "Before1234.bin",
        include_bytes!("../../trace-core/tests/kernels/record-replay/Before1234.bin"),
    ),
    (
        "After1234.bin",
        include_bytes!("../../trace-core/tests/kernels/record-replay/After1234.bin"),
    ),
];

/// Those of Mneme: of its launches the first has the memory behind it whole, the second what changed.
pub const MNEME: &Files = &[
    (
        "17293822569102704642.json",
        include_bytes!("../../trace-core/tests/kernels/mneme/17293822569102704642.json"),
    ),
    (
        "DeviceState.prologue.17293822569102704642.9001.mneme",
        include_bytes!("../../trace-core/tests/kernels/mneme/DeviceState.prologue.17293822569102704642.9001.mneme"),
    ),
    (
        "DeviceState.epilogue.17293822569102704642.9001.mneme",
        include_bytes!("../../trace-core/tests/kernels/mneme/DeviceState.epilogue.17293822569102704642.9001.mneme"),
    ),
    (
        "DeviceState.prologue.17293822569102704642.77.mneme",
        include_bytes!("../../trace-core/tests/kernels/mneme/DeviceState.prologue.17293822569102704642.77.mneme"),
    ),
    (
        "DeviceState.epilogue.17293822569102704642.77.mneme",
        include_bytes!("../../trace-core/tests/kernels/mneme/DeviceState.epilogue.17293822569102704642.77.mneme"),
    ),
];

/// A database of which one file is tried: the first byte tells which.
fn database(files: &Files, data: &[u8], import: fn(&Path, &Progress) -> Result<Recording, ImportError>) -> bool {
    let Some((which, tried)) = data.split_first() else {
        return false;
    };
    let which = usize::from(*which) % files.len();
    let mut taken = false;
    in_folder(|folder| {
        for (n, (name, sound)) in files.iter().enumerate() {
            let path = folder.join(name);
            let bytes = if n == which { tried } else { sound };
            std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
        let Some((first, _)) = files.first() else { return };
        let path = folder.join(first);
        let _ = trace_core::import::parts(&path);
        if let Ok(recording) = import(&path, &Progress::new()) {
            read_all(&recording);
            check_storable(&recording);
            assert!(calls::query_all(&recording), "an imported recording cannot be played");
            taken = true;
        }
        // Other targets of this thread use the folder too.
        for (name, _) in files {
            let _ = std::fs::remove_file(folder.join(name));
        }
    });
    taken
}

/// A file of a database of RecordReplay; the first byte tells which: 0 the database, 1 the memory before, 2 behind.
pub fn record_replay(data: &[u8]) -> bool {
    database(RECORD_REPLAY, data, kernels::record_replay::import)
}

/// A file of a database of Mneme; the first byte tells which: 0 the database, 1 the memory before a launch, 2 what
/// changed, 3 the memory before another, 4 the whole memory behind it.
pub fn mneme(data: &[u8]) -> bool {
    database(MNEME, data, kernels::mneme::import)
}
