//! The sizes of a race that its user may change: `--size jobs=1000`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

/// The sizes of one run, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sizes(BTreeMap<&'static str, u32>);

impl Sizes {
    /// The defaults of a race, with what was given in their place.
    pub(super) fn read(defaults: &[(&'static str, u32)], given: &[String]) -> Result<Self> {
        let mut sizes: BTreeMap<&'static str, u32> = defaults.iter().copied().collect();
        for text in given {
            let (name, number) = text.split_once('=').with_context(|| format!("'{text}' is not NAME=N"))?;
            let Some(size) = sizes.get_mut(name) else {
                let known: Vec<String> = defaults.iter().map(|(name, number)| format!("{name}={number}")).collect();
                match known.is_empty() {
                    true => bail!("the sizes of this race are fixed; leave '--size {text}' out"),
                    false => bail!("no size '{name}'; there are: {}", known.join(", ")),
                }
            };
            *size = number.parse().with_context(|| format!("'{text}': {number} is no number"))?;
        }
        Ok(Self(sizes))
    }

    /// A size that the race declares.
    pub(super) fn get(&self, name: &str) -> Result<u32> {
        self.0.get(name).copied().with_context(|| format!("the race declares no size '{name}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: &[(&str, u32)] = &[("jobs", 200), ("foreign", 5000)];

    fn read(given: &[&str]) -> Result<Sizes> {
        Sizes::read(DEFAULTS, &given.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_given_replaces_the_default() {
        let sizes = read(&["jobs=1000"]).unwrap();
        assert_eq!((sizes.get("jobs").unwrap(), sizes.get("foreign").unwrap()), (1000, 5000));
    }

    #[test]
    fn an_unknown_size_is_refused_with_the_known_ones() {
        assert_eq!(read(&["nodes=3"]).unwrap_err().to_string(), "no size 'nodes'; there are: jobs=200, foreign=5000");
        assert!(read(&["jobs"]).is_err() && read(&["jobs=many"]).is_err());
        assert!(Sizes::read(&[], &["jobs=1".to_owned()]).unwrap_err().to_string().contains("are fixed"));
    }
}
