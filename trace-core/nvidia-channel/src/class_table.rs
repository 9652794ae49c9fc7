//! Names of the methods of a class, and of the fields of their values.

use crate::field::FieldValue;
use crate::push_buffer::Method;
use crate::table::{MethodInfo, Table, TableError};
use std::fmt;
use std::sync::LazyLock;

/// The embedded tables. Each is parsed when one of its classes is needed for the first time.
static TABLES: [LazyLock<Result<Vec<ClassTable>, TableError>>; 4] = [
    LazyLock::new(|| parse(include_str!("../../../assets/registers/nvidia/host.txt"))),
    LazyLock::new(|| parse(include_str!("../../../assets/registers/nvidia/compute.txt"))),
    LazyLock::new(|| parse(include_str!("../../../assets/registers/nvidia/copy.txt"))),
    LazyLock::new(|| parse(include_str!("../../../assets/registers/nvidia/inline-to-memory.txt"))),
];

/// The methods of a class.
#[derive(Debug)]
pub struct ClassTable {
    number: u16,
    name: &'static str,
    methods: Vec<MethodInfo>,
    /// Byte address, index in `methods` and element of each method, sorted.
    index: Vec<(u16, usize, u16)>,
}

/// A method of a class by its address.
#[derive(Debug, Clone, Copy)]
pub struct NamedMethod {
    /// The method, or array of methods.
    pub info: &'static MethodInfo,
    /// Number of the element, for an array.
    pub element: Option<u16>,
}

impl ClassTable {
    /// Returns the table of a class, or `None` if no header of the class is embedded.
    #[must_use]
    pub fn find(class: u16) -> Option<&'static Self> {
        // The last byte of a class says what it is for.
        let order = match class & 0xff {
            0x6f => 0,
            0xc0 => 1,
            0xb5 => 2,
            0x40 => 3,
            _ => return None,
        };
        let tables = TABLES.get(order)?.as_ref().ok()?;
        tables.iter().find(|t| t.number == class)
    }

    /// Returns the tables of all classes.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        TABLES.iter().filter_map(|t| t.as_ref().ok()).flatten()
    }

    /// Returns the number of the class.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the name of the class.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the methods in the order of their addresses.
    #[must_use]
    pub fn methods(&self) -> &[MethodInfo] {
        &self.methods
    }

    /// Returns the byte addresses of the methods and of the elements of their arrays, in ascending order.
    pub fn addresses(&'static self) -> impl Iterator<Item = (u16, NamedMethod)> {
        self.index.iter().filter_map(|(offset, method, element)| {
            let info = self.methods.get(*method)?;
            let element = (info.stride != 0).then_some(*element);
            Some((*offset, NamedMethod { info, element }))
        })
    }

    /// Returns the method at a byte address, or `None` if the class has no such method.
    #[must_use]
    pub fn method(&'static self, offset: u16) -> Option<NamedMethod> {
        let at = self
            .index
            .binary_search_by_key(&offset, |(offset, _, _)| *offset)
            .ok()?;
        let (_, method, element) = *self.index.get(at)?;
        let info = self.methods.get(method)?;
        Some(NamedMethod {
            info,
            element: (info.stride != 0).then_some(element),
        })
    }
}

impl NamedMethod {
    /// Returns the fields of a value. Some methods have several fields on the same bits, for different operations.
    pub fn fields(self, value: u32) -> impl Iterator<Item = FieldValue> + 'static {
        let bytes = value.to_le_bytes();
        self.info.fields.iter().filter_map(move |field| {
            let value = field.read(&bytes, 0)?;
            Some(FieldValue {
                name: field.name,
                element: None,
                value,
                text: field.text_of(value),
            })
        })
    }
}

impl fmt::Display for NamedMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info.name)?;
        match self.element {
            Some(element) => write!(f, "({element})"),
            None => Ok(()),
        }
    }
}

impl Method {
    /// Returns the name and fields of this method, or `None` if its class does not have it.
    #[must_use]
    pub fn named(&self) -> Option<NamedMethod> {
        ClassTable::find(self.class?)?.method(self.method)
    }
}

