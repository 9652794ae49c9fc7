//! Paths of the render node: the node itself and what libdrm reads in `/sys` to identify it. Other graphics devices of
//! the machine are hidden from the program.

/// Major device number of graphics devices.
pub(crate) const MAJOR: u32 = 226;
/// Minor device number of the first render node.
pub(crate) const MINOR: u32 = 128;

const FOLDER: &str = "/dev/dri";
const NAME: &str = "renderD128";
/// Folder of the system's devices by number.
const BY_NUMBER: &str = "/sys/dev/char";
const UEVENT: &str = "DRIVER=panfrost\nOF_NAME=gpu\nOF_FULLNAME=/soc/gpu@0\nOF_COMPATIBLE_0=arm,mali-bifrost\n\
                      OF_COMPATIBLE_N=1\nMODALIAS=of:NgpuT(null)Carm,mali-bifrost\n";
const NODE_UEVENT: &str = "MAJOR=226\nMINOR=128\nDEVNAME=dri/renderD128\nDEVTYPE=drm_minor\n";

/// What a path of a program refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VirtualPath {
    /// The render node.
    Node,
    /// A folder with these names in it.
    Folder(&'static [&'static str]),
    /// A file with these contents.
    File(&'static str),
    /// A link with this target.
    Link(&'static str),
    /// A graphics device, or a part of one, that is hidden from this program.
    Hidden,
}

/// Returns what the library serves at a path, or `None` if the system handles it.
pub(crate) fn find(path: &[u8]) -> Option<VirtualPath> {
    // The first letters exclude most paths.
    if !path.starts_with(b"/dev/dri") && !path.starts_with(b"/sys/dev/char/226:") {
        return None;
    }
    let path = std::str::from_utf8(path).ok()?;
    let path = if path.len() > 1 {
        path.trim_end_matches('/')
    } else {
        path
    };
    if path == FOLDER {
        return Some(VirtualPath::Folder(&[NAME]));
    }
    if let Some(name) = path.strip_prefix(FOLDER).and_then(|p| p.strip_prefix('/')) {
        return Some(if name == NAME {
            VirtualPath::Node
        } else {
            VirtualPath::Hidden
        });
    }
    let device = path.strip_prefix(BY_NUMBER)?.strip_prefix('/')?;
    let (number, below) = device.split_once('/').unwrap_or((device, ""));
    if !number.starts_with("226:") {
        return None;
    }
    if number != "226:128" {
        return Some(VirtualPath::Hidden);
    }
    Some(match below {
        "" => VirtualPath::Folder(&["dev", "device", "subsystem", "uevent"]),
        "dev" => VirtualPath::File("226:128\n"),
        "uevent" => VirtualPath::File(NODE_UEVENT),
        "subsystem" => VirtualPath::Link("/sys/class/drm"),
        "device" => VirtualPath::Folder(&["drm", "subsystem", "uevent"]),
        "device/uevent" => VirtualPath::File(UEVENT),
        "device/subsystem" => VirtualPath::Link("/sys/bus/platform"),
        "device/drm" => VirtualPath::Folder(&[NAME]),
        "device/drm/renderD128" => VirtualPath::Folder(&["dev", "uevent"]),
        "device/drm/renderD128/dev" => VirtualPath::File("226:128\n"),
        "device/drm/renderD128/uevent" => VirtualPath::File(NODE_UEVENT),
        _ => VirtualPath::Hidden,
    })
}
