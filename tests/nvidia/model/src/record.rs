//! A struct of an ioctl: bytes whose fields have the names and offsets of a driver branch.

use nvidia_channel::rm::{self, ArgumentError, DeviceFile, DriverBranch, Structure, StructureField};

/// Bytes of a struct, or of an array of structs.
#[derive(Debug, Clone)]
pub struct Record {
    structure: &'static Structure,
    bytes: Vec<u8>,
}

impl Record {
    /// Reads the argument of an ioctl.
    ///
    /// # Errors
    /// If the request is unknown or the size is not that of the branch.
    pub fn argument(
        branch: DriverBranch,
        file: DeviceFile,
        request: u32,
        bytes: Vec<u8>,
    ) -> Result<Self, ArgumentError> {
        let structure = rm::decode_argument(branch, file, request, &bytes)?.structure;
        Ok(Self { structure, bytes })
    }

    /// Reads the parameters of an allocation.
    ///
    /// # Errors
    /// If the parameters of the class are unknown or the size is not that of the branch.
    pub fn allocation(branch: DriverBranch, class: u32, bytes: Vec<u8>) -> Result<Self, ArgumentError> {
        let structure = rm::decode_allocation(branch, class, &bytes)?.structure;
        Ok(Self { structure, bytes })
    }

    /// Reads the parameters of a control command.
    ///
    /// # Errors
    /// If the parameters of the command are unknown or the size is not that of the branch.
    pub fn control(branch: DriverBranch, command: u32, bytes: Vec<u8>) -> Result<Self, ArgumentError> {
        let structure = rm::decode_control(branch, command, &bytes)?.structure;
        Ok(Self { structure, bytes })
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of structs in an array.
    pub fn count(&self) -> usize {
        self.bytes.len().checked_div(self.structure.bytes).unwrap_or(0)
    }

    /// Returns the number of elements of a field: 0 for one that the branch does not have.
    pub fn len(&self, name: &str) -> usize {
        self.structure.field(name).map_or(0, |field| field.count.unwrap_or(1))
    }

    /// Returns the range of an element of a field, and the field.
    fn range(&self, name: &str, element: usize) -> Option<(std::ops::Range<usize>, &StructureField)> {
        let field = self.structure.field(name)?;
        let size = field.kind.bytes();
        let start = field.offset.checked_add(element.checked_mul(size)?)?;
        let end = start.checked_add(size)?;
        (element < field.count.unwrap_or(1) && end <= self.bytes.len()).then_some((start..end, field))
    }

    /// Returns a number. A field that the branch does not have is 0.
    pub fn get(&self, name: &str) -> u64 {
        self.element(name, 0)
    }

    /// Returns the lower 32 bits of a number: all of a handle, class, command or status.
    pub fn word(&self, name: &str) -> u32 {
        self.get(name) as u32
    }

    /// Returns a file descriptor.
    pub fn descriptor(&self, name: &str) -> i32 {
        self.word(name).cast_signed()
    }

    /// Returns an element of an array.
    pub fn element(&self, name: &str, element: usize) -> u64 {
        let range = self.range(name, element);
        let bytes = range.and_then(|(range, _)| self.bytes.get(range)).unwrap_or_default();
        bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
    }

    /// Sets a number. Does nothing for a field that the branch does not have.
    pub fn set(&mut self, name: &str, value: u64) {
        self.set_element(name, 0, value);
    }

    /// Sets an element of an array.
    pub fn set_element(&mut self, name: &str, element: usize, value: u64) {
        let range = self.range(name, element).map(|(range, _)| range);
        let bytes = range.and_then(|range| self.bytes.get_mut(range)).unwrap_or_default();
        for (byte, value) in bytes.iter_mut().zip(value.to_le_bytes()) {
            *byte = value;
        }
    }

    /// Sets the first bytes of an array of bytes.
    pub fn set_bytes(&mut self, name: &str, values: &[u8]) {
        for (element, value) in values.iter().enumerate() {
            self.set_element(name, element, u64::from(*value));
        }
    }
}

/// Returns the size of the parameters of a class in bytes, or `None` if no header has them.
pub fn allocation_bytes(branch: DriverBranch, class: u32) -> Option<usize> {
    expected_bytes(rm::decode_allocation(branch, class, &[]).err()?)
}

/// Returns the size of the parameters of a command in bytes, or `None` if no header has them.
pub fn control_bytes(branch: DriverBranch, command: u32) -> Option<usize> {
    expected_bytes(rm::decode_control(branch, command, &[]).err()?)
}

fn expected_bytes(error: ArgumentError) -> Option<usize> {
    match error {
        ArgumentError::WrongSize { expected, .. } => Some(expected),
        _ => None,
    }
}
