//! Serialises examples.

use super::tag;

/// Serialises one example after the other, and reuses its buffers.
#[derive(Debug, Default)]
pub struct ExampleWriter {
    features: Vec<u8>,
    list: Vec<u8>,
    record: Vec<u8>,
}

impl ExampleWriter {
    /// A writer whose first example has no features.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a feature of floats.
    pub fn floats(&mut self, name: &str, values: impl ExactSizeIterator<Item = f32>) -> &mut Self {
        self.list.clear();
        if values.len() > 0 {
            self.list.push(tag::FIRST);
            varint(&mut self.list, 4 * values.len() as u64);
            values.for_each(|value| self.list.extend_from_slice(&value.to_le_bytes()));
        }
        self.feature(name, tag::FLOAT_LIST)
    }

    /// Adds a feature of integers.
    pub fn integers(&mut self, name: &str, values: &[i64]) -> &mut Self {
        self.list.clear();
        if !values.is_empty() {
            self.list.push(tag::FIRST);
            varint(&mut self.list, values.iter().map(|value| varint_length(value.cast_unsigned())).sum());
            values.iter().for_each(|value| varint(&mut self.list, value.cast_unsigned()));
        }
        self.feature(name, tag::INT64_LIST)
    }

    /// Adds a feature of one text or other bytes.
    pub fn bytes(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.list.clear();
        field(&mut self.list, tag::FIRST, value);
        self.feature(name, tag::BYTES_LIST)
    }

    /// Returns the example. The next one starts without features.
    pub fn finish(&mut self) -> &[u8] {
        self.record.clear();
        field(&mut self.record, tag::FIRST, &self.features);
        self.features.clear();
        &self.record
    }

    /// Adds the buffered list as a feature of this kind.
    fn feature(&mut self, name: &str, kind: u8) -> &mut Self {
        let feature = field_length(self.list.len() as u64);
        let entry = field_length(name.len() as u64) + field_length(feature);
        let out = &mut self.features;
        out.push(tag::FIRST);
        varint(out, entry);
        field(out, tag::FIRST, name.as_bytes());
        out.push(tag::MAP_VALUE);
        varint(out, feature);
        field(out, kind, &self.list);
        self
    }
}

fn field(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The size of a field with this many bytes, including tag and length.
fn field_length(bytes: u64) -> u64 {
    1 + varint_length(bytes) + bytes
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn varint_length(value: u64) -> u64 {
    u64::from((64 - (value | 1).leading_zeros()).div_ceil(7))
}
