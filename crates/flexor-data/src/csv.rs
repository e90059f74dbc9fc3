//! Splits one CSV record into fields, and quotes fields.
//!
//! The dialect is that of spreadsheets and Python: fields are separated by commas. A field that begins with a quote
//! ends at the next single quote, and two quotes in it stand for one. [`crate::Dataset`] finds the ends of records.

use std::borrow::Cow;

pub fn fields(record: &[u8]) -> Fields<'_> {
    Fields { left: Some(record) }
}

/// Describes a row without exactly one field per column.
pub(crate) fn uneven(row: &str, fields: usize, columns: usize) -> String {
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!("{row} has {}, and the table {}", counted(fields, "field"), counted(columns, "column"))
}

/// A field as CSV text, quoted where needed.
pub fn field(value: &[u8]) -> Cow<'_, [u8]> {
    if value.iter().all(|byte| !matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        return Cow::Borrowed(value);
    }
    let doubled = value.iter().flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b'"' { 2 } else { 1 }));
    Cow::Owned(std::iter::once(b'"').chain(doubled).chain(std::iter::once(b'"')).collect())
}

/// An iterator over the fields of a record.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    left: Option<&'a [u8]>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Cow<'a, [u8]>;

    fn next(&mut self) -> Option<Cow<'a, [u8]>> {
        let left = self.left?;
        let Some((b'"', inside)) = left.split_first() else {
            let (field, rest) = up_to_comma(left);
            self.left = rest;
            return Some(Cow::Borrowed(field));
        };
        let mut field = Vec::new();
        let mut inside = inside;
        loop {
            let Some(quote) = memchr::memchr(b'"', inside) else {
                field.extend_from_slice(inside);
                self.left = None;
                return Some(Cow::Owned(field));
            };
            field.extend_from_slice(&inside[..quote]);
            inside = &inside[quote + 1..];
            match inside.split_first() {
                Some((b'"', more)) => {
                    field.push(b'"');
                    inside = more;
                }
                Some(_) | None => break,
            }
        }
        let (behind, rest) = up_to_comma(inside);
        field.extend_from_slice(behind);
        self.left = rest;
        Some(Cow::Owned(field))
    }
}

fn up_to_comma(left: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b',', left) {
        Some(comma) => (&left[..comma], Some(&left[comma + 1..])),
        None => (left, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(record: &str) -> Vec<String> {
        fields(record.as_bytes()).map(|field| String::from_utf8(field.into_owned()).unwrap()).collect()
    }

    #[test]
    fn fields_are_separated_by_commas_that_stand_outside_of_quotes() {
        assert_eq!(split("a,,\"b,\"\"c\"\"\",d\"e"), ["a", "", "b,\"c\"", "d\"e"]);
        assert_eq!(split(""), [""]);
        assert_eq!(split("a,"), ["a", ""]);
        assert_eq!(split("\"line\nbreak\""), ["line\nbreak"]);
    }

    proptest! {
        #[test]
        fn fields_that_were_written_are_read_back(values in prop::collection::vec("[a-c,\"\n\r é]{0,6}", 1..6)) {
            let line = values.iter().map(|value| field(value.as_bytes())).collect::<Vec<_>>().join(&b","[..]);
            let read: Vec<Vec<u8>> = fields(&line).map(Cow::into_owned).collect();
            prop_assert_eq!(read, values.iter().map(|value| value.clone().into_bytes()).collect::<Vec<_>>());
        }

        #[test]
        fn any_line_has_the_fields_that_the_csv_crate_finds(line in "[ab,\" ]{1,12}") {
            let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(line.as_bytes());
            let record = reader.byte_records().next().unwrap().unwrap();
            let expected: Vec<Vec<u8>> = record.iter().map(<[u8]>::to_vec).collect();
            let read: Vec<Vec<u8>> = fields(line.as_bytes()).map(Cow::into_owned).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
