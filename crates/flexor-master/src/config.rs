//! What a master is started with.

use std::path::PathBuf;
use std::str::FromStr;

use flexor_engine::rendezvous::{Settings, SettingsError};
use flexor_model::{JobName, JobUid};
use thiserror::Error;

/// Everything a master needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The job it serves; also the run that the native API means.
    pub job: JobName,
    /// Tells this job from others of the same name. The journal belongs to it.
    pub uid: JobUid,
    /// Who may be in the world, and how long is waited for whom.
    pub settings: Settings,
    /// Where the journal is kept. Without it a restart of the master restarts all workers.
    pub state: Option<PathBuf>,
    /// The token that every call of ours must carry. Without it everyone may call.
    pub token: Option<Token>,
    /// What torchrun reads is served as plain bytes, nothing is understood.
    pub plain_store: bool,
}

/// The secret that the parts of one job share. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// A token that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenError {
    /// Nothing in it.
    #[error("the token is empty")]
    Empty,
    /// It cannot be sent as a header.
    #[error("the token has characters that cannot be sent; use letters, digits and punctuation")]
    Unprintable,
}

impl Token {
    /// The token that a file holds, without white space around it.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(TokenError::Empty);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Unprintable);
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether a header carries it. Takes as long for a wrong one as for the right one.
    pub fn is_carried_by(&self, header: Option<&[u8]>) -> bool {
        let wanted = format!("Bearer {}", self.0);
        let given = header.unwrap_or_default();
        let different = wanted.bytes().zip(given.iter().chain(std::iter::repeat(&0)));
        let sum = different.fold(0u8, |sum, (a, b)| sum | (a ^ b));
        sum == 0 && given.len() == wanted.len()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Where a master learns how many nodes there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldSource {
    /// The smallest world.
    pub min: u32,
    /// The greatest world.
    pub max: u32,
}

/// A `--world` that says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("write static:MIN:MAX, for example static:2:4, or static:N")]
pub struct WorldSourceError;

impl FromStr for WorldSource {
    type Err = WorldSourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let sizes = text.strip_prefix("static:").ok_or(WorldSourceError)?;
        let (min, max) = sizes.split_once(':').unwrap_or((sizes, sizes));
        let number = |text: &str| text.parse::<u32>().map_err(|_| WorldSourceError);
        Ok(Self { min: number(min)?, max: number(max)? })
    }
}

impl WorldSource {
    /// The settings of a rendezvous for these sizes.
    pub fn settings(&self) -> Result<Settings, SettingsError> {
        Settings::new(self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens() {
        let token = Token::parse(" s3cret\n").unwrap();
        assert!(token.is_carried_by(Some(b"Bearer s3cret")));
        for wrong in ["Bearer s3cre", "Bearer s3crets", "s3cret", "", "Bearer S3cret"] {
            assert!(!token.is_carried_by(Some(wrong.as_bytes())), "{wrong}");
        }
        assert!(!token.is_carried_by(None));
        assert_eq!(Token::parse("\n"), Err(TokenError::Empty));
        assert_eq!(Token::parse("a b"), Err(TokenError::Unprintable));
        assert!(!format!("{token:?}").contains("s3cret"));
    }

    #[test]
    fn a_world_is_given_by_its_sizes() {
        assert_eq!("static:2:4".parse(), Ok(WorldSource { min: 2, max: 4 }));
        assert_eq!("static:3".parse(), Ok(WorldSource { min: 3, max: 3 }));
        for wrong in ["2:4", "static:", "static:a:b", "static:1:2:3", "feed"] {
            assert_eq!(wrong.parse::<WorldSource>(), Err(WorldSourceError), "{wrong}");
        }
    }
}
