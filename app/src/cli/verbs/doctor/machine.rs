//! The machine that the checks examine: its files, environment and limits, and probes of libraries. Tests examine a
//! folder in place of `/`.

use crate::window::offscreen::gl::OffscreenPainter;
use directories::ProjectDirs;
use kinescope_session::targets::factories;
use replay_cuda::query_driver_version;
use rustix::fs::Access;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum size of a file that is read, bytes. Longer files are cut.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of names that are read from a folder.
const MAX_NAMES: usize = 1 << 16;
/// Maximum time for a program to print its version.
const MAX_VERSION_TIME: Duration = Duration::from_millis(700);
/// Interval of checks whether a program has ended.
const TICK: Duration = Duration::from_millis(5);

/// Whether a file exists and can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It exists, and this user has the required access.
    Usable,
    /// It exists or may exist, and this user lacks the required access.
    Denied,
    /// It does not exist.
    Absent,
}

/// Folders that the program uses; `None` if the user has none.
#[derive(Clone, Debug, Default)]
pub struct Folders {
    /// Settings and keys of commands.
    pub settings: Option<PathBuf>,
    /// Key store.
    pub keys: Option<PathBuf>,
    /// Crash reports.
    pub crashes: Option<PathBuf>,
    /// Temporary files.
    pub temporary: Option<PathBuf>,
    /// Current folder.
    pub current: Option<PathBuf>,
    /// Folder of this program.
    pub program: Option<PathBuf>,
}

/// Checks that do more than read files.
#[derive(Clone, Debug)]
pub struct Probes {
    /// Returns whether this user has an access to a file.
    pub access: fn(&Path, Access) -> bool,
    /// Returns what a program prints for `--version`.
    pub version: fn(&Path) -> Option<String>,
    /// Creates an off-screen renderer.
    pub offscreen: fn() -> Result<(), String>,
    /// Starts a simulator by its target name.
    pub simulator: fn(&str) -> Result<(), String>,
    /// Loads the CUDA driver library and returns its version, as [`query_driver_version`] does.
    pub cuda: fn() -> Result<i32, String>,
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            access: |path, access| rustix::fs::access(path, access).is_ok(),
            version: read_version,
            offscreen: || OffscreenPainter::new().map(drop).map_err(|e| e.to_string()),
            simulator: |name| factories().open(name).map(drop).map_err(|e| e.to_string()),
            cuda: || query_driver_version().map_err(|e| e.to_string()),
        }
    }
}

/// A machine, with its files below a root.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
    env: BTreeMap<OsString, OsString>,
    /// Architecture, as in the names of targets of Rust: `x86_64`.
    pub architecture: &'static str,
    /// Whether the effective user is root.
    pub is_root: bool,
    /// Limit of open files.
    pub open_files: Rlimit,
    /// Limit of locked memory, bytes.
    pub locked_memory: Rlimit,
    /// Folders of the program. These are not below the root.
    pub folders: Folders,
    /// Checks that do more than read files.
    pub probes: Probes,
}

impl Machine {
    /// Returns the machine that this program runs on, with the folder of the key store.
    pub fn current(keys: Option<PathBuf>) -> Self {
        let folders = ProjectDirs::from("", "", "kinescope");
        let folders = folders.as_ref();
        Self {
            root: PathBuf::from("/"),
            env: std::env::vars_os().collect(),
            architecture: std::env::consts::ARCH,
            is_root: geteuid().is_root(),
            open_files: getrlimit(Resource::Nofile),
            locked_memory: getrlimit(Resource::Memlock),
            folders: Folders {
                settings: folders.map(|d| d.config_dir().to_owned()),
                keys,
                crashes: folders.map(|d| d.data_local_dir().join("crashes")),
                temporary: Some(std::env::temp_dir()),
                current: std::env::current_dir().ok(),
                program: std::env::current_exe()
                    .ok()
                    .and_then(|p| p.parent().map(Path::to_owned)),
            },
            probes: Probes::default(),
        }
    }

