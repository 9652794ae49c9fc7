//! Unsupported calls, whose work a recording cannot hold: they go on to the driver, and the recording notes them.

use super::Call;
use crate::driver::is_ok;
use crate::recorder::Recorder;
use cuda_driver::CuResult;

/// Location of a finding, and its reason.
pub(crate) type UnsupportedFeature = (&'static str, &'static str);

pub(crate) const TEXTURES: UnsupportedFeature = (
    "textures",
    "the program reads memory through textures, which a replay does not create: launches that use them cannot be \
     replayed",
);
pub(crate) const SURFACES: UnsupportedFeature = (
    "surfaces",
    "the program accesses memory through surfaces, which a replay does not create: launches that use them cannot be \
     replayed",
);
pub(crate) const ARRAYS: UnsupportedFeature = (
    "arrays",
    "the program has arrays of texels: their content is not in the recording, and launches that read them cannot be \
     replayed",
);
pub(crate) const MAPPED_ELSEWHERE: UnsupportedFeature = (
    "mapped memory",
    "the program maps memory of the host or of another device at addresses that it reserves itself: the recorder \
     does not see what others write there, and a replay does not map it",
);
pub(crate) const REMAPPED: UnsupportedFeature = (
    "mapped memory",
    "the program replaces a mapping of memory that is also mapped elsewhere: a replay maps each range only once and \
     cannot do the same",
);
pub(crate) const IMPORTED: UnsupportedFeature = (
    "shared memory",
    "the program accesses memory of another process, device or interface: the recorder does not see what others \
     write there, and a replay may not find its addresses free",
);
pub(crate) const EXPORTED: UnsupportedFeature = (
    "shared memory",
    "the program lets other processes access memory that it maps: the recorder does not see what these write",
);
pub(crate) const POINTER_OF_HOST: UnsupportedFeature = (
    "host memory",
    "the device uses other addresses for host memory than the host: what kernels read and write there is not in the \
     recording",
);
pub(crate) const PEERS: UnsupportedFeature = (
    "another device",
    "the program copies between devices: a recording covers one device, and the memory of the others is not replayed",
);
pub(crate) const MEMORY_ORDERS: UnsupportedFeature = (
    "waits on memory",
    "streams of the program wait for words in memory or write them: the recording does not contain this \
     synchronization",
);
pub(crate) const BATCHES: UnsupportedFeature = (
    "batches of copies",
    "the program copies in batches, whose content is not in the recording",
);
pub(crate) const MANY_DEVICES: UnsupportedFeature = (
    "another device",
    "the program launches a function on several devices at once, which is not in the recording",
);

/// Does the same as [`forward`] for a call with the given name.
pub(crate) fn forward_named(r: &Recorder, call: Call<'_>, name: &str) -> CuResult {
    let result = call();
    if is_ok(result) {
        let why = format!("the program calls {name}, which is not recorded: a replay leaves it out");
        r.trace.note_not_recorded("calls", why);
    }
    result
}

/// Forwards a call to the driver and, if it succeeds, notes what the recording lacks.
pub(crate) fn forward(r: &Recorder, call: Call<'_>, (what, why): UnsupportedFeature) -> CuResult {
    let result = call();
    if is_ok(result) {
        r.trace.note_not_recorded(what, why);
    }
    result
}
