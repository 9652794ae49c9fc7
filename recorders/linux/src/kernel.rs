//! All that the recorder touches on the machine: files of `/proc`, `/sys` and tracefs, and modules. Behind a trait, so
//! that tests have a kernel of their own.

use rustix::io::Errno;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Maximum number of bytes of a file that is read whole; the longest, a distribution's `modules.alias`, has some two
/// MiB.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
/// Maximum number of bytes of a part of a file: as much as the picture of a screen may have in a recording.
pub const MAX_PART_BYTES: usize = 64 << 20;
/// Maximum number of names of a folder.
const MAX_NAMES: usize = 1 << 16;

/// Geometry of a frame buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameBuffer {
    /// Pixels of a line that are shown.
    pub width: u32,
    /// Lines that are shown.
    pub height: u32,
    /// First pixel of a line that is shown.
    pub left: u32,
    /// First line that is shown.
    pub top: u32,
    /// Bits of a pixel.
    pub bits: u32,
    /// Lowest bit and number of bits of red, green and blue.
    pub channels: [(u32, u32); 3],
    /// The colours, where pixels are their numbers.
    pub palette: Option<Vec<[u8; 3]>>,
}

/// A Linux machine, by the paths that it has itself.
pub trait Kernel: Send + Sync {
    /// The text of a file, at most [`MAX_FILE_BYTES`] bytes of it; bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, path: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read_bytes(path)?).into_owned())
    }

    /// The bytes of a file, at most [`MAX_FILE_BYTES`].
    ///
    /// # Errors
    /// When it cannot be read.
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>>;

    /// At most `bytes` bytes of a file from a place in it on, and [`MAX_PART_BYTES`] at most.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read_bytes_at(&self, path: &str, at: u64, bytes: usize) -> io::Result<Vec<u8>>;

    /// Writes to a file that is there, in one piece, as the kernel's files want it.
    ///
    /// # Errors
    /// What the kernel makes of it.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;

    /// Makes a folder.
    ///
    /// # Errors
    /// What the kernel makes of it.
    fn make_folder(&self, path: &str) -> io::Result<()>;

    /// Removes an empty folder, or what the kernel takes for one.
    ///
    /// # Errors
    /// What the kernel makes of it.
    fn remove_folder(&self, path: &str) -> io::Result<()>;

    /// What a link points to, as it says it.
    ///
    /// # Errors
    /// When it is none.
    fn read_link(&self, path: &str) -> io::Result<String>;

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// When it is none.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// Whether there is something at a path.
    fn exists(&self, path: &str) -> bool;

    /// Has the kernel's modprobe load a module and what it needs. `runs` hears of its process.
    ///
    /// # Errors
    /// When it says that it could not; what it printed is in the error.
    fn load(&self, module: &str, runs: &mut dyn FnMut(u32)) -> io::Result<()>;

    /// Takes a module out.
    ///
    /// # Errors
    /// What the kernel makes of it; in use: `EAGAIN` or `EBUSY`.
    fn unload(&self, module: &str) -> io::Result<()>;

    /// Opens a trace that is used up by reading; reads do not wait.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn open_trace(&self, path: &str) -> io::Result<File>;

    /// Ends a process by a signal: asks, or kills.
    ///
    /// # Errors
    /// What the kernel makes of it.
    fn end_process(&self, pid: u32, kill: bool) -> io::Result<()>;

    /// What a frame buffer device shows, and how.
    ///
    /// # Errors
    /// When it is none.
    fn frame_buffer(&self, path: &str) -> io::Result<FrameBuffer>;

    /// Whether the caller may change drivers and tracers.
    fn is_root(&self) -> bool;

    /// Release of the kernel and architecture of the machine.
    fn release(&self) -> (String, String);

    /// Lets time pass while something is waited for.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// The last part of what a link points to; `None` when it is no link.
pub(crate) fn link_name(kernel: &dyn Kernel, path: &str) -> Option<String> {
    let target = kernel.read_link(path).ok()?;
    target.rsplit('/').find(|part| !part.is_empty()).map(str::to_owned)
}

/// The text of a file without blanks at its ends; `None` when it cannot be read.
pub(crate) fn read_trimmed(kernel: &dyn Kernel, path: &str) -> Option<String> {
    Some(kernel.read(path).ok()?.trim().to_owned())
}

/// The names in a folder; none where it is not there.
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
    /// The machine, with its files below `root`.
    #[must_use]
    pub fn with_root(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The program that the kernel itself loads modules with.
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
        // Neither made nor cut: an empty list of probes would take everybody's away.
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
        let said = said.trim().lines().next_back().unwrap_or("it does not say why");
        Err(io::Error::other(said.to_owned()))
    }

    fn unload(&self, module: &str) -> io::Result<()> {
        let name = CString::new(module)?;
        // 0x800, O_NONBLOCK: a module that is in use is an error and no reason to wait.
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
        crate::fbdev::read_geometry(&File::open(self.path(path))?)
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
