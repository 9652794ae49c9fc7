//! Exported tables, read back, and statistics agree with the output of the verbs.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_ipc::reader::FileReader;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use std::path::{Path, PathBuf};
use whole_program_tests::{root, run};

fn sample() -> PathBuf {
    root().join("sample-traces/vecadd.kine")
}

fn json(arguments: &[&str]) -> Vec<Value> {
    let file = sample();
    let ended = run([arguments[0], file.to_str().unwrap()]
        .iter()
        .chain(&arguments[1..])
        .chain(&["--json"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.json().as_array().unwrap().clone()
}

fn export(table: &str, to: &Path) -> Value {
    let file = sample();
    let ended = run([
        "export",
        file.to_str().unwrap(),
        "--table",
        table,
        "-o",
        to.to_str().unwrap(),
        "--json",
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.json()
}

fn number(v: &Value) -> Option<u64> {
    v.as_u64()
        .or_else(|| u64::from_str_radix(v.as_str()?.strip_prefix("0x")?, 16).ok())
}

#[test]
fn every_export_format_contains_every_event() {
    let dir = tempfile::tempdir().unwrap();
    let events = json(&["events"]);
    let file = |name: &str| {
        let path = dir.path().join(name);
        assert_eq!(export("events", &path)["rows"], events.len());
        std::fs::File::open(path).unwrap()
    };
    let parquet = ParquetRecordBatchReaderBuilder::try_new(file("e.parquet")).unwrap();
    let parquet: Vec<RecordBatch> = parquet.build().unwrap().map(Result::unwrap).collect();
    let arrow = FileReader::try_new(file("e.arrow"), None).unwrap();
    let arrow: Vec<RecordBatch> = arrow.map(Result::unwrap).collect();
    for batches in [parquet, arrow] {
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), events.len());
        let column = |name: &str| {
            batches
                .iter()
                .map(|b| b.column_by_name(name).unwrap())
                .collect::<Vec<_>>()
        };
        for name in ["event", "time_ns", "value"] {
            let cells = column(name);
            let cells = cells.iter().flat_map(|c| c.as_primitive::<UInt64Type>());
            assert!(cells.eq(events.iter().map(|e| number(&e[name]))), "{name}");
        }
        for name in ["thread", "offset", "width"] {
            let cells = column(name);
            let cells = cells.iter().flat_map(|c| c.as_primitive::<UInt32Type>());
            let expected = events.iter().map(|e| number(&e[name]));
            assert!(cells.map(|v| v.map(u64::from)).eq(expected), "{name}");
        }
        for name in ["kind", "space", "register", "means"] {
            let cells = column(name);
            let cells = cells.iter().flat_map(|c| c.as_string::<i32>());
            assert!(cells.eq(events.iter().map(|e| e[name].as_str())), "{name}");
        }
    }
    drop(file("e.csv"));
    let csv = std::fs::read_to_string(dir.path().join("e.csv")).unwrap();
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some("event,kind,time_ns,thread,space,offset,register,width,value,means")
    );
    for (line, event) in lines.by_ref().zip(&events) {
        let start = format!(
            "{},{},{},{},",
            event["event"],
            event["kind"].as_str().unwrap(),
            event["time_ns"],
            event["thread"]
        );
        assert!(line.starts_with(&start), "{line} {start}");
    }
    assert_eq!(csv.lines().count(), events.len() + 1);
}

#[test]
fn exported_tables_have_a_row_per_item() {
    let dir = tempfile::tempdir().unwrap();
    let file = sample();
    let info = run(["info", file.to_str().unwrap(), "--json"]).json();
    let rows = |table: &str| export(table, &dir.path().join(format!("{table}.parquet")))["rows"].clone();
    assert_eq!(rows("jobs"), info["jobs"]);
    assert_eq!(rows("pages"), info["mapped_pages"]);
    assert_eq!(rows("buffers"), info["buffers"].as_array().unwrap().len());
    assert_eq!(rows("mappings"), json(&["map"]).len());
    assert_eq!(rows("registers"), json(&["stats"]).len());
}

#[test]
fn figures_add_up_to_the_events() {
    let events = json(&["events"]);
    let count = |kind: &str| events.iter().filter(|e| e["kind"] == kind).count() as u64;
    for by in ["register", "block", "thread", "job"] {
        let rows = json(&["stats", "--by", by]);
        let sum = |key: &str| rows.iter().map(|r| r[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("reads"), sum("writes")), (count("read"), count("write")), "{by}");
        assert_eq!(sum("accesses"), count("read") + count("write"), "{by}");
    }
    for row in json(&["stats"]) {
        let accesses: Vec<&Value> = events.iter().filter(|e| e["offset"] == row["offset"]).collect();
        assert_eq!(row["accesses"], accesses.len());
        assert_eq!(row["first_event"], accesses[0]["event"]);
        assert_eq!(row["last_event"], accesses[accesses.len() - 1]["event"]);
        assert_eq!(row["name"], accesses[0]["register"]);
        let mut values: Vec<&str> = accesses.iter().map(|e| e["value"].as_str().unwrap()).collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(row["values"], values.len());
        let times: Vec<i64> = accesses.iter().map(|e| e["time_ns"].as_i64().unwrap()).collect();
        let longest = times.windows(2).map(|w| w[1] - w[0]).max();
        assert_eq!(row["gap_ns"]["max"].as_i64(), longest);
    }
}

#[test]
fn unknown_export_table_or_format_overwrites_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = sample();
    let copy = dir.path().join("x.csv");
    let line = |table: &str, to: &Path| {
        let to = to.to_str().unwrap().to_owned();
        run(["export", file.to_str().unwrap(), "--table", table, "-o", &to])
    };
    line("events", &dir.path().join("x.txt")).assert_refused("the file name does not select a format");
    let none = line("nonsense", &copy);
    assert_eq!(none.code, Some(2));
    assert!(
        none.err.contains("'nonsense' is not a table (expected events, jobs"),
        "{none:?}"
    );
    std::os::unix::fs::symlink(&file, &copy).unwrap();
    line("events", &copy).assert_refused("names the same file as the recording");
}
