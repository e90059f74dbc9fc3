//! The schema of records, such as `clicks:numbers=4,fields=10`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use flexor_data::{Dataset, Format, example};
use thiserror::Error;

use super::columns::Columns;
use super::pickle;
use crate::ReadError;
use crate::description::{Description, DescriptionError, whole};

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schema {
    /// `clicks`: lines of CSV with the columns `label` (0 or 1), numbers `n0`, `n1`, … and categorical fields `c0`,
    /// `c1`, …
    Clicks {
        /// Numbers per record.
        numbers: usize,
        /// Categorical fields per record.
        fields: usize,
        scale: Scale,
    },
    /// `census`: lines of CSV with `label` and the columns of the 1994 census that UCI calls *adult*. The label says
    /// whether a person earns more than 50,000 dollars (1 or `>50K`).
    Census,
    /// `digits`: images of 28 × 28 grey pixels and the digit that they show; pixels are scaled to 0 to 1.
    Digits,
}

/// The scaling of a click's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// `plain`: unscaled.
    #[default]
    Plain,
    /// `log`: sign(x)·ln(1 + |x|), for counts and amounts, which have long tails.
    Log,
}

/// Why the schema of the data is unknown or wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// No schema was given, and the columns fit none.
    #[error(
        "it is not clear what the records of {0} mean: say so with --schema, as in clicks:numbers=13,fields=26 for a label, \
         13 numbers and 26 categories in this order; or census, or digits"
    )]
    Unknown(String),
    /// The records are pickled objects of Python.
    #[error("the records of {0} are {advice}", advice = pickle::ADVICE)]
    Pickles(String),
    /// The header has the columns in another order.
    #[error(
        "{data} has column {column} at position {found}, and schema {schema} has it at position {wanted}; put the columns in order"
    )]
    OtherOrder {
        data: String,
        column: String,
        /// The column's position in the table, from 1.
        found: usize,
        /// The column's position in the schema, from 1.
        wanted: usize,
        schema: Schema,
    },
    /// The first line is a record and would be lost as a header.
    #[error(
        "the first line of {0} has a label instead of a column name; give --no-header if it is a record, which \
         would be lost as a header"
    )]
    HeaderIsRecord(String),
    /// The header names other columns than the schema.
    #[error("{data} has column {column} at position {position}, where schema {schema} has {wanted}; {}", fitting(fits.as_deref()))]
    OtherColumns {
        data: String,
        column: String,
        /// The column's position, from 1.
        position: usize,
        /// The schema's column at this position.
        wanted: String,
        schema: Schema,
        /// The schema that these columns fit, if there is one.
        fits: Option<Box<Schema>>,
    },
}

/// Advice for the columns of another schema.
fn fitting(fits: Option<&Schema>) -> String {
    match fits {
        Some(schema) => format!("its columns are those of --schema {schema}"),
        None => "choose the schema that fits the file, or name its columns as the schema does".to_owned(),
    }
}

const NAMES: &[&str] = &["clicks", "census", "digits"];
const MOST_COLUMNS: usize = 1000;

impl Schema {
    /// The schema of a dataset: the chosen one, or the one detected from its records.
    pub(crate) fn of_dataset<E>(chosen: Option<&Self>, dataset: &Dataset, data: &str) -> Result<Self, E>
    where
        E: From<ReadError> + From<SchemaError>,
    {
        let seen = match (chosen, dataset.format()) {
            (Some(_), _) | (None, Format::Csv | Format::Text) => None,
            (None, Format::Idx) => Some(Self::Digits),
            (None, Format::RecordIo) => {
                let first = dataset.first().map_err(ReadError::from)?;
                if first.as_deref().is_some_and(pickle::is_pickle) {
                    return Err(SchemaError::Pickles(data.to_owned()).into());
                }
                first.and_then(|record| Self::of_example(&record))
            }
        };
        Ok(Self::of_data(chosen.or(seen.as_ref()), dataset.columns(), data)?)
    }

    /// The schema of `data`: the chosen one, or the one that its header shows. A header may have names of its own, but
    /// not the schema's names in another order. A schema with fixed columns requires its names.
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

    /// Checks a header against a schema with fixed columns. The label's name is free, and so are separators within
    /// names.
    fn named_in(&self, columns: Option<&[String]>, data: &str) -> Result<(), SchemaError> {
        let (Self::Census, Some(columns), Some(known)) = (self, columns, Columns::of(self)) else { return Ok(()) };
        let joined = |name: &str| name.to_lowercase().replace(['-', ' ', '.'], "_");
        let pairs = columns.iter().zip(known.names()).enumerate().skip(1);
        match pairs.into_iter().find(|(_, (column, wanted))| joined(column) != **wanted) {
            None => Ok(()),
            Some((at, (column, wanted))) => Err(SchemaError::OtherColumns {
                data: data.to_owned(),
                column: column.clone(),
                position: at + 1,
                wanted: wanted.clone(),
                schema: self.clone(),
                fits: Self::of_columns(columns).map(Box::new),
            }),
        }
    }

    /// The schema with these columns, if there is one.
    pub fn of_columns(columns: &[String]) -> Option<Self> {
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        Self::of_tables(&names).find(|schema| Columns::of(schema).is_some_and(|known| known.names().eq(columns)))
    }

    /// The schema with these features, in any order, if there is one.
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

    /// The schemas that could have these columns.
    fn of_tables(names: &[&str]) -> impl Iterator<Item = Self> + use<> {
        let count = |letter: char| names.iter().filter(|name| name.starts_with(letter)).count();
        let (numbers, fields) = (count('n'), count('c'));
        [Self::Census, Self::Clicks { numbers, fields, scale: Scale::default() }].into_iter()
    }
}

impl FromStr for Schema {
    type Err = DescriptionError;

    fn from_str(text: &str) -> Result<Self, DescriptionError> {
        let description = Description::parse(text)?;
        match description.name {
            "clicks" => {
                description.refuse_unknown(&["numbers", "fields", "scale"])?;
                Ok(Self::Clicks {
                    numbers: description.option("numbers", 4, whole(0, MOST_COLUMNS))?,
                    fields: description.option("fields", 10, whole(1, MOST_COLUMNS))?,
                    scale: description.option("scale", Scale::default(), read_scale)?,
                })
            }
            "census" => description.refuse_unknown(&[]).map(|()| Self::Census),
            "digits" => description.refuse_unknown(&[]).map(|()| Self::Digits),
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
