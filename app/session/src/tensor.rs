//! Buffer elements as a tensor: shape, strides, and slices of two axes.

/// Maximum number of dimensions.
pub const MAX_AXES: usize = 16;

/// The shape and strides of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Length of each axis, in order.
    pub shape: Vec<u64>,
    /// Stride of each axis, elements.
    pub strides: Vec<u64>,
}

/// The element order of a tensor without explicit strides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ElementOrder {
    /// The last axis varies fastest, as in C.
    #[default]
    Rows,
    /// The first axis varies fastest, as in Fortran.
    Columns,
}

impl ElementOrder {
    /// Returns the display name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Rows => "row major",
            Self::Columns => "column major",
        }
    }

    /// Returns the strides of a dense tensor, or `None` if they overflow.
    #[must_use]
    pub fn strides(self, shape: &[u64]) -> Option<Vec<u64>> {
        let mut out = vec![1; shape.len()];
        let mut next = 1u64;
        let mut each = |at: usize| {
            if let (Some(to), Some(n)) = (out.get_mut(at), shape.get(at)) {
                *to = next;
                next = next.checked_mul((*n).max(1))?;
            }
            Some(())
        };
        match self {
            Self::Rows => (0..shape.len()).rev().try_for_each(&mut each)?,
            Self::Columns => (0..shape.len()).try_for_each(&mut each)?,
        }
        Some(out)
    }
}

/// Parses numbers with separators: `2×3×4`, `2, 3, 4`.
fn numbers(text: &str) -> Result<Vec<u64>, String> {
    let parts = text.split(['×', 'x', ',', ' ', '[', ']', '(', ')']);
    let list: Result<Vec<u64>, String> = parts
        .filter(|p| !p.is_empty())
        .map(|p| p.parse().map_err(|_| format!("{p} is not a number")))
        .collect();
    let list = list?;
    match list.len() {
        0 => Err("write the lengths of its axes: 2×3×4".to_owned()),
        n if n > MAX_AXES => Err(format!("{n} axes; {MAX_AXES} are possible")),
        _ => Ok(list),
    }
}

impl Tensor {
    /// Parses a tensor: axis lengths, and strides in elements. Empty strides follow from `order`. `elements` is the
    /// number of elements in the buffer.
    ///
    /// # Errors
    /// A description of the error for the user.
    pub fn read(shape: &str, strides: &str, order: ElementOrder, elements: u64) -> Result<Self, String> {
        let shape = numbers(shape)?;
        if shape.contains(&0) {
            return Err("an axis has no elements".to_owned());
        }
        let strides = match strides.trim() {
            "" => order
                .strides(&shape)
                .ok_or("it has more elements than can be counted")?,
            text => numbers(text)?,
        };
        if strides.len() != shape.len() {
            return Err(format!("{} axes and {} strides", shape.len(), strides.len()));
        }
        let made = Self { shape, strides };
        match made.last() {
            Some(last) if last < elements => Ok(made),
            Some(last) => Err(format!("it reaches to element {last}; the buffer has {elements}")),
            None => Err("it reaches further than can be counted".to_owned()),
        }
    }

    /// Returns the index of the last element in memory.
    fn last(&self) -> Option<u64> {
        let mut pairs = self.shape.iter().zip(&self.strides);
        pairs.try_fold(0u64, |at, (n, s)| at.checked_add((n - 1).checked_mul(*s)?))
    }

    /// Returns the element at an index with one entry per axis, or `None` if it is out of range.
    #[must_use]
    pub fn element(&self, index: &[u64]) -> Option<u64> {
        if index.len() != self.shape.len() {
            return None;
        }
        let mut at = 0u64;
        for ((i, n), s) in index.iter().zip(&self.shape).zip(&self.strides) {
            if i >= n {
                return None;
            }
            at = at.checked_add(i.checked_mul(*s)?)?;
        }
        Some(at)
    }
}

/// A slice of a tensor: the vertical axis, the horizontal axis, and indices on the other axes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The vertical axis; `None` for a single row.
    pub down: Option<usize>,
    /// The horizontal axis.
    pub across: usize,
    /// One index per axis; those of the two shown axes are ignored.
    pub at: Vec<u64>,
}

impl Slice {
    /// Returns the slice of the last two axes, at index 0 of the others.
    #[must_use]
    pub fn first(tensor: &Tensor) -> Self {
        let n = tensor.shape.len();
        Self {
            down: n.checked_sub(2),
            across: n.saturating_sub(1),
            at: vec![0; n],
        }
    }

