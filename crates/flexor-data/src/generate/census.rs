//! Generates a table of invented people with the columns of the UCI census data ("Adult").
//!
//! The label is 1 for an income above 50,000 dollars a year. Values are about as frequent as in the original. Some
//! depend on others, such as a degree on its years and a marriage on the age. The tables below hold the effect of each
//! value.

use super::noise::{Noise, sigmoid};
use super::table::{Column, Table, Value};

const COLUMNS: [&str; 15] = [
    "label",
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
];

/// A value, its frequency, and its effect on the label.
struct Word(&'static str, f64, f64);

static WORK_CLASSES: [Word; 8] = [
    Word("Private", 69.7, 0.0),
    Word("Self-emp-not-inc", 7.8, -0.3),
    Word("Local-gov", 6.4, 0.0),
    Word("?", 5.6, -0.4),
    Word("State-gov", 4.0, -0.1),
    Word("Self-emp-inc", 3.4, 0.5),
    Word("Federal-gov", 3.0, 0.4),
    Word("Without-pay", 0.1, -1.0),
];

/// The years of schooling are the index, from 1.
static EDUCATIONS: [Word; 16] = [
    Word("Preschool", 0.2, -1.6),
    Word("1st-4th", 0.5, -1.4),
    Word("5th-6th", 1.0, -1.3),
    Word("7th-8th", 2.0, -1.2),
    Word("9th", 1.6, -1.1),
    Word("10th", 2.8, -1.0),
    Word("11th", 3.6, -1.0),
    Word("12th", 1.3, -0.8),
    Word("HS-grad", 32.3, -0.5),
    Word("Some-college", 22.4, -0.2),
    Word("Assoc-voc", 4.2, 0.0),
    Word("Assoc-acdm", 3.3, 0.1),
    Word("Bachelors", 16.4, 0.8),
    Word("Masters", 5.3, 1.2),
    Word("Prof-school", 1.8, 1.8),
    Word("Doctorate", 1.3, 1.8),
];

static MARITAL_STATUSES: [Word; 6] = [
    Word("Never-married", 33.0, -1.0),
    Word("Married-civ-spouse", 46.5, 1.2),
    Word("Divorced", 13.6, -0.5),
    Word("Separated", 3.1, -0.7),
    Word("Widowed", 3.1, -0.5),
    Word("Married-spouse-absent", 1.3, -0.6),
];

static OCCUPATIONS: [Word; 14] = [
    Word("Prof-specialty", 13.5, 0.5),
    Word("Craft-repair", 13.3, 0.0),
    Word("Exec-managerial", 13.2, 0.8),
    Word("Adm-clerical", 12.3, -0.1),
    Word("Sales", 12.0, 0.2),
    Word("Other-service", 10.7, -0.9),
    Word("Machine-op-inspct", 6.5, -0.4),
    Word("Transport-moving", 5.2, -0.2),
    Word("Handlers-cleaners", 4.5, -0.8),
    Word("Farming-fishing", 3.2, -1.0),
    Word("Tech-support", 3.1, 0.4),
    Word("Protective-serv", 2.1, 0.4),
    Word("Priv-house-serv", 0.3, -1.5),
    Word("Armed-Forces", 0.1, 0.0),
];

static RACES: [Word; 5] = [
    Word("White", 85.4, 0.0),
    Word("Black", 9.6, 0.0),
    Word("Asian-Pac-Islander", 3.2, 0.0),
    Word("Amer-Indian-Eskimo", 1.0, 0.0),
    Word("Other", 0.8, 0.0),
];

static COUNTRIES: [Word; 6] = [
    Word("United-States", 91.4, 0.0),
    Word("Mexico", 3.0, -0.5),
    Word("Philippines", 1.6, 0.0),
    Word("Germany", 1.4, 0.1),
    Word("Canada", 1.4, 0.1),
    Word("India", 1.2, 0.2),
];

const BIAS: f64 = -2.1;

#[derive(Debug)]
pub struct Census {
    seed: u64,
    noise: Noise,
    columns: Vec<Column>,
}

impl Census {
    /// The people of a seed; the sequence is endless.
    pub fn new(seed: u64) -> Self {
        // A different stream than that of the other generators with the same seed.
        Self { seed, noise: Noise::new(seed).of(0xce), columns: COLUMNS.map(str::to_owned).to_vec() }
    }
}

impl Table for Census {
    fn name(&self) -> &'static str {
        "census"
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn row(&self, number: u64, row: &mut Vec<Value>) -> (bool, f64) {
        let person = self.noise.of(number);
        let mut evidence = BIAS;
        let mut word = |draw: u64, words: &'static [Word]| {
            let chosen = person.of(draw).choose(words, |word| word.1);
            evidence += chosen.2;
            chosen.0
        };
        let work_class = word(1, &WORK_CLASSES);
        let education = word(2, &EDUCATIONS);
        let occupation = word(3, &OCCUPATIONS);
        let (race, country) = (word(4, &RACES), word(5, &COUNTRIES));
        // More young people than old ones.
        let (low, high) = (person.of(6).unit(), person.of(7).unit());
        let age = 17 + (61.0 * low * (0.4 + 0.6 * high)) as i64;
        let first_statuses = if age < 22 { &MARITAL_STATUSES[..1] } else { &MARITAL_STATUSES[..] };
        let marital_status = word(8, first_statuses);
        let sex = if person.of(9).unit() < 0.67 { "Male" } else { "Female" };
        let is_married = marital_status == "Married-civ-spouse";
        let relationship = match (is_married, sex) {
            (true, "Male") => "Husband",
            (true, _) => "Wife",
            (false, _) if age < 25 => "Own-child",
            (false, _) if person.of(10).unit() < 0.3 => "Unmarried",
            (false, _) => "Not-in-family",
        };
        let hours = (40.0 + 11.0 * person.of(11).bell()).clamp(1.0, 99.0) as i64;
        let gains = person.of(12).unit();
        let capital_gain = if gains > 0.92 { (20_000.0 * (gains - 0.92) / 0.08) as i64 + 100 } else { 0 };
        let losses = person.of(13).unit();
        let capital_loss = if losses > 0.95 { 1_200 + (1_500.0 * (losses - 0.95) / 0.05) as i64 } else { 0 };
        // Earnings rise until fifty and fall after that.
        let years = (age - 50) as f64;
        evidence += 0.6 - years * years / 550.0;
        evidence += (hours - 40) as f64 * 0.03;
        evidence += if capital_gain > 5_000 { 2.5 } else { 0.0 };
        evidence += if capital_loss > 0 { 0.7 } else { 0.0 };
        let probability = sigmoid(evidence);
        let label = person.of(14).unit() < probability;
        let school_years = 1 + EDUCATIONS.iter().take_while(|word| word.0 != education).count() as i64;
        row.extend([
            Value::Integer(i64::from(label)),
            Value::Integer(age),
            Value::Word(work_class),
            Value::Integer(20_000 + person.of(15).below(400_000).cast_signed()),
            Value::Word(education),
            Value::Integer(school_years),
            Value::Word(marital_status),
            Value::Word(occupation),
            Value::Word(relationship),
            Value::Word(race),
            Value::Word(sex),
            Value::Integer(capital_gain),
            Value::Integer(capital_loss),
            Value::Integer(hours),
            Value::Word(country),
        ]);
        (label, probability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_about_as_rich_as_in_the_original_and_do_not_contradict_themselves() {
        let census = Census::new(3);
        let mut rich = 0;
        for number in 0..5_000 {
            let mut row = Vec::new();
            rich += u64::from(census.row(number, &mut row).0);
            assert_eq!(row.len(), COLUMNS.len());
            let (Value::Integer(age), Value::Integer(years)) = (row[1], row[5]) else { panic!("{row:?}") };
            assert!((17..=90).contains(&age) && (1..=16).contains(&years), "{row:?}");
            let is_spouse = matches!(row[8], Value::Word("Husband" | "Wife"));
            assert_eq!(is_spouse, row[6] == Value::Word("Married-civ-spouse"), "{row:?}");
        }
        assert!((900..1_700).contains(&rich), "{rich} of 5000");
    }
}
