//! Batches of rows: named columns of Arrow types that every reader accepts.

use crate::error::TableError;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{Field, Schema};
use std::borrow::Cow;
use std::sync::Arc;

/// Number of rows of a batch: few enough to fit in memory next to the recording.
pub(crate) const BATCH: usize = 1 << 16;

/// Receives a batch of rows.
pub(crate) type BatchSink<'a> = dyn FnMut(RecordBatch) -> Result<(), TableError> + 'a;

/// A named column.
pub(crate) struct Column {
    name: &'static str,
    values: ArrayRef,
}

/// Values that become a column. Texts become `string`, because older readers do not filter or sort `string_view`.
pub(crate) trait ColumnValues {
    /// Returns the values as an Arrow array.
    ///
    /// # Errors
    /// [`TableError::TextTooLong`] if the texts together take more than 2 GiB, the limit of `string`.
    fn into_array(self) -> Result<ArrayRef, TableError>;
}

macro_rules! numbers {
    ($($value:ty => $array:ident),+) => {$(
        impl ColumnValues for Vec<$value> {
            fn into_array(self) -> Result<ArrayRef, TableError> {
                Ok(Arc::new($array::from(self)))
            }
        }

        impl ColumnValues for Vec<Option<$value>> {
            fn into_array(self) -> Result<ArrayRef, TableError> {
                Ok(Arc::new($array::from(self)))
            }
        }
    )+};
}

numbers!(u32 => UInt32Array, u64 => UInt64Array, i64 => Int64Array, f64 => Float64Array, bool => BooleanArray);

macro_rules! texts {
    ($($text:ty),+) => {$(
        impl ColumnValues for Vec<$text> {
            fn into_array(self) -> Result<ArrayRef, TableError> {
                text_array(self.iter().map(|text| Some(&**text)))
            }
        }

        impl ColumnValues for Vec<Option<$text>> {
            fn into_array(self) -> Result<ArrayRef, TableError> {
                text_array(self.iter().map(Option::as_deref))
            }
        }
    )+};
}

texts!(String, Cow<'_, str>);

impl ColumnValues for Vec<&str> {
    fn into_array(self) -> Result<ArrayRef, TableError> {
        text_array(self.iter().copied().map(Some))
    }
}

impl ColumnValues for Vec<Option<&str>> {
    fn into_array(self) -> Result<ArrayRef, TableError> {
        text_array(self.iter().copied())
    }
}

fn text_array<'a>(texts: impl Iterator<Item = Option<&'a str>> + Clone) -> Result<ArrayRef, TableError> {
    // The offsets of `string` have 31 bits; the array panics beyond.
    let bytes: u64 = texts.clone().flatten().map(|t| t.len() as u64).sum();
    if i32::try_from(bytes).is_err() {
        return Err(TableError::TextTooLong { bytes });
    }
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// Returns a column.
///
/// # Errors
/// Same as [`ColumnValues::into_array`].
pub(crate) fn column(name: &'static str, values: impl ColumnValues) -> Result<Column, TableError> {
    Ok(Column {
        name,
        values: values.into_array()?,
    })
}

/// Returns the rows of columns of equal length. Every column may have empty cells, so that all batches of a table have
/// the same schema.
///
/// # Errors
/// When a column could not be built, or the columns differ in length.
pub(crate) fn batch(columns: Vec<Result<Column, TableError>>) -> Result<RecordBatch, TableError> {
    let columns = columns.into_iter().collect::<Result<Vec<_>, _>>()?;
    let fields = columns
        .iter()
        .map(|c| Field::new(c.name, c.values.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let values = columns.into_iter().map(|c| c.values).collect();
    Ok(RecordBatch::try_new(schema, values)?)
}
