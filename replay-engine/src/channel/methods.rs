//! Which methods a replay sends to which class, and why not the others.

use nvidia_channel::push_buffer::Method;
use nvidia_channel::{Bindings, ClassTable};

/// Last byte of the class of compute engines, copy engines and channels.
const COMPUTE: u16 = 0xc0;
const COPY: u16 = 0xb5;
const CHANNEL: u16 = 0x6f;
/// Class of the channel whose methods are known where the plan or the recording states no class.
pub const CHANNEL_CLASS: u16 = 0xc86f;
/// Method of compute classes that does nothing.
pub const NO_OPERATION: u16 = 0x100;

/// What a replay does with a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MethodRule {
    /// It is sent.
    Send,
    /// It is replaced by one that does nothing. The text says why.
    Replace(&'static str),
    /// The plan is refused. The text says why.
    Refuse(String),
}

/// Returns the class of copy engines that belongs to a class of compute engines, or `None` if the class is unknown.
#[must_use]
pub fn copy_class(compute: u16) -> Option<u16> {
    Some(match compute {
        0xc3c0 => 0xc3b5,
        0xc5c0 => 0xc5b5,
        0xc6c0 => 0xc6b5,
        0xc7c0 | 0xc9c0 => 0xc7b5,
        0xcbc0 => 0xc8b5,
        0xcdc0 => 0xc9b5,
        0xcec0 => 0xcab5,
        _ => return None,
    })
}

/// Returns the bindings of a channel with a compute engine and its copy engine, before its first method.
#[must_use]
pub fn initial_bindings(compute: u16) -> Bindings {
    let bindings = Bindings::new(CHANNEL_CLASS).with_engine(compute);
    match copy_class(compute) {
        Some(copy) => bindings.with_engine(copy),
        None => bindings,
    }
}

/// The rule of a byte address, before the value is known.
#[derive(Clone, Copy, Debug)]
enum AddressRule {
    /// The class has no such method.
    Unknown,
    Send,
    /// A register of the engine's firmware.
    Firmware,
    /// A method that is not for programs.
    Privileged(&'static str),
    BindClass,
    MemoryOperation,
    LaunchCopy,
}

/// Number of method addresses of a class.
const ADDRESSES: usize = 0x1000;

/// The rules of the methods of a plan. The names of a class are looked up once, when its first method is judged.
#[derive(Debug)]
pub struct MethodRules {
    compute: u16,
    copy: Option<u16>,
    /// Rules of each class that was judged, by a quarter of the byte address.
    classes: Vec<(u16, Box<[AddressRule]>)>,
}

impl MethodRules {
    /// Returns the rules of a plan for a class of compute engines.
    #[must_use]
    pub fn new(compute: u16) -> Self {
        Self {
            compute,
            copy: copy_class(compute),
            classes: Vec::new(),
        }
    }

    /// Returns the rule of a method.
    pub fn judge(&mut self, method: &Method) -> MethodRule {
        match self.address_rule(method) {
            Some(AddressRule::Send) => MethodRule::Send,
            rule => self.judge_value(method, rule),
        }
    }

    /// Returns the rule of a method's address, or `None` for a class that the replay does not create.
    fn address_rule(&mut self, method: &Method) -> Option<AddressRule> {
        let class = method.class?;
        let known = self.classes.iter().position(|(c, _)| *c == class);
        let index = known.or_else(|| {
            let is_created = class & 0xff == CHANNEL || class == self.compute || Some(class) == self.copy;
            let rules = is_created.then(|| list_rules(class))?;
            self.classes.push((class, rules));
            Some(self.classes.len() - 1)
        })?;
        let (_, rules) = self.classes.get(index)?;
        rules.get(usize::from(method.method / 4)).copied()
    }

