//! The way to a field: `spec.replicaSpecs.worker.template.spec.containers[0].image`.

use std::{convert::Infallible, fmt, str::FromStr};

use crate::finding::shortened;

/// A way from the root of a document to one of its fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldPath(Vec<Segment>);

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Key(String),
    Index(usize),
}

impl FieldPath {
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.0
    }

    pub(crate) fn key(&self, key: &str) -> Self {
        self.with(Segment::Key(key.to_owned()))
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut path = self.clone();
        path.0.push(segment);
        path
    }
}

impl FromStr for FieldPath {
    type Err = Infallible;

    /// Reads what [`fmt::Display`] writes; a leading dot is ignored, and what is no index in brackets is a key.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let (step, behind) = inside.split_once(']').unwrap_or((inside, ""));
                segments.push(match step.parse() {
                    Ok(index) => Segment::Index(index),
                    Err(_) => Segment::Key(step.trim_matches('"').to_owned()),
                });
                rest = behind;
            } else {
                let step = rest.strip_prefix('.').unwrap_or(rest);
                let end = step.find(['.', '[']).unwrap_or(step.len());
                if end > 0 {
                    segments.push(Segment::Key(step[..end].to_owned()));
                }
                rest = &step[end..];
            }
        }
        Ok(Self(segments))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) if key.contains(['.', '[', ']', '/']) || key.is_empty() => {
                    write!(f, "[\"{}\"]", shortened(key))?;
                }
                Segment::Key(key) if i == 0 => f.write_str(&shortened(key))?,
                Segment::Key(key) => write!(f, ".{}", shortened(key))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_as_it_is_written() {
        for text in ["spec", "spec.a.b[0].c", "metadata.labels[\"a.b/c\"].d", ""] {
            assert_eq!(text.parse::<FieldPath>().unwrap().to_string(), text);
        }
        assert_eq!(".spec.x".parse::<FieldPath>().unwrap().to_string(), "spec.x");
    }

    #[test]
    fn any_text_is_read_without_panic() {
        for text in ["[", "]", "..", "[]", "a[", "a]b", ".[.", "[0", "é.[ü]"] {
            let _ = text.parse::<FieldPath>().unwrap().to_string();
        }
    }
}