    /// Returns the location of a path of the machine.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns a variable of the environment that is set and not empty.
    pub fn env(&self, name: &str) -> Option<&OsStr> {
        self.env
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|v| !v.is_empty())
    }

    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// If it cannot be opened or read.
    pub fn read_bytes(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path(path))?
            .take(MAX_FILE_BYTES)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the trimmed text of a file, or `None` if it cannot be read.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = self.read_bytes(path).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Returns the sorted names in a folder; none if it cannot be read.
    pub fn list(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let names = entries.take(MAX_NAMES).map(|e| e.file_name());
        let mut names: Vec<String> = names.map(|n| n.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Returns the last component of a link's target, or `None` if it is not a link.
    pub fn link_name(&self, path: impl AsRef<Path>) -> Option<String> {
        let target = std::fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// Returns whether a path exists.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// Returns whether a file exists and allows an access.
    pub fn presence(&self, path: impl AsRef<Path>, access: Access) -> Presence {
        let path = self.path(path);
        match std::fs::metadata(&path) {
            Ok(_) if (self.probes.access)(&path, access) => Presence::Usable,
            Ok(_) => Presence::Denied,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Presence::Denied,
            Err(_) => Presence::Absent,
        }
    }

    /// Returns how this user gets access to a device node.
    pub fn describe_access_fix(&self, path: impl AsRef<Path>) -> String {
        let meta = std::fs::metadata(self.path(path)).ok();
        let groups = self.read("/etc/group").unwrap_or_default();
        let group = meta.and_then(|m| find_group(m.gid(), m.mode(), &groups));
        match group {
            Some(group) => {
                format!("join the group that may use it: run `sudo usermod -aG {group} \"$USER\"`, then log in again")
            }
            None => "run the program as root: only root may use it".to_owned(),
        }
    }

    /// Returns the first program of this name in the folders of `PATH`.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        std::env::split_paths(self.env("PATH")?)
            .filter(|folder| folder.is_absolute())
            .map(|folder| self.path(folder.join(name)))
            .find(|p| p.is_file() && (self.probes.access)(p, Access::EXEC_OK))
    }

    /// Returns the path of a shared library in the folders that the loader searches.
    pub fn find_library(&self, name: &str) -> Option<PathBuf> {
        let folders = self.library_folders().into_iter();
        folders.map(|f| self.path(f.join(name))).find(|p| p.exists())
    }

    /// Returns the folders of shared libraries: of the environment, of the loader's configuration, and the usual ones.
    pub fn library_folders(&self) -> Vec<PathBuf> {
        let named = self.env("LD_LIBRARY_PATH");
        let named = named.into_iter().flat_map(std::env::split_paths);
        let mut folders: Vec<PathBuf> = named.filter(|f| f.is_absolute()).collect();
        for file in self.list("/etc/ld.so.conf.d") {
            let text = self.read(Path::new("/etc/ld.so.conf.d").join(file)).unwrap_or_default();
            let lines = text.lines().map(str::trim).filter(|l| l.starts_with('/'));
            folders.extend(lines.map(PathBuf::from));
        }
        let triplet = format!("{}-linux-gnu", self.architecture);
        for usual in ["/usr/local/lib", "/usr/lib", "/lib"] {
            folders.extend([Path::new(usual).join(&triplet), PathBuf::from(usual)]);
        }
        folders.extend(["/usr/lib64", "/lib64"].map(PathBuf::from));
        folders
    }

    /// Returns the kernel's lockdown mode if it is on: `integrity` or `confidentiality`.
    pub fn lockdown(&self) -> Option<String> {
        let modes = self.read("/sys/kernel/security/lockdown")?;
        let (_, rest) = modes.split_once('[')?;
        let (mode, _) = rest.split_once(']')?;
        (mode != "none").then(|| mode.to_owned())
    }
}

/// Returns the name of a node's group, if the group may read and write the node and an ordinary user can join it.
fn find_group(gid: u32, mode: u32, groups: &str) -> Option<String> {
    if gid == 0 || mode & 0o060 != 0o060 {
        return None;
    }
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse::<u32>() == Ok(gid)).then(|| name.to_owned())
    })
}

