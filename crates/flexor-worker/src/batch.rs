//! The records of one step, as a model reads them: labels, numbers and keys of embedding rows.
//!
//! [`crate::features`] fills a batch from the bytes of records; a [`crate::models::Model`] only ever sees batches. One
//! batch is meant to be cleared and filled again, so that a long run allocates nothing.

/// How wide a record is for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inputs {
    /// Keys of embedding rows in each record, one per categorical field.
    pub fields: usize,
    /// Numbers in each record.
    pub numbers: usize,
    /// Labels are less than this: 2 for yes or no.
    pub classes: u32,
}

/// Records, each of the same width.
#[derive(Debug, Clone)]
pub struct Batch {
    inputs: Inputs,
    labels: Vec<u32>,
    numbers: Vec<f32>,
    keys: Vec<u64>,
}

impl Batch {
    /// A batch without records.
    pub fn new(inputs: Inputs) -> Self {
        Self { inputs, labels: Vec::new(), numbers: Vec::new(), keys: Vec::new() }
    }

    /// Forgets its records.
    pub fn clear(&mut self) {
        self.labels.clear();
        self.numbers.clear();
        self.keys.clear();
    }

    /// Adds a record.
    ///
    /// # Panics
    ///
    /// When the record is not as wide as this batch's records, or its label is none of the classes.
    pub fn push(&mut self, label: u32, numbers: &[f32], keys: &[u64]) {
        let Inputs { fields, numbers: width, classes } = self.inputs;
        assert_eq!((numbers.len(), keys.len()), (width, fields), "records of a batch are equally wide");
        assert!(label < classes, "label {label} is none of {classes} classes");
        self.labels.push(label);
        self.numbers.extend_from_slice(numbers);
        self.keys.extend_from_slice(keys);
    }

    /// How wide its records are.
    pub fn inputs(&self) -> Inputs {
        self.inputs
    }

    /// How many records it has.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The label of each record.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The numbers, record by record.
    pub fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// The numbers of one record.
    pub fn numbers_of(&self, record: usize) -> &[f32] {
        &self.numbers[record * self.inputs.numbers..][..self.inputs.numbers]
    }

    /// The keys, record by record.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// The keys of one record.
    pub fn keys_of(&self, record: usize) -> &[u64] {
        &self.keys[record * self.inputs.fields..][..self.inputs.fields]
    }
}
