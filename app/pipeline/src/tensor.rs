//! Tensors: their types, how types fit, and their bytes.

use std::fmt;
use std::sync::Arc;
use trace_core::recording::ElementType;

/// Maximum number of dimensions of a tensor.
pub const MAX_DIMENSIONS: usize = 8;
/// Maximum size of a tensor, bytes.
pub const MAX_TENSOR_BYTES: u64 = 1 << 30;

/// Element type and shape of a tensor, whose size is at most [`MAX_TENSOR_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    element: ElementType,
    shape: Vec<u64>,
}

impl TensorType {
    /// Creates a type. `shape` is the length of each dimension, the slowest first.
    ///
    /// Returns `None` if there is no dimension or more than [`MAX_DIMENSIONS`], a dimension is 0, or the tensor is larger
    /// than [`MAX_TENSOR_BYTES`].
    #[must_use]
    pub fn new(element: ElementType, shape: Vec<u64>) -> Option<Self> {
        let elements = shape.iter().try_fold(1u64, |all, side| all.checked_mul(*side))?;
        let bytes = elements.checked_mul(element.bytes() as u64)?;
        let fits = (1..=MAX_DIMENSIONS).contains(&shape.len()) && (1..=MAX_TENSOR_BYTES).contains(&bytes);
        fits.then_some(Self { element, shape })
    }

    /// Creates the type of a flat list that fills `bytes` bytes.
    ///
    /// Returns `None` if `bytes` is no multiple of the element size, or the type is not valid.
    #[must_use]
    pub fn flat(element: ElementType, bytes: u64) -> Option<Self> {
        let size = element.bytes() as u64;
        bytes.is_multiple_of(size).then_some(())?;
        Self::new(element, vec![bytes / size])
    }

    /// Returns the element type.
    #[must_use]
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Returns the length of each dimension, the slowest first.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        // The constructor refuses products that overflow.
        self.shape.iter().product()
    }

    /// Returns the size, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.element.bytes() as u64)
    }

    /// Returns whether a tensor of the type `given` can be used as a tensor of this type: same elements, same number of
    /// them, and same shape. Dimensions of 1 do not matter, and a flat list fits any shape.
    #[must_use]
    pub fn accepts(&self, given: &Self) -> bool {
        let long = |t: &Self| t.shape.iter().copied().filter(|n| *n != 1).collect::<Vec<_>>();
        let (own, other) = (long(self), long(given));
        self.element == given.element
            && self.elements() == given.elements()
            && (own == other || own.len() <= 1 || other.len() <= 1)
    }

    /// Formats the shape: `8x8`.
    #[must_use]
    pub fn format_shape(&self) -> String {
        self.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
    }
}

/// Formats the type: `10 f32`, `64 f32 (8x8)`.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.elements(), self.element.name())?;
        match self.shape.len() {
            1 => Ok(()),
            _ => write!(f, " ({})", self.format_shape()),
        }
    }
}

/// Returns the element type of this name, or `None` if there is none.
#[must_use]
pub fn element_from_name(name: &str) -> Option<ElementType> {
    ElementType::ALL.into_iter().find(|element| element.name() == name)
}

/// The bytes of a tensor, little-endian elements; clones share them.
pub type TensorData = Arc<Vec<u8>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(element: ElementType, shape: &[u64]) -> TensorType {
        TensorType::new(element, shape.to_vec()).unwrap()
    }

    #[test]
    fn types_have_limits() {
        for shape in [&[][..], &[0], &[4, 0], &[1 << 40], &[u64::MAX, u64::MAX], &[1; 9]] {
            assert_eq!(TensorType::new(ElementType::F32, shape.to_vec()), None, "{shape:?}");
        }
        assert_eq!(TensorType::flat(ElementType::F32, 6), None);
        assert_eq!(TensorType::flat(ElementType::F32, 8).unwrap().shape(), [2]);
    }

    #[test]
    fn shapes_fit_without_dimensions_of_one_and_as_flat_lists() {
        let picture = tensor(ElementType::F32, &[8, 8]);
        assert!(picture.accepts(&tensor(ElementType::F32, &[1, 8, 8])));
        assert!(picture.accepts(&tensor(ElementType::F32, &[64])));
        assert!(tensor(ElementType::F32, &[64]).accepts(&picture));
        assert!(!picture.accepts(&tensor(ElementType::F32, &[4, 16])));
        assert!(!picture.accepts(&tensor(ElementType::I32, &[8, 8])));
        assert!(!picture.accepts(&tensor(ElementType::F32, &[63])));
        assert_eq!(picture.to_string(), "64 f32 (8x8)");
        assert_eq!(tensor(ElementType::U8, &[16]).to_string(), "16 u8");
    }
}
