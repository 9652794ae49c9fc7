//! CUDA architectures, the devices that run their code, and the driver's choice among several pieces of code.

use std::cmp::Ordering;
use std::fmt;

/// Compute capability of a device: 9.0 for an H200.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    /// Major number.
    pub major: u32,
    /// Minor number, 0 to 9.
    pub minor: u32,
}

impl Capability {
    /// Returns `major`.`minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The set of devices that code of an architecture runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// The architecture and later ones (`sm_90`).
    #[default]
    Plain,
    /// The family of the architecture (`sm_100f`).
    Family,
    /// The architecture alone (`sm_90a`).
    Exact,
}

/// The target architecture of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arch {
    /// The major number times ten plus the minor number: 90, 103, 120.
    pub number: u32,
    /// The set of devices that the code runs on.
    pub variant: Variant,
}

/// The form of code: whether the driver has to compile it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Instructions of one architecture, in a cubin.
    Machine,
    /// PTX text, which the driver compiles for the device.
    Ptx,
}

impl Arch {
    /// Returns the architecture `number` for code that also runs on later ones.
    pub const fn plain(number: u32) -> Self {
        Self {
            number,
            variant: Variant::Plain,
        }
    }

    /// Parses a name such as `sm_90a`, `compute_80` or `100f`. Returns `None` for other names.
    pub fn from_name(name: &str) -> Option<Self> {
        let digits = name
            .strip_prefix("sm_")
            .or_else(|| name.strip_prefix("compute_"))
            .unwrap_or(name);
        let (digits, variant) = match digits.as_bytes().last() {
            Some(b'a') => (&digits[..digits.len() - 1], Variant::Exact),
            Some(b'f') => (&digits[..digits.len() - 1], Variant::Family),
            _ => (digits, Variant::Plain),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some(Self {
            number: digits.parse().ok()?,
            variant,
        })
    }

    /// Returns the compute capability that the architecture is named after.
    pub const fn capability(self) -> Capability {
        Capability::new(self.number / 10, self.number % 10)
    }

    /// Whether a device runs code of this architecture.
    ///
    /// Machine code runs on devices of the same major number whose minor number is not below its own. PTX runs on every
    /// device that is not below its architecture. Code for one architecture runs on that architecture alone, and code
    /// for a family within the same major number. The rules are those of NVIDIA's compatibility documentation. So far
    /// each major number is one family.
    pub fn can_run_on(self, form: Form, device: Capability) -> bool {
        let own = self.capability();
        match (self.variant, form) {
            (Variant::Exact, _) => own == device,
            (Variant::Family, _) | (Variant::Plain, Form::Machine) => own.major == device.major && own <= device,
            (Variant::Plain, Form::Ptx) => own <= device,
        }
    }

    /// Returns the rank among architectures that run on a device: the greater one is better.
    fn rank(self) -> (u32, Variant) {
        (self.number, self.variant)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tail = match self.variant {
            Variant::Plain => "",
            Variant::Family => "f",
            Variant::Exact => "a",
        };
        write!(f, "sm_{}{tail}", self.number)
    }
}

/// Returns the index of the piece of `held` that a driver loads on `device`, or `None` if none runs there.
///
/// Machine code comes before PTX, higher numbers before lower ones, and code for one architecture before code for later
/// ones too. Of equal ones, the driver takes the first piece of machine code and the last piece of PTX. This is what
/// driver 580 (CUDA 13.0) did on a device of capability 9.0, case by case (`tests/fixtures/driver-choice.txt`). The
/// rank of family code between the other two was not measured. Environment variables that make a driver compile PTX are
/// not considered.
pub fn choose(held: impl IntoIterator<Item = (Form, Arch)>, device: Capability) -> Option<usize> {
    let mut best: Option<(usize, Form, Arch)> = None;
    for (i, (form, arch)) in held.into_iter().enumerate() {
        if !arch.can_run_on(form, device) {
            continue;
        }
        let takes = match best {
            None => true,
            Some((_, Form::Ptx, _)) if form == Form::Machine => true,
            Some((_, Form::Machine, _)) if form == Form::Ptx => false,
            Some((_, _, other)) => match arch.rank().cmp(&other.rank()) {
                Ordering::Greater => true,
                Ordering::Equal => form == Form::Ptx,
                Ordering::Less => false,
            },
        };
        if takes {
            best = Some((i, form, arch));
        }
    }
    best.map(|(i, ..)| i)
}
