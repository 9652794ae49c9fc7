//! Tables as Parquet, Arrow IPC and CSV files.

use polars::prelude::{DataFrame, PolarsError};
use polars_io::SerWriter;
use polars_io::ipc::IpcWriter;
use polars_io::parquet::write::ParquetWriter;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A columnar or text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC file.
    Ipc,
    /// Comma-separated text with a header line.
    Csv,
}

impl Format {
    /// The format that a file's name asks for: `.parquet`, `.arrow`, `.ipc`, `.feather` or `.csv`.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "parquet" => Some(Self::Parquet),
            "arrow" | "ipc" | "feather" => Some(Self::Ipc),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// Why a table could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file could not be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// polars refused.
    #[error("{}: {source}", path.display())]
    Polars {
        /// The file.
        path: PathBuf,
        /// What polars said.
        source: PolarsError,
    },
}

/// Writes a table to a file.
///
/// # Errors
/// When the file cannot be written, or the format cannot hold the table.
pub fn export(table: &mut DataFrame, path: &Path, format: Format) -> Result<(), ExportError> {
    let io = |source| ExportError::Io {
        path: path.to_owned(),
        source,
    };
    let polars = |source| ExportError::Polars {
        path: path.to_owned(),
        source,
    };
    let mut file = BufWriter::new(File::create(path).map_err(io)?);
    match format {
        Format::Parquet => ParquetWriter::new(&mut file)
            .finish(table)
            .map(|_| ())
            .map_err(polars)?,
        Format::Ipc => IpcWriter::new(&mut file).finish(table).map_err(polars)?,
        Format::Csv => csv(table, &mut file).map_err(|e| match e {
            CsvError::Io(e) => io(e),
            CsvError::Polars(e) => polars(e),
        })?,
    }
    file.flush().map_err(io)
}

enum CsvError {
    Io(io::Error),
    Polars(PolarsError),
}

fn csv(table: &DataFrame, out: &mut impl Write) -> Result<(), CsvError> {
    let quoted = |s: &str| {
        if s.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", s.replace('"', "\"\""))
        } else {
            s.to_owned()
        }
    };
    let names: Vec<String> = table.get_column_names().iter().map(|n| quoted(n.as_str())).collect();
    writeln!(out, "{}", names.join(",")).map_err(CsvError::Io)?;
    for row in 0..table.height() {
        for (i, column) in table.columns().iter().enumerate() {
            let value = column.get(row).map_err(CsvError::Polars)?;
            let comma = if i == 0 { "" } else { "," };
            write!(out, "{comma}{}", quoted(&value.str_value())).map_err(CsvError::Io)?;
        }
        writeln!(out).map_err(CsvError::Io)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::Column;
    use polars_io::SerReader;

    fn table() -> DataFrame {
        let a = Column::new("a".into(), vec![1u64, 2]);
        let b = Column::new("b".into(), vec!["x, y", "z"]);
        DataFrame::new(2, vec![a, b]).unwrap()
    }

    #[test]
    fn tables_come_back_from_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["t.parquet", "t.arrow", "t.csv"] {
            export(&mut table(), &path(name), Format::of(Path::new(name)).unwrap()).unwrap();
        }
        let parquet = polars_io::parquet::read::ParquetReader::new(File::open(path("t.parquet")).unwrap());
        assert!(parquet.finish().unwrap().equals(&table()));
        let ipc = polars_io::ipc::IpcReader::new(File::open(path("t.arrow")).unwrap());
        assert!(ipc.finish().unwrap().equals(&table()));
        assert_eq!(
            std::fs::read_to_string(path("t.csv")).unwrap(),
            "a,b\n1,\"x, y\"\n2,z\n"
        );
        assert_eq!(Format::of(Path::new("t.txt")), None);
        assert!(matches!(
            export(&mut table(), &path("no/t.csv"), Format::Csv),
            Err(ExportError::Io { .. })
        ));
    }
}
