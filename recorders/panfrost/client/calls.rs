//! Access to the node like a driver: open, query, map.

use driver_mali::{ChainBuilder, JobSpec};
use panfrost_node::uapi::{self, family::DRM, flag, iow, iowr, number};
use std::ffi::{CString, c_int, c_void};
use std::io::Error;
use trace_core::GpuVa;
use trace_core::families::mali_jm::WriteKind;

/// Path of the node.
pub const NODE: &str = "/dev/dri/renderD128";

/// Fails with a message if a condition is false.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}

/// Returns the error number of the last failed call.
pub fn errno() -> i32 {
    Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// A descriptor of the node.
#[derive(Clone, Copy, Debug)]
pub struct Node(pub c_int);

/// A buffer object, mapped if possible.
#[derive(Debug)]
pub struct Object {
    pub handle: u32,
    pub va: GpuVa,
    pub bytes: usize,
    pub at: *mut u8,
}

// SAFETY: the memory is shared, and any thread can use it. Each thread of a scene uses only its own objects.
unsafe impl Send for Object {}

impl Node {
    /// Opens the node.
    pub fn open() -> Result<Self, String> {
        let path = CString::new(NODE).map_err(|e| e.to_string())?;
        // SAFETY: the path ends in a zero.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(format!("{NODE}: {}", Error::last_os_error()));
        }
        Ok(Self(fd))
    }

    /// Makes a request, or returns the error number.
    pub fn ioctl<T>(self, request: u32, value: &mut T) -> Result<(), i32> {
        self.ioctl_raw(request, std::ptr::from_mut(value).cast())
    }

    /// Makes a request with an address of any kind.
    pub fn ioctl_raw(self, request: u32, at: *mut c_void) -> Result<(), i32> {
        // SAFETY: the request contains the structure's size. A scene can pass wrong addresses on purpose.
        let done = unsafe { libc::ioctl(self.0, u64::from(request), at) };
        if done < 0 { Err(errno()) } else { Ok(()) }
    }

    /// Returns a parameter of the GPU.
    pub fn get_param(self, param: u32) -> Result<u64, i32> {
        let mut p = uapi::GetParam {
            param,
            ..Default::default()
        };
        self.ioctl(iowr::<uapi::GetParam>(DRM, number::GET_PARAM), &mut p)?;
        Ok(p.value)
    }

    /// Creates an object without a mapping.
    pub fn create_bo(self, size: u32, flags: u32) -> Result<uapi::CreateBo, i32> {
        let mut c = uapi::CreateBo {
            size,
            flags,
            ..Default::default()
        };
        self.ioctl(iowr::<uapi::CreateBo>(DRM, number::CREATE_BO), &mut c)?;
        Ok(c)
    }

    /// Returns the offset for the mapping of an object.
    pub fn get_map_offset(self, handle: u32) -> Result<u64, i32> {
        let mut m = uapi::MmapBo {
            handle,
            ..Default::default()
        };
        self.ioctl(iowr::<uapi::MmapBo>(DRM, number::MMAP_BO), &mut m)?;
        Ok(m.offset)
    }

    /// Maps a range of the node.
    pub fn map(self, offset: u64, bytes: usize, flags: c_int) -> Result<*mut u8, i32> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the mapping is new, at an address that the system chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, self.0, offset as i64) };
        if at == libc::MAP_FAILED {
            Err(errno())
        } else {
            Ok(at.cast())
        }
    }

    /// Creates an object and maps it.
    pub fn create_mapped(self, bytes: usize, flags: u32) -> Result<Object, String> {
        let describe = |e| format!("an object of {bytes} bytes: error {e}");
        let created = self.create_bo(bytes as u32, flags).map_err(describe)?;
        let offset = self.get_map_offset(created.handle).map_err(describe)?;
        let at = self.map(offset, bytes, libc::MAP_SHARED).map_err(describe)?;
        Ok(Object {
            handle: created.handle,
            va: GpuVa::new(created.offset),
            bytes,
            at,
        })
    }

    /// Closes a handle.
    pub fn close_handle(self, handle: u32) -> Result<(), i32> {
        let mut c = uapi::GemClose { handle, pad: 0 };
        self.ioctl(iow::<uapi::GemClose>(DRM, number::GEM_CLOSE), &mut c)
    }

    /// Submits a chain.
    pub fn submit(self, head: GpuVa, handles: &[u32], requirements: u32, out_sync: u32) -> Result<(), i32> {
        let mut s = uapi::Submit {
            jc: head.get(),
            bo_handles: handles.as_ptr() as u64,
            bo_handle_count: handles.len() as u32,
            requirements,
            out_sync,
            ..Default::default()
        };
        self.ioctl(iow::<uapi::Submit>(DRM, number::SUBMIT), &mut s)
    }

    /// Waits for an object.
    pub fn wait_bo(self, handle: u32) -> Result<(), i32> {
        let mut w = uapi::WaitBo {
            handle,
            pad: 0,
            timeout_ns: i64::MAX,
        };
        self.ioctl(iow::<uapi::WaitBo>(DRM, number::WAIT_BO), &mut w)
    }

    /// Creates a sync object.
    pub fn create_syncobj(self, signaled: bool) -> Result<u32, i32> {
        let mut s = uapi::Syncobj {
            handle: 0,
            flags: if signaled { flag::CREATE_SIGNALED } else { 0 },
        };
        self.ioctl(iowr::<uapi::Syncobj>(DRM, number::SYNCOBJ_CREATE), &mut s)?;
        Ok(s.handle)
    }

    /// Waits for sync objects until a time of the monotonic clock.
    pub fn wait_syncobjs(self, handles: &[u32], flags: u32, until_ns: i64) -> Result<u32, i32> {
        let mut w = uapi::SyncobjWait {
            handles: handles.as_ptr() as u64,
            timeout_ns: until_ns,
            count: handles.len() as u32,
            flags,
            ..Default::default()
        };
        self.ioctl(iowr::<uapi::SyncobjWait>(DRM, number::SYNCOBJ_WAIT), &mut w)?;
        Ok(w.first)
    }

    /// Runs a chain that writes 64-bit values. The chain is stored in its own object.
    pub fn run_value_writes(self, chain: &Object, values: &[(GpuVa, u64)]) -> Result<(), String> {
        let job = |(to, value): &(GpuVa, u64)| JobSpec::WriteValue {
            to: *to,
            kind: WriteKind::Immediate { bytes: 8 },
            value: *value,
        };
        let bytes = values.iter().map(job).fold(ChainBuilder::new(), ChainBuilder::job);
        chain.write(0, &bytes.build(chain.va));
        self.submit(chain.va, &[chain.handle], 0, 0)
            .and_then(|()| self.wait_bo(chain.handle))
            .map_err(|e| format!("a chain of {} jobs: error {e}", values.len()))
    }
}

