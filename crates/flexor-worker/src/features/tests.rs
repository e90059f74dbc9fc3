use std::path::PathBuf;

use flexor_data::example::ExampleWriter;
use flexor_data::generate::census::Census;
use flexor_data::generate::clicks::Clicks;
use flexor_data::generate::digits::{self, DigitsFormat};
use flexor_data::generate::{self, TableFormat};
use flexor_data::output::Existing;
use flexor_data::recordio::{Compressor, Writer, WriterOptions};
use flexor_data::{Dataset, Options};

use super::*;
use crate::trainer::TrainingError;

fn read(schema: &str, records: &[&str]) -> Result<Batch, BadRecord> {
    let mut features = Features::new(&schema.parse().unwrap());
    let mut batch = Batch::new(features.inputs());
    for (number, record) in records.iter().enumerate() {
        features.add(100 + number as u64, record.as_bytes(), &mut batch)?;
    }
    Ok(batch)
}

#[test]
fn a_click_becomes_scaled_counts_and_keys_of_its_fields() {
    let batch =
        read("clicks:numbers=2,fields=2,scale=log", &["1,0,1.718281828,7,7", "0,,-1.718281828,,\"a,b\""]).unwrap();
    assert_eq!(batch.labels(), [1, 0]);
    for (found, wanted) in batch.numbers().iter().zip([0.0, 1.0, 0.0, -1.0]) {
        assert!((found - wanted).abs() < 1e-6, "{found} is not {wanted}");
    }
    assert_eq!(batch.keys(), [key(0, b"7"), key(1, b"7"), key(0, b""), key(1, b"a,b")]);
}

#[test]
fn a_census_record_is_parsed_with_or_without_blanks() {
    let line = ">50K, 52, Self-emp-inc, 287927, HS-grad, 9, Married-civ-spouse, Exec-managerial, Wife, White, Female, \
                15024, 0, 40, United-States";
    let batch = read("census", &[line, &line.replace(' ', "").replace(">50K", "0")]).unwrap();
    assert_eq!(batch.labels(), [1, 0]);
    assert_eq!((batch.inputs().fields, batch.inputs().numbers), (8, 5));
    assert_eq!((batch.numbers_of(0)[0], batch.keys_of(0)[6]), (1.0, key(6, b"Female")));
    assert_eq!((batch.numbers_of(0), batch.keys_of(0)), (batch.numbers_of(1), batch.keys_of(1)));
}

#[test]
fn a_bad_record_is_named_with_its_column() {
    let error = |records: &[&str]| read("clicks:numbers=1,fields=1", records).unwrap_err().to_string();
    assert_eq!(
        error(&["1,2,a", "1,many,a"]),
        "record 101: column n0 is \"many\", which is no finite number; correct it, or leave it empty if it is unknown"
    );
    assert_eq!(error(&["2,1,a"]), "record 100: column label is \"2\", which is no label; write one of 0, 1");
    let uneven = "columns, and a record has 3: label, n0, c0; correct it, or choose the schema that fits the file";
    assert_eq!(error(&["1,2"]), format!("record 100: it has 2 {uneven}"));
    assert_eq!(error(&["1,2,a,b,c"]), format!("record 100: it has 5 {uneven}"));
    assert!(error(&["1,inf,a"]).contains("column n0"));
    assert!(error(&[&format!("1,{},a", "x".repeat(500))]).len() < 250);
}

#[test]
fn a_bad_record_leaves_the_batch_unchanged() {
    let mut features = Features::new(&Schema::Clicks { numbers: 1, fields: 1, scale: Scale::Plain });
    let mut batch = Batch::new(features.inputs());
    features.add(0, b"1,2,a", &mut batch).unwrap();
    features.add(1, b"1,x,a", &mut batch).unwrap_err();
    features.add(2, b"0,3,b", &mut batch).unwrap();
    assert_eq!((batch.labels(), batch.numbers().len(), batch.keys().len()), (&[1, 0][..], 2, 2));
}

#[test]
fn a_schema_reads_back_as_it_is_written() {
    for text in ["clicks:numbers=0,fields=26", "clicks:numbers=13,fields=26,scale=log", "census", "digits"] {
        assert_eq!(text.parse::<Schema>().unwrap().to_string(), text);
    }
    assert_eq!("clicks".parse(), Ok(Schema::Clicks { numbers: 4, fields: 10, scale: Scale::Plain }));
    let error = "faces".parse::<Schema>().unwrap_err().to_string();
    assert_eq!(error, "there is no schema \"faces\"; choose one of clicks, census, digits");
}