    fn judge_value(&self, method: &Method, rule: Option<AddressRule>) -> MethodRule {
        /// Value of the field OPERATION of MEM_OP_D that only orders accesses.
        const MEMBAR: u32 = 5;
        /// Bits of LAUNCH_DMA that make source or destination a physical address.
        const PHYSICAL: u32 = 3 << 12;
        let (compute, value) = (self.compute, method.value);
        let Some(class) = method.class else {
            return MethodRule::Refuse(format!(
                "method {:#x} goes to subchannel {}, which has no class",
                method.method, method.subchannel
            ));
        };
        let Some(rule) = rule else {
            return MethodRule::Refuse(format!(
                "class {class:#x} is none of those that the replay creates: {compute:#x} and its copy engine"
            ));
        };
        match rule {
            AddressRule::Send => MethodRule::Send,
            AddressRule::Unknown => {
                MethodRule::Refuse(format!("method {:#x} of class {class:#x} is unknown", method.method))
            }
            AddressRule::Firmware => MethodRule::Replace("it writes registers of the engine's firmware"),
            AddressRule::Privileged(name) => MethodRule::Refuse(format!("{name} is not for programs")),
            AddressRule::BindClass => {
                let bound = (value & 0xffff) as u16;
                match bound == compute || Some(bound) == self.copy {
                    true => MethodRule::Send,
                    false => MethodRule::Refuse(format!(
                        "it binds class {bound:#x}, and the replay creates {compute:#x} and its copy engine"
                    )),
                }
            }
            AddressRule::MemoryOperation if value >> 27 != MEMBAR => MethodRule::Refuse(format!(
                "operation {:#x} on memory is for the kernel driver: it changes caches and address translations of \
                 others",
                value >> 27
            )),
            AddressRule::LaunchCopy if value & PHYSICAL != 0 => {
                MethodRule::Refuse("it copies from or to a physical address".to_owned())
            }
            AddressRule::MemoryOperation | AddressRule::LaunchCopy => MethodRule::Send,
        }
    }
}

/// Returns the rules of a class's addresses. All methods of a class without a table are unknown.
fn list_rules(class: u16) -> Box<[AddressRule]> {
    let mut rules = vec![AddressRule::Unknown; ADDRESSES].into_boxed_slice();
    for (address, named) in ClassTable::find(class).into_iter().flat_map(ClassTable::addresses) {
        let rule = match (class & 0xff, named.info.name) {
            (CHANNEL, "SET_OBJECT") => AddressRule::BindClass,
            (CHANNEL, "MEM_OP_D") => AddressRule::MemoryOperation,
            (CHANNEL, name @ ("ILLEGAL" | "FB_FLUSH" | "CLEAR_FAULTED")) => AddressRule::Privileged(name),
            (COMPUTE, name) if name.starts_with("SET_FALCON") => AddressRule::Firmware,
            (COPY, "LAUNCH_DMA") => AddressRule::LaunchCopy,
            _ => AddressRule::Send,
        };
        if let Some(slot) = rules.get_mut(usize::from(address / 4)) {
            *slot = rule;
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(class: u16, method: u16, value: u32) -> MethodRule {
        let method = Method {
            subchannel: 1,
            class: Some(class),
            method,
            value,
            word: 0,
        };
        MethodRules::new(0xcbc0).judge(&method)
    }

    #[test]
    fn methods_of_programs_are_sent_and_those_of_the_kernel_are_not() {
        assert_eq!(rule(0xcbc0, 0x1b00, 0), MethodRule::Send);
        assert_eq!(rule(0xc8b5, 0x300, 0x182), MethodRule::Send);
        assert_eq!(rule(0xc86f, 0x0, 0xcbc0), MethodRule::Send);
        assert_eq!(rule(0xc86f, 0x34, 5 << 27), MethodRule::Send);
        assert!(matches!(rule(0xcbc0, 0x510, 1), MethodRule::Replace(_)));
        let refused = [
            (0xc86f, 0x34, 9 << 27),
            (0xc86f, 0x4, 0),
            (0xc86f, 0x84, 1),
            (0xc86f, 0x0, 0xc797),
            (0xc8b5, 0x300, 1 << 12),
            (0xc8b5, 0x300, 1 << 13),
            (0xc7b5, 0x300, 0),
            (0xcbc0, 0x1ffc, 0),
            (0x902d, 0x200, 0),
        ];
        for (class, method, value) in refused {
            let got = rule(class, method, value);
            assert!(matches!(got, MethodRule::Refuse(_)), "{class:#x} {method:#x}: {got:?}");
        }
    }
}
