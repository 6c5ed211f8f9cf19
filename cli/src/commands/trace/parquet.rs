//! Writes a trace as one Parquet table, with a row for each segment and without compression. There
//! is no reader.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use simulator::trace::{Note, Segment, Trace};

/// The columns, in the order of the file. Times are milliseconds since 1970, in UTC.
const SCHEMA: &str = "
message availability {
    required binary host (STRING);
    required int64 start (TIMESTAMP(MILLIS,true));
    required int64 end (TIMESTAMP(MILLIS,true));
    required boolean host_available;
    required float cpu_fraction;
    optional boolean owner_active;
    optional binary reason (STRING);
}";
/// The approximate number of rows in a group.
const GROUP: usize = 500_000;

/// The rows, column by column.
#[derive(Default)]
struct Columns {
    host: Vec<ByteArray>,
    start: Vec<i64>,
    end: Vec<i64>,
    available: Vec<bool>,
    cpu: Vec<f32>,
    /// The values that are present, and for each row whether one is (1) or not (0).
    owner: (Vec<bool>, Vec<i16>),
    reason: (Vec<ByteArray>, Vec<i16>),
}

/// Writes the trace. Clock rates are lost, times are rounded to milliseconds, and parts of the
/// processor to 32-bit numbers.
pub(super) fn write(trace: &Trace, path: &Path) -> Result<(), ParquetError> {
    let mut properties = WriterProperties::builder().set_created_by("deskgrid".to_owned());
    // A dictionary is of no use for times, which hardly ever repeat.
    for column in ["start", "end"].map(ColumnPath::from) {
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }

    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer =
        SerializedFileWriter::new(File::create(path)?, schema, Arc::new(properties.build()))?;

    let mut rows = Columns::default();
    for host in &trace.hosts {
        let name = ByteArray::from(host.name.as_str());
        for (segment, note) in host.noted() {
            rows.add(&name, trace.origin_s, &segment, &note);
            if rows.start.len() >= GROUP {
                rows.write(writer.next_row_group()?)?;
                rows = Columns::default();
            }
        }
    }

    if !rows.start.is_empty() {
        rows.write(writer.next_row_group()?)?;
    }

    writer.close().map(drop)
}

impl Columns {
    fn add(&mut self, host: &ByteArray, origin_s: i64, segment: &Segment, note: &Note) {
        let millis = |s: f64| origin_s * 1_000 + (s * 1_000.0).round() as i64;
        self.host.push(host.clone());
        self.start.push(millis(segment.start_s));
        self.end.push(millis(segment.end_s));
        self.available.push(segment.up);
        self.cpu.push(segment.cpu as f32);
        self.owner.1.push(i16::from(note.owner_active.is_some()));
        self.owner.0.extend(note.owner_active);
        self.reason.1.push(i16::from(note.reason.is_some()));
        self.reason
            .0
            .extend(note.reason.as_deref().map(ByteArray::from));
    }

    fn write(&self, mut group: SerializedRowGroupWriter<'_, File>) -> Result<(), ParquetError> {
        column::<ByteArrayType>(&mut group, &self.host, None)?;
        column::<Int64Type>(&mut group, &self.start, None)?;
        column::<Int64Type>(&mut group, &self.end, None)?;
        column::<BoolType>(&mut group, &self.available, None)?;
        column::<FloatType>(&mut group, &self.cpu, None)?;
        column::<BoolType>(&mut group, &self.owner.0, Some(&self.owner.1))?;
        column::<ByteArrayType>(&mut group, &self.reason.0, Some(&self.reason.1))?;
        group.close().map(drop)
    }
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    there: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("a column is missing in the schema".to_owned());
    let mut writer = group.next_column()?.ok_or_else(missing)?;
    writer.typed::<T>().write_batch(values, there, None)?;
    writer.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use simulator::trace::TracedHost;

    #[test]
    fn every_segment_is_a_row_with_all_that_is_known_of_it() {
        let segment = |start_s, end_s, up, cpu| Segment {
            start_s,
            end_s,
            up,
            cpu,
        };

        let mut pc = TracedHost::new(
            "pc",
            1_500.0,
            vec![
                segment(0.0, 10.5, true, 0.25),
                segment(10.5, 20.0, true, 0.0),
            ],
        );
        pc.notes = vec![
            Note {
                owner_active: Some(false),
                reason: None,
            },
            Note {
                owner_active: None,
                reason: Some("on-battery".into()),
            },
        ];

        let other = TracedHost::new("ä", 1_500.0, vec![segment(1.0, 2.0, false, 0.0)]);
        let trace = Trace {
            origin_s: 1_700_000_000,
            hosts: vec![pc, other],
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        write(&trace, &path).unwrap();

        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert!(
            reader
                .metadata()
                .row_group(0)
                .column(0)
                .dictionary_page_offset()
                .is_some(),
            "hosts are numbers in a dictionary"
        );

        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let found: Vec<_> = rows
            .iter()
            .map(|row| {
                let times = (
                    row.get_timestamp_millis(1).unwrap(),
                    row.get_timestamp_millis(2).unwrap(),
                );
                let up = row.get_bool(3).unwrap();
                let cpu = row.get_float(4).unwrap();
                let reason = row.get_string(6).ok().cloned();

                (
                    row.get_string(0).unwrap().clone(),
                    times,
                    up,
                    cpu,
                    row.get_bool(5).ok(),
                    reason,
                )
            })
            .collect();

        let at = |ms: i64| 1_700_000_000_000 + ms;
        let battery = Some("on-battery".to_owned());
        assert_eq!(
            found,
            [
                (
                    "pc".to_owned(),
                    (at(0), at(10_500)),
                    true,
                    0.25,
                    Some(false),
                    None
                ),
                (
                    "pc".to_owned(),
                    (at(10_500), at(20_000)),
                    true,
                    0.0,
                    None,
                    battery
                ),
                (
                    "ä".to_owned(),
                    (at(1_000), at(2_000)),
                    false,
                    0.0,
                    None,
                    None
                ),
            ]
        );
    }
}