fn read_digit(record: &[u8]) -> Result<Batch, BadRecord> {
    let mut features = Features::new(&Schema::Digits);
    let mut batch = Batch::new(features.inputs());
    features.add(3, record, &mut batch).map(|()| batch)
}

/// An image as an example.
fn example(pixels: &[u8], label: i64) -> Vec<u8> {
    let mut writer = ExampleWriter::new();
    writer.floats("image", pixels.iter().map(|pixel| f32::from(*pixel))).integers("label", &[label]);
    writer.finish().to_vec()
}

#[test]
fn an_image_is_the_same_from_either_kind_of_file() {
    let pixels: Vec<u8> = (0..784).map(|at| (at % 256) as u8).collect();
    let of_idx = read_digit(&[&[7], &pixels[..]].concat()).unwrap();
    let of_example = read_digit(&example(&pixels, 7)).unwrap();
    assert_eq!((of_idx.labels(), of_idx.numbers()), (of_example.labels(), of_example.numbers()));
    assert_eq!((of_idx.labels(), of_idx.numbers()[255]), (&[7][..], 1.0));
}

#[test]
fn a_record_that_is_no_digit_is_refused_with_advice() {
    let error = |record: &[u8]| read_digit(record).unwrap_err().to_string();
    let wanted = "give images of 28 × 28 pixels, as IDX files or as tf.train.Example with `image` and `label`";
    assert_eq!(
        error(&example(&[1; 784], 12)),
        "record 3: column label is \"12\", which is no label; write a digit from 0 to 9"
    );
    assert_eq!(error(&example(&[1; 100], 1)), format!("record 3: `image` is not 784 finite floats; {wanted}"));
    assert_eq!(error(b""), format!("record 3: the example has no feature `image`; {wanted}"));
    assert!(error(&[0xFF; 12]).starts_with("record 3: not a tf.train.Example"));
}

/// `pickle.dumps(([0.5], 7), protocol)` for the protocols 0, 2 and 4.
const PICKLES: [&[u8]; 3] = [
    b"((lp0\nF0.5\naI7\ntp1\n.",
    b"\x80\x02]q\x00G?\xe0\x00\x00\x00\x00\x00\x00aK\x07\x86q\x01.",
    b"\x80\x04\x95\x13\x00\x00\x00\x00\x00\x00\x00]\x94G?\xe0\x00\x00\x00\x00\x00\x00aK\x07\x86\x94.",
];

#[test]
fn a_pickle_is_named_in_one_line() {
    let error = "record 3: it is a Python pickle, as PaddlePaddle's datasets have them, which only Python can read; write \
                 tf.train.Example instead: flexor data convert makes it of IDX files and of tables with a header";
    for pickle in PICKLES {
        assert_eq!(read_digit(pickle).unwrap_err().to_string(), error);
    }
    let of_pickles = seen_in(None, |plan, options| {
        let mut writer = Writer::new(std::fs::File::create(&plan.out).unwrap(), options);
        writer.write(PICKLES[1]).unwrap();
        writer.finish().unwrap();
    });
    let error = of_pickles.unwrap_err();
    assert!(error.contains("the records of made.recordio are a Python pickle") && !error.contains('\n'), "{error}");
}

