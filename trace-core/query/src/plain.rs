//! Columns in Arrow types that every reader of recent years accepts. Texts are `string`, not `string_view`: polars
//! writes the latter by default, and pyarrow cannot filter, group or sort by it.

use base64::Engine as _;
use polars::prelude::{CompatLevel, DataFrame, PolarsResult, Schema, SchemaExt as _};
use polars_arrow::array::{Array, MutableUtf8Array, TryPush as _, Utf8Array};
use polars_arrow::datatypes::{ArrowDataType, ArrowSchema, ArrowSchemaRef, Field};
use polars_arrow::io::ipc::write::{FileWriter, WriteOptions, default_ipc_fields, schema_to_bytes};
use polars_arrow::record_batch::RecordBatch;
use polars_io::parquet::write::KeyValueMetadata;
use std::io::Write;
use std::sync::Arc;

/// Key of the Arrow schema in the metadata of a Parquet file.
const PARQUET_KEY: &str = "ARROW:schema";

/// Returns the schema that a table is written with.
fn schema(of: &Schema) -> ArrowSchema {
    let plain = |field: Field| match field.dtype {
        ArrowDataType::LargeUtf8 | ArrowDataType::Utf8View => Field {
            dtype: ArrowDataType::Utf8,
            ..field
        },
        _ => field,
    };
    let all = of.to_arrow(CompatLevel::oldest());
    all.iter_values().cloned().map(plain).collect()
}

/// Returns the Parquet metadata that names plain types. Without it, polars announces `string_view`.
pub(crate) fn parquet_metadata(of: &Schema) -> KeyValueMetadata {
    let schema = schema(of);
    let message = schema_to_bytes(&schema, &default_ipc_fields(schema.iter_values()), None);
    // The format of an Arrow stream: a marker, the length, the message.
    let mut bytes = vec![0xff; 4];
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&message);
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    KeyValueMetadata::from_static(vec![(PARQUET_KEY.to_owned(), text)])
}

/// An Arrow file that is being written.
pub(crate) struct ArrowFile<W: Write> {
    writer: FileWriter<W>,
    schema: ArrowSchemaRef,
}

impl<W: Write> ArrowFile<W> {
    /// Writes the head of a file for tables of this schema.
    pub(crate) fn new(of: &Schema, to: W) -> PolarsResult<Self> {
        let schema = Arc::new(schema(of));
        let writer = FileWriter::try_new(to, Arc::clone(&schema), None, WriteOptions::default())?;
        Ok(Self { writer, schema })
    }

    /// Writes the rows of a table.
    pub(crate) fn write(&mut self, table: &mut DataFrame) -> PolarsResult<()> {
        // Rows are passed on in chunks that all columns share.
        table.align_chunks();
        for batch in table.iter_chunks(CompatLevel::oldest(), false) {
            let rows = batch.len();
            let columns = batch.into_arrays().into_iter().map(column);
            let columns = columns.collect::<PolarsResult<Vec<_>>>()?;
            let batch = RecordBatch::try_new(rows, Arc::clone(&self.schema), columns)?;
            self.writer.write(&batch, None)?;
        }
        Ok(())
    }

    /// Writes the end of the file.
    pub(crate) fn finish(mut self) -> PolarsResult<()> {
        self.writer.finish()
    }
}

/// Returns a column with texts as `string`. Fails if the texts of one batch take more than 2 GiB.
fn column(array: Box<dyn Array>) -> PolarsResult<Box<dyn Array>> {
    let Some(texts) = array.as_any().downcast_ref::<Utf8Array<i64>>() else {
        return Ok(array);
    };
    let mut plain = MutableUtf8Array::<i32>::with_capacity(texts.len());
    for text in texts.iter() {
        plain.try_push(text)?;
    }
    let plain: Utf8Array<i32> = plain.into();
    Ok(plain.boxed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::Column;
    use polars_io::SerReader as _;
    use std::io::Cursor;

    #[test]
    fn texts_are_plain_and_come_back() {
        let texts = [Some("a"), None, Some(""), Some("µs, \"x\"")];
        let mut table = DataFrame::new(4, vec![Column::new("text".into(), texts)]).unwrap();
        let fields = schema(table.schema());
        assert_eq!(fields.get("text").unwrap().dtype, ArrowDataType::Utf8);
        let mut bytes = Vec::new();
        let mut file = ArrowFile::new(table.schema(), &mut bytes).unwrap();
        file.write(&mut table).unwrap();
        file.finish().unwrap();
        let back = polars_io::ipc::IpcReader::new(Cursor::new(bytes)).finish().unwrap();
        assert!(back.equals_missing(&table));
    }
}
