//! What a record means: chosen with text such as `clicks:numbers=4,fields=10`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use flexor_data::{Dataset, Format, example};
use thiserror::Error;

use super::columns::Columns;
use crate::ReadError;
use crate::described::{Described, DescriptionError, whole};

/// What records are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schema {
    /// `clicks`: lines of CSV with the columns `label` (0 or 1), numbers `n0`, `n1`, … and categorical fields `c0`,
    /// `c1`, …
    Clicks {
        /// Numbers in a record.
        numbers: usize,
        /// Categorical fields in a record.
        fields: usize,
        /// How numbers are scaled.
        scale: Scale,
    },
    /// `census`: lines of CSV with `label` and then the columns of the census of 1994 that UCI calls *adult*; the label
    /// is whether somebody earns more than 50,000 dollars (1 or `>50K`).
    Census,
    /// `digits`: images of 28 × 28 grey pixels and what digit they show; pixels become 0 to 1.
    Digits,
}

/// How the numbers of a click become those that a model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// `plain`: as they are.
    #[default]
    Plain,
    /// `log`: sign(x)·ln(1 + |x|), for counts and amounts, which have long tails.
    Log,
}

/// Why it is not known what records mean.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// Nobody has said so, and the columns are of no schema.
    #[error(
        "it is not clear what the records of {0} mean: say so with --schema, as in clicks:numbers=13,fields=26 for a label, \
         13 numbers and 26 categories in this order; or census, or digits"
    )]
    Unknown(String),
    /// The header says otherwise.
    #[error(
        "{data} has column {column} in place {found}, and schema {schema} has it in place {wanted}; put the columns in order"
    )]
    OtherOrder {
        /// The data.
        data: String,
        /// The column.
        column: String,
        /// Its place in the table, from 1.
        found: usize,
        /// Its place in the schema, from 1.
        wanted: usize,
        /// The schema.
        schema: Schema,
    },
    /// The first line, which would be taken for a header, is a record.
    #[error(
        "the first line of {0} has a label where the name of a column would stand: say --no-header if it is a record, which \
         would be left out as a header"
    )]
    HeaderIsRecord(String),
    /// The header names other things than the schema has.
    #[error("{data} has column {column} in place {place}, where schema {schema} has {wanted}; {}", fitting(fits.as_deref()))]
    OtherColumns {
        /// The data.
        data: String,
        /// The column.
        column: String,
        /// Its place, from 1.
        place: usize,
        /// What the schema has there.
        wanted: String,
        /// The schema.
        schema: Schema,
        /// The schema whose columns these are, where there is one.
        fits: Option<Box<Schema>>,
    },
}

/// What to do about columns of another schema.
fn fitting(fits: Option<&Schema>) -> String {
    match fits {
        Some(schema) => format!("its columns are those of --schema {schema}"),
        None => "choose the schema that fits the file, or name its columns as the schema does".to_owned(),
    }
}

const NAMES: &[&str] = &["clicks", "census", "digits"];
const MOST_COLUMNS: usize = 1000;

impl Schema {
    /// What the records of a dataset mean: as was chosen, or as can be seen.
    pub(crate) fn of_dataset<E>(chosen: Option<&Self>, dataset: &Dataset, data: &str) -> Result<Self, E>
    where
        E: From<ReadError> + From<SchemaError>,
    {
        let seen = match (chosen, dataset.format()) {
            (Some(_), _) | (None, Format::Csv | Format::Text) => None,
            (None, Format::Idx) => Some(Self::Digits),
            (None, Format::RecordIo) => {
                let first = dataset.first().map_err(ReadError::from)?;
                first.and_then(|record| Self::of_example(&record))
            }
        };
        Ok(Self::of_data(chosen.or(seen.as_ref()), dataset.columns(), data)?)
    }