impl Object {
    /// Writes bytes into the object.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.bytes, "the range is outside the object");
        // SAFETY: the range is inside the mapping.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.add(at), bytes.len()) };
    }

    /// Reads bytes from the object.
    pub fn read(&self, at: usize, bytes: usize) -> Vec<u8> {
        assert!(at + bytes <= self.bytes, "the range is outside the object");
        let mut out = vec![0; bytes];
        // SAFETY: the range is inside the mapping.
        unsafe { std::ptr::copy_nonoverlapping(self.at.add(at), out.as_mut_ptr(), bytes) };
        out
    }

    /// Returns a 64-bit word of the object.
    pub fn word(&self, index: usize) -> u64 {
        self.read(index * 8, 8).try_into().map_or(0, u64::from_le_bytes)
    }

    /// Unmaps the object.
    pub fn unmap(&self) {
        // SAFETY: the mapping is this object's, and is not used afterwards.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

/// Names a range for a recorder. Returns the recorder's result, or `None` if there is no recorder.
pub fn name_buffer(at: *const u8, bytes: usize, name: &str, role: c_int, element: &str, shape: &str) -> Option<c_int> {
    type Marker = unsafe extern "C" fn(*const c_void, usize, *const i8, c_int, *const i8, *const i8) -> c_int;
    // SAFETY: the call looks a symbol up by a name that ends in a zero.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"kinescope_buffer".as_ptr()) };
    if symbol.is_null() {
        return None;
    }
    let text = |t: &str| CString::new(t).unwrap_or_default();
    let (name, element, shape) = (text(name), text(element), text(shape));
    // SAFETY: the recorder's function of this name has this type, and the strings end in a zero.
    Some(unsafe {
        let marker = std::mem::transmute::<*mut c_void, Marker>(symbol);
        marker(
            at.cast(),
            bytes,
            name.as_ptr().cast(),
            role,
            element.as_ptr().cast(),
            shape.as_ptr().cast(),
        )
    })
}
