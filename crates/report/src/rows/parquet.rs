//! Rows as a Parquet file, in builds with the feature `parquet`: the columns of [`csv`](super::csv)
//! with their names, each of one kind, null where a value is not known.

use std::io;
use std::sync::Arc;

use ::parquet::basic::{LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;

use super::{Column, Kind, Value};

/// Maximum number of rows of a group, which are in memory until they are encoded.
const GROUP_ROWS: usize = 1 << 16;

/// A Parquet file in progress, in memory.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Value>>,
    file: SerializedFileWriter<Vec<u8>>,
}

impl Table {
    /// Begins a file with these columns.
    ///
    /// # Errors
    ///
    /// Two columns with the same name.
    pub fn new(columns: Vec<Column>) -> io::Result<Table> {
        let fields = columns.iter().map(field).collect::<Result<_, _>>().map_err(error)?;
        let schema = Type::group_type_builder("rows").with_fields(fields).build().map_err(error)?;
        let properties = Arc::new(WriterProperties::builder().build());
        let file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties);
        Ok(Table { columns, rows: Vec::new(), file: file.map_err(error)? })
    }

    /// Returns the columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Appends rows, which have a value for each column.
    ///
    /// # Errors
    ///
    /// Errors of the encoder.
    pub fn add(&mut self, rows: Vec<Vec<Value>>) -> io::Result<()> {
        self.rows.extend(rows);
        if self.rows.len() >= GROUP_ROWS { self.group().map_err(error) } else { Ok(()) }
    }

    /// Ends the file, and returns its bytes.
    ///
    /// # Errors
    ///
    /// Errors of the encoder.
    pub fn finish(mut self) -> io::Result<Vec<u8>> {
        self.group().map_err(error)?;
        self.file.into_inner().map_err(error)
    }

    /// Writes the rows in memory as a group.
    fn group(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        let mut columns = self.columns.iter().enumerate();
        while let (Some(mut out), Some((at, column))) = (group.next_column()?, columns.next()) {
            // 1 where there is a value, 0 where it is null.
            let known: Vec<i16> =
                rows.iter().map(|row| i16::from(row[at] != Value::None)).collect();
            let values = || rows.iter().map(|row| &row[at]);
            match column.kind {
                Kind::Text => {
                    let values: Vec<ByteArray> = values().filter_map(text).collect();
                    out.typed::<ByteArrayType>().write_batch(&values, Some(&known), None)?;
                }
                Kind::Whole => {
                    let values: Vec<i64> = values().filter_map(whole).collect();
                    out.typed::<Int64Type>().write_batch(&values, Some(&known), None)?;
                }
                Kind::Real => {
                    let values: Vec<f64> = values().filter_map(real).collect();
                    out.typed::<DoubleType>().write_batch(&values, Some(&known), None)?;
                }
            }
            out.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn error(why: ParquetError) -> io::Error {
    io::Error::other(why)
}

fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match column.kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Whole => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Kind::Real => (Physical::DOUBLE, None),
    };
    let field = Type::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical);
    Ok(Arc::new(field.build()?))
}

fn text(value: &Value) -> Option<ByteArray> {
    match value {
        Value::Text(text) => Some(text.as_bytes().to_vec().into()),
        _ => None,
    }
}

/// Returns the bits of an unsigned number, as the format has them.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Whole(number) => Some(number.cast_signed()),
        _ => None,
    }
}

fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Real(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod test {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;

    use super::*;
    use crate::generated;
    use crate::rows::{Rows, Source, columns, rows};

    /// Every value of a file is that of the rows, which CSV prints.
    #[test]
    fn a_file_read_back_has_every_value() {
        for which in [Rows::WorkerSeconds, Rows::Seconds, Rows::Totals] {
            let mut table = Table::new(columns(which, &[])).unwrap();
            let names: Vec<String> = table.columns().iter().map(|it| it.name.clone()).collect();
            let mut all = Vec::new();
            for result in generated::hundred() {
                let source = Source { run: "a\nb".to_owned(), step: 1, ..Source::default() };
                let rows = rows(which, table.columns(), &source, result);
                all.extend(rows.clone());
                table.add(rows).unwrap();
            }
            let bytes = bytes::Bytes::from(table.finish().unwrap());
            let reader = SerializedFileReader::new(bytes).unwrap();
            let mut count = 0;
            for (row, wanted) in reader.get_row_iter(None).unwrap().zip(&all) {
                let row = row.unwrap();
                let found: Vec<(&String, &Field)> = row.get_column_iter().collect();
                assert!(found.iter().map(|(name, _)| *name).eq(&names));
                for ((name, field), value) in found.iter().zip(wanted) {
                    let same = match (field, value) {
                        (Field::Null, Value::None) => true,
                        (Field::Str(a), Value::Text(b)) => a == b,
                        (Field::ULong(a), Value::Whole(b)) => a == b,
                        (Field::Double(a), Value::Real(b)) => a == b,
                        _ => false,
                    };
                    assert!(same, "{name}: {field:?} for {value:?}");
                }
                count += 1;
            }
            assert_eq!(count, all.len());
        }
    }

    #[test]
    fn many_rows_are_several_groups_and_none_is_a_file() {
        let row = |number| vec![Value::Whole(number)];
        let column = Column {
            name: "n".to_owned(),
            kind: Kind::Whole,
            ..columns(Rows::Totals, &[]).swap_remove(2)
        };
        let of = |count: u64| {
            let mut table = Table::new(vec![column.clone()]).unwrap();
            (0..count).for_each(|number| table.add(vec![row(number)]).unwrap());
            let bytes = bytes::Bytes::from(table.finish().unwrap());
            SerializedFileReader::new(bytes).unwrap()
        };
        let metadata = |count| of(count).metadata().clone();
        assert_eq!(metadata(GROUP_ROWS as u64 + 1).num_row_groups(), 2);
        assert_eq!(metadata(u64::from(u16::MAX)).file_metadata().num_rows(), 65535);
        assert_eq!(metadata(0).file_metadata().num_rows(), 0);
    }
}
