//! Unsupported calls, whose work a recording cannot hold: they go on to the driver, and the recording notes them.

use crate::recorder::{Recorder, is_ok};
use cuda_driver::CuResult;

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

/// Location of a finding, and its reason.
pub(crate) type UnsupportedFeature = (&'static str, &'static str);

pub(crate) const TEXTURES: UnsupportedFeature = (
    "textures",
    "the program reads memory through textures, which a replay does not make: launches that use them cannot be replayed",
);
pub(crate) const SURFACES: UnsupportedFeature = (
    "surfaces",
    "the program reaches memory through surfaces, which a replay does not make: launches that use them cannot be replayed",
);
pub(crate) const ARRAYS: UnsupportedFeature = (
    "arrays",
    "the program has arrays of texels: what they hold is not in the recording, and launches that read them cannot be replayed",
);
pub(crate) const MAPPED_ELSEWHERE: UnsupportedFeature = (
    "mapped memory",
    "the program maps memory of the host or of another device at addresses that it reserves itself: what others write there is not seen, and a replay does not map it",
);
pub(crate) const REMAPPED: UnsupportedFeature = (
    "mapped memory",
    "the program maps memory in the place of other memory that is mapped in a second place: a replay maps each range once, so that it cannot follow",
);
pub(crate) const IMPORTED: UnsupportedFeature = (
    "shared memory",
    "the program reaches memory of another process, another device or another interface: what is written there by others is not seen, and its addresses may not be free for a replay",
);
pub(crate) const EXPORTED: UnsupportedFeature = (
    "shared memory",
    "the program lets other processes reach memory that it maps: what these write is not seen",
);
pub(crate) const POINTER_OF_HOST: UnsupportedFeature = (
    "memory of the host",
    "the device reaches memory of the host by other addresses than the host: what kernels read and write there is not in the recording",
);
pub(crate) const PEERS: UnsupportedFeature = (
    "another device",
    "the program copies between devices: a recording is of one, and memory of the others is not replayed",
);
pub(crate) const MEMORY_ORDERS: UnsupportedFeature = (
    "orders by memory",
    "streams of the program wait for words in memory or write them: the recording does not hold these orders",
);
pub(crate) const BATCHES: UnsupportedFeature = (
    "batches of copies",
    "the program makes copies in batches, whose content is not in the recording",
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
        r.note_not_recorded("calls", why);
    }
    result
}

/// Forwards a call to the driver and, if it succeeds, notes what the recording lacks.
pub(crate) fn forward(r: &Recorder, call: Call<'_>, (what, why): UnsupportedFeature) -> CuResult {
    let result = call();
    if is_ok(result) {
        r.note_not_recorded(what, why);
    }
    result
}
