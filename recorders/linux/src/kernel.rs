//! Access to the machine: files of `/proc`, `/sys` and tracefs, and modules. A trait, so that tests use a kernel of
//! their own.

use crate::fbdev::{FrameBuffer, read_geometry};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Maximum size of a file that is read whole, bytes; the largest, a distribution's `modules.alias`, has about two MiB.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
/// Maximum size of a part of a file, bytes: the maximum size of a screen's picture in a recording.
pub const MAX_PART_BYTES: usize = 64 << 20;
/// Maximum number of names in a folder.
const MAX_NAMES: usize = 1 << 16;

/// A Linux machine, accessed by its own paths.
pub trait Kernel: Send + Sync {
    /// Reads a file as text, at most [`MAX_FILE_BYTES`] bytes of it; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    fn read(&self, path: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read_bytes(path)?).into_owned())
    }

    /// Reads a file, at most [`MAX_FILE_BYTES`].
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>>;

    /// Reads at most `bytes` bytes of a file from an offset on, limited to [`MAX_PART_BYTES`].
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    fn read_bytes_at(&self, path: &str, at: u64, bytes: usize) -> io::Result<Vec<u8>>;

    /// Writes to an existing file in one write, as the kernel's files require.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;

    /// Creates a folder.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn make_folder(&self, path: &str) -> io::Result<()>;

    /// Removes an empty folder, or a folder that the kernel lets be removed.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn remove_folder(&self, path: &str) -> io::Result<()>;

    /// Returns the target of a link, unresolved.
    ///
    /// # Errors
    /// Returns an error if it is not a link.
    fn read_link(&self, path: &str) -> io::Result<String>;

    /// Returns the names in a folder, sorted.
    ///
    /// # Errors
    /// Returns an error if it is not a folder.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// Returns whether a path exists.
    fn exists(&self, path: &str) -> bool;

    /// Loads a module and its dependencies with the kernel's modprobe. `runs` gets the id of its process.
    ///
    /// # Errors
    /// Returns an error if modprobe fails, with its output.
    fn load(&self, module: &str, runs: &mut dyn FnMut(u32)) -> io::Result<()>;

    /// Unloads a module.
    ///
    /// # Errors
    /// Returns the kernel's error; `EAGAIN` or `EBUSY` if the module is in use.
    fn unload(&self, module: &str) -> io::Result<()>;

    /// Opens a trace whose data is consumed by reads; reads do not block.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened.
    fn open_trace(&self, path: &str) -> io::Result<File>;

    /// Ends a process by a signal: a request, or a kill.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn end_process(&self, pid: u32, kill: bool) -> io::Result<()>;

    /// Returns the geometry of a frame buffer device.
    ///
    /// # Errors
    /// Returns an error if it is not one.
    fn frame_buffer(&self, path: &str) -> io::Result<FrameBuffer>;

    /// Returns whether the caller is allowed to change drivers and tracers.
    fn is_root(&self) -> bool;

    /// Returns the release of the kernel and the architecture of the machine.
    fn release(&self) -> (String, String);

    /// Sleeps during a wait.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Returns the last component of a link's target, or `None` if it is not a link.
pub(crate) fn link_name(kernel: &dyn Kernel, path: &str) -> Option<String> {
    let target = kernel.read_link(path).ok()?;
    target.rsplit('/').find(|part| !part.is_empty()).map(str::to_owned)
}

/// Returns the trimmed text of a file, or `None` if it cannot be read.
pub(crate) fn read_trimmed(kernel: &dyn Kernel, path: &str) -> Option<String> {
    Some(kernel.read(path).ok()?.trim().to_owned())
}

/// Returns the names in a folder; none if it does not exist.
pub(crate) fn list_names(kernel: &dyn Kernel, path: &str) -> Vec<String> {
    kernel.list(path).unwrap_or_default()
}

/// The machine that the program runs on, with its files below a root.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self::with_root("/")
    }
}

impl Machine {
    /// Returns the machine with its files below `root`.
    #[must_use]
    pub fn with_root(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns the program that the kernel itself loads modules with.
    fn modprobe(&self) -> PathBuf {
        let named = self.read("/proc/sys/kernel/modprobe").unwrap_or_default();
        let named = Path::new(named.trim()).to_owned();
        if named.is_file() { named } else { "modprobe".into() }
    }
}

impl Kernel for Machine {
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path(path))?
            .take(MAX_FILE_BYTES)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_bytes_at(&self, path: &str, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let file = File::open(self.path(path))?;
        let mut all = vec![0; bytes.min(MAX_PART_BYTES)];
        let mut done = 0;
        while let Some(rest) = all.get_mut(done..).filter(|r| !r.is_empty()) {
            match file.read_at(rest, at.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        all.truncate(done);
        Ok(all)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        // Neither created nor truncated: an empty list of probes would remove all probes of other users.
        OpenOptions::new()
            .write(true)
            .open(self.path(path))?
            .write_all(text.as_bytes())
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        std::fs::create_dir(self.path(path))
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        std::fs::remove_dir(self.path(path))
    }

    fn read_link(&self, path: &str) -> io::Result<String> {
        Ok(std::fs::read_link(self.path(path))?.to_string_lossy().into_owned())
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(self.path(path))?.take(MAX_NAMES);
        let mut names: Vec<String> = entries
            .filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &str) -> bool {
        std::fs::symlink_metadata(self.path(path)).is_ok()
    }

    fn load(&self, module: &str, runs: &mut dyn FnMut(u32)) -> io::Result<()> {
        let program = self.modprobe();
        let child = Command::new(&program)
            .arg(module)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", program.display())))?;
        runs(child.id());
        let done = child.wait_with_output()?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let said = said.trim().lines().next_back().unwrap_or("it gives no reason");
        Err(io::Error::other(said.to_owned()))
    }

    fn unload(&self, module: &str) -> io::Result<()> {
        let name = CString::new(module)?;
        // 0x800, O_NONBLOCK: a module that is in use returns an error instead of a wait.
        Ok(rustix::system::delete_module(&name, 0x800)?)
    }

    fn open_trace(&self, path: &str) -> io::Result<File> {
        let flags = rustix::fs::OFlags::NONBLOCK.bits();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(i32::try_from(flags).unwrap_or(0));
        options.open(self.path(path))
    }

    fn end_process(&self, pid: u32, kill: bool) -> io::Result<()> {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let signal = if kill { Signal::KILL } else { Signal::TERM };
        Ok(kill_process(pid, signal)?)
    }

    fn frame_buffer(&self, path: &str) -> io::Result<FrameBuffer> {
        read_geometry(&File::open(self.path(path))?)
    }

    fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    fn release(&self) -> (String, String) {
        let name = rustix::system::uname();
        let text = |c: &std::ffi::CStr| c.to_string_lossy().into_owned();
        (text(name.release()), text(name.machine()))
    }
}
