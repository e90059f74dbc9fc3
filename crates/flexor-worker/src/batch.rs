//! A batch of records as a model reads it: labels, numbers and keys of embedding rows.
//!
//! [`crate::features`] fills it from the bytes of records; a [`crate::models::Model`] sees only batches. A batch is
//! cleared and filled again, so a long run allocates nothing.

/// The width of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inputs {
    /// Categorical fields per record; each is the key of an embedding row.
    pub fields: usize,
    /// Numbers per record.
    pub numbers: usize,
    /// Labels are below this: 2 for binary data.
    pub classes: u32,
}

/// Records of the same width.
#[derive(Debug, Clone)]
pub struct Batch {
    inputs: Inputs,
    labels: Vec<u32>,
    numbers: Vec<f32>,
    keys: Vec<u64>,
}

impl Batch {
    pub fn new(inputs: Inputs) -> Self {
        Self { inputs, labels: Vec::new(), numbers: Vec::new(), keys: Vec::new() }
    }

    pub fn clear(&mut self) {
        self.labels.clear();
        self.numbers.clear();
        self.keys.clear();
    }

    /// Adds a record.
    ///
    /// # Panics
    ///
    /// When the record's width differs, or its label is none of the classes.
    pub fn push(&mut self, label: u32, numbers: &[f32], keys: &[u64]) {
        let Inputs { fields, numbers: width, classes } = self.inputs;
        assert_eq!((numbers.len(), keys.len()), (width, fields), "records of a batch are equally wide");
        assert!(label < classes, "label {label} is none of {classes} classes");
        self.labels.push(label);
        self.numbers.extend_from_slice(numbers);
        self.keys.extend_from_slice(keys);
    }

    pub fn inputs(&self) -> Inputs {
        self.inputs
    }

    pub fn len(&self) -> usize {
        self.labels.len()
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    pub fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    pub fn numbers_of(&self, record: usize) -> &[f32] {
        &self.numbers[record * self.inputs.numbers..][..self.inputs.numbers]
    }

    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    pub fn keys_of(&self, record: usize) -> &[u64] {
        &self.keys[record * self.inputs.fields..][..self.inputs.fields]
    }
}
