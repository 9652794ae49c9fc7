//! Interface between programs and the node: request numbers and structures of the generic DRM interface and of
//! panfrost's part, as Linux freezes them (`drm.h`, `panfrost_drm.h`; MIT).

use bytemuck::{Pod, Zeroable};

/// A decoded request number of `ioctl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The structure goes from the program to the node.
    pub copies_in: bool,
    /// The structure goes back to the program.
    pub copies_out: bool,
    /// Size of the structure in the program's version, bytes.
    pub bytes: usize,
    /// Family of requests.
    pub family: u8,
    /// Number in the family.
    pub number: u8,
}

impl Request {
    /// Decodes a request number: direction in bits 30 and 31, size in bits 16 to 29, family in bits 8 to 15.
    #[must_use]
    pub const fn new(raw: u32) -> Self {
        Self {
            copies_in: raw >> 30 & 1 != 0,
            copies_out: raw >> 31 != 0,
            bytes: (raw >> 16 & 0x3fff) as usize,
            family: (raw >> 8) as u8,
            number: raw as u8,
        }
    }
}

/// Returns the request number for a structure that is copied in both directions.
#[must_use]
pub const fn iowr<T>(family: u8, number: u8) -> u32 {
    3 << 30 | (size_of::<T>() as u32) << 16 | (family as u32) << 8 | number as u32
}

/// Returns the request number for a structure that the program passes.
#[must_use]
pub const fn iow<T>(family: u8, number: u8) -> u32 {
    1 << 30 | (size_of::<T>() as u32) << 16 | (family as u32) << 8 | number as u32
}

/// Families of requests.
pub mod family {
    /// Direct rendering.
    pub const DRM: u8 = b'd';
    /// Sync files.
    pub const SYNC_FILE: u8 = b'>';
}

/// Numbers of requests.
pub mod number {
    /// Name and version of the driver.
    pub const VERSION: u8 = 0x00;
    /// Name of the bus address.
    pub const GET_UNIQUE: u8 = 0x01;
    /// Closes a handle.
    pub const GEM_CLOSE: u8 = 0x09;
    /// Capabilities of the driver.
    pub const GET_CAP: u8 = 0x0c;
    /// Exports a buffer object as a file.
    pub const PRIME_HANDLE_TO_FD: u8 = 0x2d;
    /// Imports a file as a buffer object.
    pub const PRIME_FD_TO_HANDLE: u8 = 0x2e;
    /// Runs a chain.
    pub const SUBMIT: u8 = 0x40;
    /// Waits for a buffer object.
    pub const WAIT_BO: u8 = 0x41;
    /// Creates a buffer object.
    pub const CREATE_BO: u8 = 0x42;
    /// Offset to map a buffer object by.
    pub const MMAP_BO: u8 = 0x43;
    /// Features of the GPU.
    pub const GET_PARAM: u8 = 0x44;
    /// GPU address of a buffer object.
    pub const GET_BO_OFFSET: u8 = 0x45;
    /// Performance counters on and off.
    pub const PERFCNT_ENABLE: u8 = 0x46;
    /// Performance counters' values.
    pub const PERFCNT_DUMP: u8 = 0x47;
    /// Whether contents are still needed.
    pub const MADVISE: u8 = 0x48;
    /// Name of a buffer object (Linux 6.16 on).
    pub const SET_LABEL_BO: u8 = 0x49;
    /// Creates a sync object.
    pub const SYNCOBJ_CREATE: u8 = 0xbf;
    /// Destroys a sync object.
    pub const SYNCOBJ_DESTROY: u8 = 0xc0;
    /// Exports a sync object as a file.
    pub const SYNCOBJ_HANDLE_TO_FD: u8 = 0xc1;
    /// Imports a file as a sync object.
    pub const SYNCOBJ_FD_TO_HANDLE: u8 = 0xc2;
    /// Waits for sync objects.
    pub const SYNCOBJ_WAIT: u8 = 0xc3;
    /// Removes the fences of sync objects.
    pub const SYNCOBJ_RESET: u8 = 0xc4;
    /// Sync files: merges two.
    pub const SYNCOBJ_SIGNAL: u8 = 0xc5;
    /// Sync files: one of two.
    pub const SYNC_MERGE: u8 = 3;
    /// Sync files: queries the state.
    pub const SYNC_FILE_INFO: u8 = 4;
}

/// Capabilities that a program queries.
pub mod cap {
    /// Buffer objects as files: bit 0 for import, bit 1 for export.
    pub const PRIME: u64 = 5;
    /// Times are of the monotonic clock.
    pub const TIMESTAMP_MONOTONIC: u64 = 6;
    /// Sync objects.
    pub const SYNCOBJ: u64 = 0x13;
    /// Sync objects with numbered points.
    pub const SYNCOBJ_TIMELINE: u64 = 0x14;
}

/// Flags and limits.
pub mod flag {
    /// Buffer object: holds no shaders.
    pub const BO_NOEXEC: u32 = 1;
    /// Buffer object: gets memory on GPU access.
    pub const BO_HEAP: u32 = 2;
    /// Submit: fragment work.
    pub const FRAGMENT: u32 = 1;
    /// Advice: the contents are needed.
    pub const WILL_NEED: u32 = 0;
    /// Advice: the contents can be dropped.
    pub const DONT_NEED: u32 = 1;
    /// Sync object: signaled from the start.
    pub const CREATE_SIGNALED: u32 = 1;
    /// Wait for all of them.
    pub const WAIT_ALL: u32 = 1;
    /// Also wait until there is a fence to wait for.
    pub const WAIT_FOR_SUBMIT: u32 = 2;
    /// The file is a sync file.
    pub const SYNC_FILE: u32 = 1;
}

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty),+ $(,)? })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
            #[repr(C)]
            pub struct $name { $($(#[$field_doc])* pub $field: $kind),+ }
        )+
    };
}