#[test]
fn a_schema_is_detected_from_columns() {
    let of = |columns: &str| Schema::of_columns(&columns.split(',').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(of("label,n0,n1,c0"), Some(Schema::Clicks { numbers: 2, fields: 1, scale: Scale::Plain }));
    assert_eq!(of("label,c0,n0"), None);
    assert_eq!(of("label,clicks,name"), None);
    assert_eq!(of(CENSUS), Some(Schema::Census));
}

const CENSUS: &str = "label,age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,sex,\
                      capital_gain,capital_loss,hours_per_week,native_country";

#[test]
fn a_click_is_the_same_from_either_kind_of_file() {
    let schema = Schema::Clicks { numbers: 1, fields: 2, scale: Scale::Plain };
    let mut features = Features::new(&schema);
    let mut batch = Batch::new(features.inputs());
    let mut writer = ExampleWriter::new();
    writer.bytes("c1", b"red").integers("label", &[1]).floats("n0", [0.25].into_iter()).integers("c0", &[17]);
    features.add(0, writer.finish(), &mut batch).unwrap();
    features.add(1, b"1,0.25,17,red", &mut batch).unwrap();
    assert_eq!(batch.labels(), [1, 1]);
    assert_eq!(batch.numbers_of(0), batch.numbers_of(1));
    assert_eq!(batch.keys_of(0), batch.keys_of(1));

    let mut writer = ExampleWriter::new();
    let error = features.add(2, writer.integers("label", &[1, 0]).finish(), &mut batch).unwrap_err().to_string();
    assert!(error.starts_with("record 2: it has no feature `label` of one value; give lines of CSV"), "{error}");
}

#[test]
fn columns_may_have_other_names_but_not_another_order() {
    let columns = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let schema = Schema::Clicks { numbers: 1, fields: 2, scale: Scale::Plain };
    let of = |text: &str| Schema::of_data(Some(&schema), Some(&columns(text)), "clicks.csv");
    assert_eq!(of("label,n0,c0,c1"), Ok(schema.clone()));
    assert_eq!(of("clicked,price,shop,city"), Ok(schema.clone()));
    assert_eq!(Schema::of_data(Some(&schema), None, "clicks.csv"), Ok(schema.clone()), "no header");
    assert_eq!(of("1,0.5,a,b"), Err(SchemaError::HeaderIsRecord("clicks.csv".to_owned())), "a record would be lost");
    let message = of("label,c0,n0,c1").unwrap_err().to_string();
    assert!(message.starts_with(
        "clicks.csv has column c0 at position 2, and schema clicks:numbers=1,fields=2 has it at position 3"
    ));
    let unknown = Schema::of_data(None, Some(&columns("clicked,price")), "mine.csv").unwrap_err().to_string();
    assert!(unknown.contains("mine.csv") && unknown.contains("clicks:numbers=13,fields=26"), "{unknown}");
}

#[test]
fn the_columns_of_a_census_have_to_be_those_of_a_census() {
    let columns = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let of = |text: &str| Schema::of_data(Some(&Schema::Census), Some(&columns(text)), "people.csv");
    assert_eq!(of(CENSUS), Ok(Schema::Census));
    assert_eq!(of(&CENSUS.replace("label", "income").replace('_', "-").replace("age", "Age")), Ok(Schema::Census));
    let person = "0,39,State-gov,77516,Bachelors,13,Never-married,Adm-clerical,Not-in-family,White,Male,2174,0,40,Cuba";
    assert_eq!(of(person), Err(SchemaError::HeaderIsRecord("people.csv".to_owned())), "a record would be lost");
    let message = of("label,n0,n1,n2,n3,c0,c1,c2,c3,c4,c5,c6,c7,c8,c9").unwrap_err().to_string();
    let start = "people.csv has column n0 at position 2, where schema census has age; ";
    assert_eq!(message, format!("{start}its columns are those of --schema clicks:numbers=4,fields=10"));
    let message = of(&CENSUS.replace("race", "shoe_size")).unwrap_err().to_string();
    assert!(
        message.ends_with(
            "where schema census has race; choose the schema that fits the file, or name its columns as the schema does"
        ),
        "{message}"
    );
}

/// The schema detected in RecordIO of twenty generated records, perhaps with a flaw.
fn seen_in(flaw: Option<usize>, make: impl FnOnce(&generate::GenerationPlan, WriterOptions)) -> Result<Schema, String> {
    let folder = tempfile::tempdir().unwrap();
    let out: PathBuf = folder.path().join("made.recordio");
    let plan = generate::GenerationPlan {
        out: out.clone(),
        records: 20,
        test_records: 0,
        records_per_file: None,
        existing: Existing::Keep,
    };
    make(&plan, WriterOptions { compressor: Compressor::None, chunk_limit: 1 << 20 });
    if let Some(at) = flaw {
        let mut bytes = std::fs::read(&out).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&out, bytes).unwrap();
    }
    let dataset = Dataset::open(&[out], &Options::default()).unwrap();
    Schema::of_dataset(None, &dataset, "made.recordio").map_err(|error: TrainingError| error.to_string())
}

#[test]
fn a_schema_is_detected_from_features() {
    let table = |table: &dyn generate::Table, flaw| {
        seen_in(flaw, |plan, options| {
            generate::write_table(table, plan, TableFormat::RecordIo(options), &mut |_| {}).unwrap();
        })
    };
    let clicks = Clicks::new(7);
    assert_eq!(table(&clicks, None), Ok(Schema::Clicks { numbers: 4, fields: 10, scale: Scale::Plain }));
    assert_eq!(table(&Census::new(7), None), Ok(Schema::Census));
    let images = |plan: &generate::GenerationPlan, options| {
        digits::write(1, plan, DigitsFormat::RecordIo(options), &mut |_| {}).unwrap();
    };
    assert_eq!(seen_in(None, images), Ok(Schema::Digits));
    let damaged = table(&clicks, Some(100)).unwrap_err();
    assert!(damaged.contains("made.recordio: damaged at byte 0, records 0 to 19: checksum mismatch"), "{damaged}");
}
