//! Architectures that code is made for, devices that run it, and which code a driver takes.

use std::cmp::Ordering;
use std::fmt;

/// What a device can do, as CUDA counts it: 9.0 for an H200.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    /// The number before the point.
    pub major: u32,
    /// The number behind it, 0 to 9.
    pub minor: u32,
}

impl Capability {
    /// `major`.`minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// How far code of an architecture reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// Made for it and for what comes after it (`sm_90`).
    #[default]
    Plain,
    /// Made for its family (`sm_100f`).
    Family,
    /// Made for it alone (`sm_90a`).
    Exact,
}

/// The architecture that code was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arch {
    /// Ten times the major number and the minor one: 90, 103, 120.
    pub number: u32,
    /// How far the code reaches.
    pub variant: Variant,
}

/// What code is: whether the driver has to compile it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Instructions of one architecture, in a cubin.
    Machine,
    /// PTX text, which the driver compiles for the device at hand.
    Ptx,
}

impl Arch {
    /// Code of `number` that runs on what comes after it too.
    pub const fn plain(number: u32) -> Self {
        Self {
            number,
            variant: Variant::Plain,
        }
    }

    /// The architecture of a name such as `sm_90a`, `compute_80` or `100f`; `None` where it is none.
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

    /// The capability that it is named after.
    pub const fn capability(self) -> Capability {
        Capability::new(self.number / 10, self.number % 10)
    }

    /// Whether a device runs code of this architecture.
    ///
    /// Instructions run on devices of the same major number, and a minor number not below their own. PTX runs on every
    /// device not below its own. What is made for one architecture runs there alone, what is made for a family within
    /// the same major number. The rules are those of NVIDIA's documentation of compatibility; one major number has been
    /// one family so far.
    pub fn can_run_on(self, form: Form, device: Capability) -> bool {
        let own = self.capability();
        match (self.variant, form) {
            (Variant::Exact, _) => own == device,
            (Variant::Family, _) | (Variant::Plain, Form::Machine) => own.major == device.major && own <= device,
            (Variant::Plain, Form::Ptx) => own <= device,
        }
    }

    /// The better of two that run on a device is the greater.
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

/// Which of `held` a driver takes on `device`, as an index; `None` where none runs there.
///
/// Machine code comes before PTX, the highest number before lower ones, and code for one architecture before code for
/// whatever follows. Of equal ones it is the first of machine code and the last of PTX. This is what driver 580
/// (CUDA 13.0) did on a device of capability 9.0, case by case (`tests/fixtures/driver-choice.txt`); the place of
/// family code between the other two was not measured. Environment variables that make a driver compile PTX are not
/// considered.
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