structures! {
    /// Name and version of the driver.
    Version {
        /// Major number.
        major: i32,
        /// Minor number.
        minor: i32,
        /// Patch level.
        patch: i32,
        /// Padding.
        pad: u32,
        /// Size of the name's buffer, then its length.
        name_len: u64,
        /// Address for the name.
        name: u64,
        /// Size of the date's buffer, then its length.
        date_len: u64,
        /// Address for the date.
        date: u64,
        /// Size of the description's buffer, then its length.
        desc_len: u64,
        /// Address for the description.
        desc: u64,
    }
    /// Name of the bus address.
    Unique {
        /// Size of the buffer, then length.
        len: u64,
        /// Address.
        at: u64,
    }
    /// Closes a handle.
    GemClose {
        /// The handle.
        handle: u32,
        /// Padding.
        pad: u32,
    }
    /// A capability.
    GetCap {
        /// Number of the capability.
        capability: u64,
        /// Its value.
        value: u64,
    }
    /// Runs a chain.
    Submit {
        /// GPU address of its first job.
        jc: u64,
        /// Address of handles of sync objects to wait for.
        in_syncs: u64,
        /// Their number.
        in_sync_count: u32,
        /// Handle of a sync object to signal, or 0.
        out_sync: u32,
        /// Address of handles of buffer objects.
        bo_handles: u64,
        /// Their number.
        bo_handle_count: u32,
        /// Kind of work.
        requirements: u32,
    }
    /// Waits for a buffer object.
    WaitBo {
        /// Its handle.
        handle: u32,
        /// Padding.
        pad: u32,
        /// End of the wait, on the monotonic clock.
        timeout_ns: i64,
    }
    /// Creates a buffer object.
    CreateBo {
        /// Size in bytes.
        size: u32,
        /// Flags.
        flags: u32,
        /// Its handle.
        handle: u32,
        /// Zero.
        pad: u32,
        /// Its GPU address.
        offset: u64,
    }
    /// Offset to map a buffer object by.
    MmapBo {
        /// Its handle.
        handle: u32,
        /// Zero.
        flags: u32,
        /// Offset in the node.
        offset: u64,
    }
    /// A feature of the GPU.
    GetParam {
        /// Number of the parameter.
        param: u32,
        /// Zero.
        pad: u32,
        /// Its value.
        value: u64,
    }
    /// GPU address of a buffer object.
    GetBoOffset {
        /// Its handle.
        handle: u32,
        /// Zero.
        pad: u32,
        /// The address.
        offset: u64,
    }
    /// Whether contents are still needed.
    Madvise {
        /// Handle of the buffer object.
        handle: u32,
        /// The advice.
        madv: u32,
        /// Whether the contents are still there.
        retained: u32,
    }
    /// Name of a buffer object.
    SetLabelBo {
        /// Its handle.
        handle: u32,
        /// Zero.
        pad: u32,
        /// Address of the name, or 0.
        label: u64,
    }
    /// Creates or destroys a sync object.
    Syncobj {
        /// Its handle.
        handle: u32,
        /// Flags, or zero.
        flags: u32,
    }
    /// Converts a sync object to a file, or a file to a sync object.
    SyncobjFile {
        /// Its handle.
        handle: u32,
        /// Flags.
        flags: u32,
        /// The file.
        fd: i32,
        /// Zero.
        pad: u32,
    }
    /// Waits for sync objects.
    SyncobjWait {
        /// Address of handles.
        handles: u64,
        /// End of the wait, on the monotonic clock.
        timeout_ns: i64,
        /// Number of handles.
        count: u32,
        /// Flags.
        flags: u32,
        /// Index of the first signaled sync object.
        first: u32,
        /// Zero.
        pad: u32,
    }
    /// Sync objects.
    SyncobjArray {
        /// Address of handles.
        handles: u64,
        /// Their number.
        count: u32,
        /// Zero.
        pad: u32,
    }
    /// Merges two sync files.
    SyncMerge {
        /// A descriptive name.
        name: [u64; 4],
        /// The other file.
        other: i32,
        /// The new file.
        fence: i32,
        /// Zero.
        flags: u32,
        /// Zero.
        pad: u32,
    }
    /// State of a sync file.
    SyncFileInfo {
        /// A descriptive name.
        name: [u64; 4],
        /// 1: signaled.
        status: i32,
        /// Zero.
        flags: u32,
        /// Number of fences.
        fences: u32,
        /// Zero.
        pad: u32,
        /// Address for the state of each fence.
        info: u64,
    }
}

const _: () = assert!(size_of::<Version>() == 64 && size_of::<Submit>() == 40 && size_of::<CreateBo>() == 24);
const _: () = assert!(size_of::<SyncMerge>() == 48 && size_of::<SyncobjWait>() == 32 && size_of::<Madvise>() == 12);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_numbers_match_the_c_header() {
        // These values are from the C preprocessor.
        assert_eq!(iow::<Submit>(family::DRM, number::SUBMIT), 0x4028_6440);
        assert_eq!(iowr::<CreateBo>(family::DRM, number::CREATE_BO), 0xc018_6442);
        assert_eq!(iowr::<Version>(family::DRM, number::VERSION), 0xc040_6400);
        let r = Request::new(0xc018_6442);
        assert_eq!(
            (r.copies_in, r.copies_out, r.bytes, r.family, r.number),
            (true, true, 24, b'd', 0x42)
        );
    }
}