/// Returns what a program prints for `--version`; `None` if it fails or takes too long.
fn read_version(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    let command = command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let started = Instant::now();
    // A version is shorter than what a pipe holds, so the program ends without a reader.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < MAX_VERSION_TIME => std::thread::sleep(TICK),
            _ => {
                // It may have ended by itself just now.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let mut text = String::new();
    child
        .stdout
        .take()?
        .take(MAX_FILE_BYTES)
        .read_to_string(&mut text)
        .ok()?;
    status.success().then_some(text)
}

/// A machine for tests: an empty folder that tests fill, and probes that touch nothing else.
#[cfg(test)]
pub mod fake {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use tempfile::TempDir;

    /// A machine whose files lie in a temporary folder.
    pub struct FakeMachine {
        /// The machine.
        pub machine: Machine,
        /// Its root, removed on drop.
        pub root: TempDir,
    }

    impl FakeMachine {
        /// Returns a machine without files, programs and variables. Its simulators start, and it draws off-screen.
        pub fn empty() -> Self {
            let root = tempfile::tempdir().unwrap();
            let machine = Machine {
                root: root.path().to_owned(),
                env: BTreeMap::new(),
                architecture: "x86_64",
                is_root: false,
                open_files: Rlimit {
                    current: Some(1024),
                    maximum: Some(4096),
                },
                locked_memory: Rlimit {
                    current: Some(8 << 20),
                    maximum: None,
                },
                folders: Folders::default(),
                probes: Probes {
                    access: may_others,
                    version: |program| std::fs::read_to_string(program).ok(),
                    offscreen: || Ok(()),
                    simulator: |_| Ok(()),
                    cuda: || Err("there is no CUDA driver here".to_owned()),
                },
            };
            Self { machine, root }
        }

        /// Writes a file with these permission bits. The machine's user has those of other users.
        pub fn write(&self, path: &str, text: impl AsRef<[u8]>, mode: u32) {
            let path = self.machine.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }

        /// Creates a folder.
        pub fn create_folder(&self, path: &str) {
            std::fs::create_dir_all(self.machine.path(path)).unwrap();
        }

        /// Creates a link to a target that need not exist.
        pub fn link(&self, path: &str, target: &str) {
            let path = self.machine.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, path).unwrap();
        }

        /// Sets a variable of the environment.
        pub fn set_env(&mut self, name: &str, value: &str) {
            self.machine.env.insert(name.into(), value.into());
        }
    }

    /// Returns whether users other than the owner and the group have an access. The kernel grants root every access, so
    /// the mode decides here.
    fn may_others(path: &Path, access: Access) -> bool {
        let Ok(meta) = std::fs::metadata(path) else {
            return false;
        };
        let mode = meta.permissions().mode();
        [(Access::READ_OK, 0o4), (Access::WRITE_OK, 0o2), (Access::EXEC_OK, 0o1)]
            .into_iter()
            .all(|(right, bit)| !access.contains(right) || mode & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::fake::FakeMachine;
    use super::*;

    #[test]
    fn files_are_absent_denied_or_usable() {
        let fake = FakeMachine::empty();
        fake.write("/dev/a", "", 0o666);
        fake.write("/dev/b", "", 0o660);
        let both = Access::READ_OK | Access::WRITE_OK;
        let presence = |path| fake.machine.presence(path, both);
        assert_eq!(presence("/dev/a"), Presence::Usable);
        assert_eq!(presence("/dev/b"), Presence::Denied);
        assert_eq!(presence("/dev/c"), Presence::Absent);
    }

    #[test]
    fn the_group_of_a_node_is_named_if_it_helps() {
        let groups = "root:x:0:\nvideo:x:44:me\nrender:x:105:";
        assert_eq!(find_group(105, 0o20660, groups).as_deref(), Some("render"));
        assert_eq!(find_group(7, 0o20660, groups), None);
        assert_eq!(find_group(105, 0o20600, groups), None);
        assert_eq!(find_group(0, 0o20660, groups), None);
    }

    #[test]
    fn programs_and_libraries_are_found_below_the_root() {
        let mut fake = FakeMachine::empty();
        fake.write("/usr/bin/tool", "", 0o755);
        fake.write("/usr/bin/text", "", 0o644);
        assert_eq!(fake.machine.find_program("tool"), None);
        fake.set_env("PATH", "relative:/bin:/usr/bin");
        assert_eq!(
            fake.machine.find_program("tool"),
            Some(fake.machine.path("/usr/bin/tool"))
        );
        assert_eq!(fake.machine.find_program("text"), None);
        fake.write("/etc/ld.so.conf.d/x.conf", "# comment\n/opt/lib\n", 0o644);
        fake.write("/opt/lib/libx.so.1", "", 0o644);
        fake.write("/usr/lib/x86_64-linux-gnu/liby.so.1", "", 0o644);
        assert_eq!(
            fake.machine.find_library("libx.so.1"),
            Some(fake.machine.path("/opt/lib/libx.so.1"))
        );
        assert!(fake.machine.find_library("liby.so.1").is_some());
        assert!(fake.machine.find_library("libz.so.1").is_none());
    }

    #[test]
    fn lockdown_is_a_mode_other_than_none() {
        let fake = FakeMachine::empty();
        let lockdown = "/sys/kernel/security/lockdown";
        assert_eq!(fake.machine.lockdown(), None);
        fake.write(lockdown, "[none] integrity confidentiality\n", 0o644);
        assert_eq!(fake.machine.lockdown(), None);
        fake.write(lockdown, "none [integrity] confidentiality\n", 0o644);
        assert_eq!(fake.machine.lockdown().as_deref(), Some("integrity"));
    }

    #[test]
    fn a_program_that_does_not_answer_has_no_version() {
        assert_eq!(read_version(Path::new("/nonexistent/program")), None);
        assert_eq!(read_version(Path::new("/bin/false")), None);
    }
}
