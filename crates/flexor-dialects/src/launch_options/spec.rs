//! What is known about one option: a row of the table from which the command line is read and explained.

/// One option of the launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name with dashes. Users may write underscores for those inside it, as with torchrun.
    pub name: &'static str,
    /// Its one-letter form, where it has one.
    pub short: Option<char>,
    /// What its value looks like.
    pub kind: Kind,
    /// The value that holds when it is not given: on the command line, or in the environment.
    pub default: &'static str,
    /// Whether `PET_…` may give it.
    pub reads_env: bool,
    /// Whose option it is.
    pub origin: Origin,
    /// What Flexor does with it.
    pub fate: Fate,
    /// What it means.
    pub help: &'static str,
}

/// What the value of an option looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It has none: it is given or not.
    Flag,
    /// A text, called so in help.
    Text(&'static str),
    /// A whole number, called so in help.
    Integer(&'static str),
    /// A number, called so in help.
    Number(&'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// Whose option it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `torchrun`, and so also `dlrover-run`.
    Torchrun,
    /// `dlrover-run` alone.
    DlroverRun,
}

/// What Flexor does with an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// What it says.
    Meant,
    /// Nothing; the text says why.
    NoEffect(&'static str),
    /// It is refused.
    Refused {
        /// Why.
        why: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
}

impl OptionSpec {
    const fn new(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Self {
        let (origin, fate) = (Origin::Torchrun, Fate::Meant);
        Self { name, short: None, kind, default, reads_env: true, origin, fate, help }
    }

    pub(super) const fn flag(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Flag, "0", help)
    }

    pub(super) const fn text(
        name: &'static str,
        metavar: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self::new(name, Kind::Text(metavar), default, help)
    }

    pub(super) const fn integer(
        name: &'static str,
        metavar: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self::new(name, Kind::Integer(metavar), default, help)
    }

    pub(super) const fn number(
        name: &'static str,
        metavar: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self::new(name, Kind::Number(metavar), default, help)
    }

    pub(super) const fn choice(
        name: &'static str,
        words: &'static [&'static str],
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self::new(name, Kind::Choice(words), default, help)
    }

    pub(super) const fn short(self, letter: char) -> Self {
        Self { short: Some(letter), ..self }
    }

    pub(super) const fn without_env(self) -> Self {
        Self { reads_env: false, ..self }
    }

    pub(super) const fn of_dlrover_run(self) -> Self {
        Self { origin: Origin::DlroverRun, ..self }
    }

    pub(super) const fn no_effect(self, why: &'static str) -> Self {
        Self { fate: Fate::NoEffect(why), ..self }
    }

    pub(super) const fn refused(self, why: &'static str, instead: &'static str) -> Self {
        Self { fate: Fate::Refused { why, instead }, ..self }
    }

    /// Every way to write it.
    pub fn spellings(&self) -> Vec<String> {
        let short = self.short.map(|letter| format!("-{letter}"));
        let dashes = self.name.to_owned();
        let underscores = format!("--{}", self.name.trim_start_matches('-').replace('-', "_"));
        let other = Some(underscores).filter(|other| *other != dashes);
        short.into_iter().chain([dashes]).chain(other).collect()
    }

    /// Whether this is one of its spellings.
    pub fn is_called(&self, written: &str) -> bool {
        self.spellings().iter().any(|spelling| spelling == written)
    }

    /// The variable that may give it, where one may.
    pub fn env_name(&self) -> Option<String> {
        let name = self.name.trim_start_matches('-').replace('-', "_").to_ascii_uppercase();
        self.reads_env.then(|| format!("PET_{name}"))
    }

    /// What its value is called in help; nothing for a flag.
    pub fn metavar(&self) -> Option<String> {
        match self.kind {
            Kind::Flag => None,
            Kind::Text(name) | Kind::Integer(name) | Kind::Number(name) => Some(name.to_owned()),
            Kind::Choice(words) => Some(words.join("|")),
        }
    }
}
