//! Parses examples of any writer: lists may be packed or not, unknown fields are skipped.

use std::fmt;

use super::{NotAnExample, tag};

#[derive(Debug, Clone, PartialEq)]
pub enum Values<'a> {
    /// Text or other bytes.
    Bytes(Vec<&'a [u8]>),
    Floats(Vec<f32>),
    Integers(Vec<i64>),
    /// A feature without a kind.
    Nothing,
}

impl fmt::Display for Values<'_> {
    /// Shows a single value, or the number of values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(texts) => match texts[..] {
                [text] => f.write_str(&String::from_utf8_lossy(text)),
                _ => write!(f, "{} texts", texts.len()),
            },
            Self::Floats(floats) => match floats[..] {
                [float] => write!(f, "{float}"),
                _ => write!(f, "{} floats", floats.len()),
            },
            Self::Integers(integers) => match integers[..] {
                [integer] => write!(f, "{integer}"),
                _ => write!(f, "{} integers", integers.len()),
            },
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// Parses the features of an example, in the order of the record.
///
/// # Errors
///
/// The bytes are no example.
pub fn read(record: &[u8]) -> Result<Vec<(&str, Values<'_>)>, NotAnExample> {
    let mut features = Vec::new();
    each(record, &mut |name, feature| {
        features.push((name, values(feature)?));
        Ok(())
    })?;
    Ok(features)
}

/// The values of one feature, if the example has it; the last one of several with that name.
///
/// # Errors
///
/// The bytes are no example.
pub fn find<'a>(record: &'a [u8], wanted: &str) -> Result<Option<Values<'a>>, NotAnExample> {
    let mut found = None;
    each(record, &mut |name, feature| {
        if name == wanted {
            found = Some(feature);
        }
        Ok(())
    })?;
    found.map(values).transpose()
}

/// Visits the features without parsing their values.
fn each<'a>(
    record: &'a [u8],
    on: &mut dyn FnMut(&'a str, &'a [u8]) -> Result<(), NotAnExample>,
) -> Result<(), NotAnExample> {
    let mut example = MessageFields(record);
    while let Some(field) = example.next()? {
        let Field::Bytes(tag::FIRST, features) = field else { continue };
        let mut features = MessageFields(features);
        while let Some(field) = features.next()? {
            let Field::Bytes(tag::FIRST, entry) = field else { continue };
            let (mut name, mut feature) = ("", &[][..]);
            let mut entry = MessageFields(entry);
            while let Some(field) = entry.next()? {
                match field {
                    Field::Bytes(tag::FIRST, bytes) => {
                        name = str::from_utf8(bytes).map_err(|_| NotAnExample("a name is not UTF-8"))?;
                    }
                    Field::Bytes(tag::MAP_VALUE, bytes) => feature = bytes,
                    Field::Bytes(..) | Field::Varint(..) | Field::Fixed(..) => {}
                }
            }
            on(name, feature)?;
        }
    }
    Ok(())
}

fn values(feature: &[u8]) -> Result<Values<'_>, NotAnExample> {
    let mut found = Values::Nothing;
    let mut fields = MessageFields(feature);
    while let Some(field) = fields.next()? {
        match field {
            Field::Bytes(tag::BYTES_LIST, list) => found = Values::Bytes(texts(list)?),
            Field::Bytes(tag::FLOAT_LIST, list) => found = Values::Floats(floats(list)?),
            Field::Bytes(tag::INT64_LIST, list) => found = Values::Integers(integers(list)?),
            Field::Bytes(..) | Field::Varint(..) | Field::Fixed(..) => {}
        }
    }
    Ok(found)
}

fn texts(list: &[u8]) -> Result<Vec<&[u8]>, NotAnExample> {
    let (mut values, mut fields) = (Vec::new(), MessageFields(list));
    while let Some(field) = fields.next()? {
        if let Field::Bytes(tag::FIRST, value) = field {
            values.push(value);
        }
    }
    Ok(values)
}

fn floats(list: &[u8]) -> Result<Vec<f32>, NotAnExample> {
    let (mut values, mut fields) = (Vec::new(), MessageFields(list));
    let mut add = |bytes: &[u8]| {
        let (whole, rest) = bytes.as_chunks();
        values.extend(whole.iter().map(|four| f32::from_le_bytes(*four)));
        if rest.is_empty() { Ok(()) } else { Err(NotAnExample("a list of floats ends inside one")) }
    };
    while let Some(field) = fields.next()? {
        match field {
            Field::Bytes(tag::FIRST, packed) => add(packed)?,
            Field::Fixed(1, four) => add(four)?,
            Field::Bytes(..) | Field::Varint(..) | Field::Fixed(..) => {}
        }
    }
    Ok(values)
}

fn integers(list: &[u8]) -> Result<Vec<i64>, NotAnExample> {
    let (mut values, mut fields) = (Vec::new(), MessageFields(list));
    while let Some(field) = fields.next()? {
        match field {
            Field::Bytes(tag::FIRST, packed) => {
                let mut packed = MessageFields(packed);
                while !packed.0.is_empty() {
                    values.push(packed.varint()?.cast_signed());
                }
            }
            Field::Varint(1, value) => values.push(value.cast_signed()),
            Field::Bytes(..) | Field::Varint(..) | Field::Fixed(..) => {}
        }
    }
    Ok(values)
}

/// One field of a message.
enum Field<'a> {
    /// A one-byte tag (0 for longer, unknown ones) and its bytes.
    Bytes(u8, &'a [u8]),
    /// A field number and its value.
    Varint(u64, u64),
    /// A field number and its four or eight bytes.
    Fixed(u64, &'a [u8]),
}

/// The unread rest of a message.
struct MessageFields<'a>(&'a [u8]);

impl<'a> MessageFields<'a> {
    fn next(&mut self) -> Result<Option<Field<'a>>, NotAnExample> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = tag >> 3;
        Ok(Some(match (tag & 7) as u8 {
            tag::VARINT => Field::Varint(number, self.varint()?),
            tag::FIXED_64 => Field::Fixed(number, self.bytes(8)?),
            tag::FIXED_32 => Field::Fixed(number, self.bytes(4)?),
            tag::BYTES => {
                let length = self.varint()?;
                Field::Bytes(u8::try_from(tag).unwrap_or(0), self.bytes(length)?)
            }
            _ => return Err(NotAnExample("a field of a kind that does not exist")),
        }))
    }

    fn varint(&mut self) -> Result<u64, NotAnExample> {
        let mut value = 0;
        for (at, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at as u32);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(value);
            }
        }
        Err(NotAnExample("a number does not end"))
    }

    fn bytes(&mut self, count: u64) -> Result<&'a [u8], NotAnExample> {
        let count = usize::try_from(count).ok().filter(|count| *count <= self.0.len());
        let (bytes, left) = self.0.split_at(count.ok_or(NotAnExample("a field is longer than the record"))?);
        self.0 = left;
        Ok(bytes)
    }
}