    /// Clamps the slice to a tensor.
    pub fn fit(&mut self, tensor: &Tensor) {
        let n = tensor.shape.len();
        if self.at.len() != n || self.across >= n || self.down.is_some_and(|d| d >= n || d == self.across) {
            *self = Self::first(tensor);
        }
        for (i, n) in self.at.iter_mut().zip(&tensor.shape) {
            *i = (*i).min(n - 1);
        }
    }

    /// Returns the number of rows and columns.
    #[must_use]
    pub fn size(&self, tensor: &Tensor) -> (u64, u64) {
        let length = |axis: usize| tensor.shape.get(axis).copied().unwrap_or(1);
        (self.down.map_or(1, length), length(self.across))
    }

    /// Returns the index of a cell, with one entry per axis.
    #[must_use]
    pub fn index(&self, row: u64, column: u64) -> Vec<u64> {
        let mut at = self.at.clone();
        if let Some(to) = self.down.and_then(|d| at.get_mut(d)) {
            *to = row;
        }
        if let Some(to) = at.get_mut(self.across) {
            *to = column;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_elements_are_addressed_by_order_or_strides() {
        let tensor = |order| Tensor::read("2×3×4", "", order, 24).unwrap();
        assert_eq!(tensor(ElementOrder::Rows).strides, [12, 4, 1]);
        assert_eq!(tensor(ElementOrder::Columns).strides, [1, 2, 6]);
        assert_eq!(tensor(ElementOrder::Rows).element(&[1, 2, 3]), Some(23));
        assert_eq!(tensor(ElementOrder::Columns).element(&[1, 2, 3]), Some(23));
        assert_eq!(tensor(ElementOrder::Rows).element(&[1, 0, 2]), Some(14));
        assert_eq!(tensor(ElementOrder::Columns).element(&[1, 0, 2]), Some(13));
        assert_eq!(tensor(ElementOrder::Rows).element(&[2, 0, 0]), None);
        // The first tensor uses 4 elements of every other row of 8. In the second tensor, all indices share one
        // element.
        let padded = Tensor::read("3, 4", "16, 1", ElementOrder::Rows, 36).unwrap();
        assert_eq!(padded.element(&[2, 3]), Some(35));
        assert_eq!(
            Tensor::read("9 9", "0 0", ElementOrder::Rows, 1)
                .unwrap()
                .element(&[8, 8]),
            Some(0)
        );
    }

    #[test]
    fn every_element_of_a_tensor_has_one_index() {
        for order in [ElementOrder::Rows, ElementOrder::Columns] {
            let t = Tensor::read("2 3 4 5", "", order, 120).unwrap();
            let mut seen = vec![0; 120];
            for a in 0..2 {
                for b in 0..3 {
                    for c in 0..4 {
                        for d in 0..5 {
                            seen[t.element(&[a, b, c, d]).unwrap() as usize] += 1;
                        }
                    }
                }
            }
            assert!(seen.iter().all(|n| *n == 1));
        }
    }

    #[test]
    fn unfit_tensor_shapes_are_errors() {
        let wrong = |shape: &str, strides: &str| Tensor::read(shape, strides, ElementOrder::Rows, 24).unwrap_err();
        assert!(wrong("5×5", "").contains("reaches to element 24"));
        assert!(wrong("2×3", "1").contains("2 axes and 1 strides"));
        assert!(wrong("2×y", "").contains("not a number") && wrong("", "").contains("write the lengths"));
        assert!(wrong("0×3", "").contains("no elements"));
        assert!(wrong("18446744073709551615 18446744073709551615", "").contains("can be counted"));
        assert!(wrong(&"2 ".repeat(17), "").contains("17 axes"));
    }

    #[test]
    fn tensor_slice_has_two_axes_and_fixed_indices() {
        let t = Tensor::read("2 3 4", "", ElementOrder::Rows, 24).unwrap();
        let mut s = Slice::first(&t);
        assert_eq!((s.size(&t), s.index(2, 3)), ((3, 4), vec![0, 2, 3]));
        s.at[0] = 1;
        assert_eq!(t.element(&s.index(0, 0)), Some(12));
        (s.down, s.across) = (Some(2), 0);
        assert_eq!((s.size(&t), s.index(3, 1)), ((4, 2), vec![1, 0, 3]));
        let flat = Tensor::read("24", "", ElementOrder::Rows, 24).unwrap();
        s.fit(&flat);
        assert_eq!((s.size(&flat), s.down), ((1, 24), None));
    }
}