/// Returns the classes of a table.
fn parse(text: &'static str) -> Result<Vec<ClassTable>, TableError> {
    let table = Table::parse(text)?;
    let classes = table.classes.iter().map(|class| {
        let sections = table.sections.iter().filter(|s| s.classes.contains(&class.number));
        let mut methods: Vec<MethodInfo> = sections.flat_map(|s| s.methods.iter().cloned()).collect();
        methods.sort_by_key(|m| m.offset);
        let mut index = Vec::new();
        for (n, method) in methods.iter().enumerate() {
            let elements = 0..method.count;
            index.extend(
                elements.filter_map(|e| Some((method.offset.checked_add(method.stride.checked_mul(e)?)?, n, e))),
            );
        }
        // A single method has precedence over an element of an array.
        index.sort_by_key(|(offset, n, _)| (*offset, methods.get(*n).is_some_and(|m| m.stride != 0)));
        index.dedup_by_key(|(offset, _, _)| *offset);
        ClassTable {
            number: class.number,
            name: class.name,
            methods,
            index,
        }
    });
    Ok(classes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_tables_are_sound() {
        for table in &TABLES {
            assert_eq!(table.as_ref().err(), None);
        }
        let classes: Vec<u16> = ClassTable::all().map(ClassTable::number).collect();
        for class in [
            0xb06f, 0xc36f, 0xc46f, 0xc56f, 0xc86f, 0xc96f, 0xca6f, 0xc3c0, 0xc5c0, 0xc6c0, 0xc7c0, 0xc9c0, 0xcbc0,
            0xcdc0, 0xcec0, 0xc3b5, 0xc5b5, 0xc6b5, 0xc7b5, 0xc8b5, 0xc9b5, 0xcab5, 0xa140,
        ] {
            assert!(classes.contains(&class), "{class:x}");
            let table = ClassTable::find(class);
            assert_eq!(table.map(ClassTable::number), Some(class));
            assert!(table.is_some_and(|t| t.methods().len() > 10), "{class:x}");
        }
        assert!(ClassTable::find(0xcb97).is_none());
    }

    /// Returns the text of a method.
    fn name(class: u16, offset: u16) -> Option<String> {
        Some(ClassTable::find(class)?.method(offset)?.to_string())
    }

    #[test]
    fn methods_have_the_names_of_the_headers() {
        for (class, offset, expected) in [
            (0xc86f, 0x0, Some("SET_OBJECT")),
            (0xc86f, 0x6c, Some("SEM_EXECUTE")),
            (0xcbc0, 0x2b4, Some("SEND_PCAS_A")),
            (0xcbc0, 0x2c0, Some("SEND_SIGNALING_PCAS2_B")),
            (0xc3c0, 0x2c0, None),
            (0xcbc0, 0x320, Some("LOAD_INLINE_QMD_DATA(0)")),
            (0xcbc0, 0x320 + 95 * 4, Some("LOAD_INLINE_QMD_DATA(95)")),
            (0xc3c0, 0x320 + 64 * 4, None),
            (0xcbc0, 0x3804, Some("CALL_MME_DATA(0)")),
            (0xcbc0, 0x3808, Some("CALL_MME_MACRO(1)")),
            (0xc8b5, 0x300, Some("LAUNCH_DMA")),
            (0xa140, 0x1b4, Some("LOAD_INLINE_DATA")),
            (0xcbc0, 0x3ffc + 4, None),
        ] {
            assert_eq!(name(class, offset).as_deref(), expected, "{class:x} {offset:#x}");
        }
    }

    #[test]
    fn values_have_named_fields() {
        let fields = |class, offset, value| -> Vec<String> {
            let method = ClassTable::find(class).and_then(|t| t.method(offset));
            method
                .into_iter()
                .flat_map(|m| m.fields(value))
                .map(|f| f.to_string())
                .collect()
        };
        let execute = fields(0xc86f, 0x6c, 0x1003);
        assert_eq!(execute[..2], ["OPERATION = ACQ_CIRC_GEQ", "ACQUIRE_SWITCH_TSG = EN"]);
        let dma = fields(0xc8b5, 0x300, 0x182);
        for text in [
            "DATA_TRANSFER_TYPE = NON_PIPELINED",
            "SRC_MEMORY_LAYOUT = PITCH",
            "MULTI_LINE_ENABLE = FALSE",
        ] {
            assert!(dma.iter().any(|f| f == text), "{dma:?}");
        }
        let upload = fields(0xcbc0, 0x1b0, 0x41);
        assert!(upload.iter().any(|f| f == "SYSMEMBAR_DISABLE = TRUE"), "{upload:?}");
    }
}
