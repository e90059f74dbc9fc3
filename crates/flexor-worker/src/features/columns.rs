//! Parses rows of a table, column by column.
//!
//! A row is a line of CSV, or a `tf.train.Example` with a feature for each column; both give the same keys. Blanks
//! around a cell are ignored. An empty number is its middle; an empty category is a value like any other.

use flexor_data::csv;
use flexor_data::example::{self, Values};

use super::{Problem, Scale, Schema, key};
use crate::{Batch, Inputs};

/// The columns, from the left.
#[derive(Debug)]
pub(super) struct Columns {
    columns: Vec<Column>,
    /// The current record.
    numbers: Vec<f32>,
    keys: Vec<u64>,
}

#[derive(Debug)]
struct Column {
    name: String,
    role: Role,
}

/// The role of a column.
#[derive(Debug, Clone, Copy)]
enum Role {
    /// The binary label, with its texts for no and yes.
    Label {
        no: &'static [&'static str],
        yes: &'static [&'static str],
    },
    /// A count or an amount: sign(x)·ln(1 + |x|), because such numbers have long tails.
    Count,
    /// A measure: (x − middle) / spread.
    Measure {
        middle: f32,
        spread: f32,
    },
    /// A category. Columns of one space share their rows.
    Category {
        space: u32,
    },
    Unused,
}

impl Columns {
    /// The columns of a schema whose records are table rows.
    pub(super) fn of(schema: &Schema) -> Option<Self> {
        match *schema {
            Schema::Clicks { numbers, fields, scale } => Some(Self::of_clicks(numbers, fields, scale)),
            Schema::Census => Some(Self::of_census()),
            Schema::Digits => None,
        }
    }

    fn of_clicks(numbers: usize, fields: usize, scale: Scale) -> Self {
        let number = match scale {
            Scale::Plain => Role::Measure { middle: 0.0, spread: 1.0 },
            Scale::Log => Role::Count,
        };
        let label = ("label".to_owned(), Role::Label { no: &["0"], yes: &["1"] });
        let numbers = (0..numbers).map(|at| (format!("n{at}"), number));
        let fields = (0..fields).map(|at| (format!("c{at}"), Role::Category { space: at as u32 }));
        Self::new(std::iter::once(label).chain(numbers).chain(fields))
    }

    /// Middles and spreads are those of the 1994 census, rounded.
    fn of_census() -> Self {
        let category = |space| Role::Category { space };
        let columns = [
            ("label", Role::Label { no: &["0", "<=50K"], yes: &["1", ">50K"] }),
            ("age", Role::Measure { middle: 38.0, spread: 14.0 }),
            ("workclass", category(0)),
            // The number of people that a record represents, not a property of a person.
            ("fnlwgt", Role::Unused),
            ("education", category(1)),
            ("education_num", Role::Measure { middle: 10.0, spread: 2.5 }),
            ("marital_status", category(2)),
            ("occupation", category(3)),
            ("relationship", category(4)),
            ("race", category(5)),
            ("sex", category(6)),
            ("capital_gain", Role::Count),
            ("capital_loss", Role::Count),
            ("hours_per_week", Role::Measure { middle: 40.0, spread: 12.0 }),
            ("native_country", category(7)),
        ];
        Self::new(columns.into_iter().map(|(name, role)| (name.to_owned(), role)))
    }

    fn new(columns: impl Iterator<Item = (String, Role)>) -> Self {
        let columns = columns.map(|(name, role)| Column { name, role }).collect();
        Self { columns, numbers: Vec::new(), keys: Vec::new() }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().map(|column| &column.name)
    }

    /// Whether a first line is a record and no header: it has a valid label.
    pub(super) fn is_record(&self, first_line: &[String]) -> bool {
        let Some((column, cell)) = self.columns.iter().zip(first_line).next() else { return false };
        match column.role {
            Role::Label { no, yes } => column.label(Cell::Text(cell.as_bytes()), no, yes).is_ok(),
            Role::Count | Role::Measure { .. } | Role::Category { .. } | Role::Unused => false,
        }
    }

    pub(super) fn inputs(&self) -> Inputs {
        let count = |wanted: fn(&Role) -> bool| self.columns.iter().filter(|column| wanted(&column.role)).count();
        Inputs {
            fields: count(|role| matches!(role, Role::Category { .. })),
            numbers: count(|role| matches!(role, Role::Count | Role::Measure { .. })),
            classes: 2,
        }
    }

    pub(super) fn read(&mut self, record: &[u8], batch: &mut Batch) -> Result<(), Problem> {
        self.numbers.clear();
        self.keys.clear();
        let label = if is_example(record) { self.read_example(record)? } else { self.read_line(record)? };
        batch.push(label, &self.numbers, &self.keys);
        Ok(())
    }