    /// What the records of `data` mean: as was chosen, or as its columns say, where it has a header. A header may have
    /// names of its own, but not the schema's in another order; where a schema says what each column is, it has to have
    /// these.
    pub fn of_data(chosen: Option<&Self>, columns: Option<&[String]>, data: &str) -> Result<Self, SchemaError> {
        let Some(schema) = chosen else {
            return columns.and_then(Self::of_columns).ok_or_else(|| SchemaError::Unknown(data.to_owned()));
        };
        let known = Columns::of(schema).zip(columns);
        if known.as_ref().is_some_and(|(known, columns)| known.is_record(columns)) {
            return Err(SchemaError::HeaderIsRecord(data.to_owned()));
        }
        let elsewhere = known.iter().flat_map(|(known, columns)| {
            let wanted = |name: &String| known.names().position(|known| known == name);
            let places = columns.iter().enumerate().map(move |(found, name)| (name, found, wanted(name)));
            places.filter_map(|(name, found, wanted)| Some((name, found, wanted.filter(|wanted| *wanted != found)?)))
        });
        match elsewhere.into_iter().next() {
            None => schema.named_in(columns, data).map(|()| schema.clone()),
            Some((column, found, wanted)) => Err(SchemaError::OtherOrder {
                data: data.to_owned(),
                column: column.clone(),
                found: found + 1,
                wanted: wanted + 1,
                schema: schema.clone(),
            }),
        }
    }

    /// Whether a header names what the schema has, where its columns are always the same. What the label is called does
    /// not matter, nor how words are joined in a name.
    fn named_in(&self, columns: Option<&[String]>, data: &str) -> Result<(), SchemaError> {
        let (Self::Census, Some(columns), Some(known)) = (self, columns, Columns::of(self)) else { return Ok(()) };
        let joined = |name: &str| name.to_lowercase().replace(['-', ' ', '.'], "_");
        let pairs = columns.iter().zip(known.names()).enumerate().skip(1);
        match pairs.into_iter().find(|(_, (column, wanted))| joined(column) != **wanted) {
            None => Ok(()),
            Some((at, (column, wanted))) => Err(SchemaError::OtherColumns {
                data: data.to_owned(),
                column: column.clone(),
                place: at + 1,
                wanted: wanted.clone(),
                schema: self.clone(),
                fits: Self::of_columns(columns).map(Box::new),
            }),
        }
    }

    /// The schema of a table with these columns, where they are those of one.
    pub fn of_columns(columns: &[String]) -> Option<Self> {
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        Self::of_tables(&names).find(|schema| Columns::of(schema).is_some_and(|known| known.names().eq(columns)))
    }

    /// The schema of an example with these features, where they are those of one: in any order, for they have names.
    fn of_example(record: &[u8]) -> Option<Self> {
        let features = example::read(record).ok()?;
        let names: BTreeSet<&str> = features.iter().map(|(name, _)| *name).collect();
        if names == BTreeSet::from(["image", "label"]) {
            return Some(Self::Digits);
        }
        let names: Vec<&str> = names.into_iter().collect();
        Self::of_tables(&names).find(|schema| {
            Columns::of(schema).is_some_and(|known| {
                let known: BTreeSet<&str> = known.names().map(String::as_str).collect();
                known.into_iter().eq(names.iter().copied())
            })
        })
    }

    /// The schemas that a table with such columns could have.
    fn of_tables(names: &[&str]) -> impl Iterator<Item = Self> + use<> {
        let count = |letter: char| names.iter().filter(|name| name.starts_with(letter)).count();
        let (numbers, fields) = (count('n'), count('c'));
        [Self::Census, Self::Clicks { numbers, fields, scale: Scale::default() }].into_iter()
    }
}

impl FromStr for Schema {
    type Err = DescriptionError;

    fn from_str(text: &str) -> Result<Self, DescriptionError> {
        let described = Described::parse(text)?;
        match described.name {
            "clicks" => {
                described.only(&["numbers", "fields", "scale"])?;
                Ok(Self::Clicks {
                    numbers: described.option("numbers", 4, whole(0, MOST_COLUMNS))?,
                    fields: described.option("fields", 10, whole(1, MOST_COLUMNS))?,
                    scale: described.option("scale", Scale::default(), read_scale)?,
                })
            }
            "census" => described.only(&[]).map(|()| Self::Census),
            "digits" => described.only(&[]).map(|()| Self::Digits),
            other => Err(DescriptionError::UnknownName { kind: "schema", name: other.to_owned(), known: NAMES }),
        }
    }
}

fn read_scale(text: &str) -> Result<Scale, String> {
    match text {
        "plain" => Ok(Scale::Plain),
        "log" => Ok(Scale::Log),
        _ => Err("write plain, or log for counts".to_owned()),
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clicks { numbers, fields, scale } => {
                write!(f, "clicks:numbers={numbers},fields={fields}")?;
                match scale {
                    Scale::Plain => Ok(()),
                    Scale::Log => f.write_str(",scale=log"),
                }
            }
            Self::Census => f.write_str("census"),
            Self::Digits => f.write_str("digits"),
        }
    }
}