    fn read_line(&mut self, record: &[u8]) -> Result<u32, Problem> {
        let mut label = 0;
        let mut cells = csv::fields(record);
        for column in &self.columns {
            let Some(cell) = cells.next() else { return Err(self.uneven(record)) };
            label += column.read(Cell::Text(cell.trim_ascii()), &mut self.numbers, &mut self.keys)?;
        }
        if cells.next().is_some() { Err(self.uneven(record)) } else { Ok(label) }
    }

    fn read_example(&mut self, record: &[u8]) -> Result<u32, Problem> {
        let features = example::read(record).map_err(|problem| Problem::Example(problem.to_string()))?;
        let mut label = 0;
        // Features mostly come in the order of the columns.
        for (at, column) in self.columns.iter().enumerate() {
            let is_it = |(name, _): &&(&str, Values<'_>)| *name == column.name;
            let found = features.get(at).filter(is_it).or_else(|| features.iter().find(is_it));
            let cell = match found.map(|(_, values)| values) {
                Some(Values::Integers(values)) if values.len() == 1 => Cell::Integer(values[0]),
                Some(Values::Floats(values)) if values.len() == 1 => Cell::Float(values[0]),
                Some(Values::Bytes(values)) if values.len() == 1 => Cell::Text(values[0].trim_ascii()),
                Some(Values::Integers(_) | Values::Floats(_) | Values::Bytes(_) | Values::Nothing) | None => {
                    let problem = format!("it has no feature `{}` of one value", column.name);
                    return Err(Problem::Example(problem));
                }
            };
            label += column.read(cell, &mut self.numbers, &mut self.keys)?;
        }
        Ok(label)
    }

    fn uneven(&self, record: &[u8]) -> Problem {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        Problem::Columns { found: csv::fields(record).count(), wanted: names.len(), names: names.join(", ") }
    }
}

/// Whether a record is an example. Its first byte is a line feed, which no line of CSV begins with.
fn is_example(record: &[u8]) -> bool {
    record.first() == Some(&b'\n')
}

/// The content of a cell.
#[derive(Debug, Clone, Copy)]
enum Cell<'a> {
    Text(&'a [u8]),
    Integer(i64),
    Float(f32),
}

impl Column {
    /// Parses a cell into a number or a key. Returns the label of a label column, else 0.
    fn read(&self, cell: Cell<'_>, numbers: &mut Vec<f32>, keys: &mut Vec<u64>) -> Result<u32, Problem> {
        match self.role {
            Role::Label { no, yes } => return self.label(cell, no, yes),
            Role::Count => {
                let count = self.number(cell)?.unwrap_or(0.0);
                numbers.push(libm::log1pf(count.abs()).copysign(count));
            }
            Role::Measure { middle, spread } => numbers.push((self.number(cell)?.unwrap_or(middle) - middle) / spread),
            Role::Category { space } => keys.push(cell.with_text(|text| key(space, text))),
            Role::Unused => {}
        }
        Ok(0)
    }

    fn label(&self, cell: Cell<'_>, no: &[&str], yes: &[&str]) -> Result<u32, Problem> {
        let is_one_of = |texts: &[&str]| cell.with_text(|cell| texts.iter().any(|text| text.as_bytes() == cell));
        if is_one_of(yes) {
            return Ok(1);
        }
        if is_one_of(no) {
            return Ok(0);
        }
        let wanted = format!("one of {}", [no, yes].concat().join(", "));
        Err(Problem::Label { column: self.name.clone(), value: cell.with_text(shorten), wanted })
    }

    /// The number in a cell; `None` when the cell is empty.
    fn number(&self, cell: Cell<'_>) -> Result<Option<f32>, Problem> {
        let number = match cell {
            Cell::Text([]) => return Ok(None),
            Cell::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse::<f32>().ok()),
            Cell::Integer(number) => Some(number as f32),
            Cell::Float(number) => Some(number),
        };
        match number.filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(Problem::Number { column: self.name.clone(), value: cell.with_text(shorten) }),
        }
    }
}

impl Cell<'_> {
    /// Passes the cell as CSV text.
    fn with_text<T>(self, on: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Text(text) => on(text),
            Self::Integer(number) => on(number.to_string().as_bytes()),
            Self::Float(number) => on(number.to_string().as_bytes()),
        }
    }
}

/// A cell, shortened for errors.
fn shorten(cell: &[u8]) -> String {
    const MOST: usize = 60;
    let text = String::from_utf8_lossy(&cell[..cell.len().min(MOST)]);
    if cell.len() > MOST { format!("{text}…") } else { text.into_owned() }
}
