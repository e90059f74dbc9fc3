//! The secret that the parts of one job share: calls carry it, and services look for it.

use thiserror::Error;
use tonic::metadata::{AsciiMetadataValue, MetadataValue};
use tonic::{Request, Status};

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

impl Token {
    /// Refuses a call that does not carry it.
    pub fn check(&self, request: Request<()>) -> Result<Request<()>, Status> {
        let header = request.metadata().get("authorization").map(MetadataValue::as_bytes);
        if self.is_carried_by(header) {
            return Ok(request);
        }
        Err(Status::unauthenticated(
            "the call does not carry the job's token; name the file with it in FLEXOR_TOKEN_FILE, or with --token-file",
        ))
    }

    /// The value of the `authorization` header that carries it.
    pub fn bearer(&self) -> Option<AsciiMetadataValue> {
        format!("Bearer {}", self.0).parse().ok()
    }

    /// Puts it on every call of a client; without a token calls go as they are.
    pub fn carried(token: Option<&Token>) -> impl Fn(Request<()>) -> Result<Request<()>, Status> + Clone + use<> {
        let header = token.and_then(Token::bearer);
        move |mut request| {
            if let Some(header) = &header {
                request.metadata_mut().insert("authorization", header.clone());
            }
            Ok(request)
        }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
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
    fn what_is_carried_is_accepted() {
        let (token, other) = (Token::parse("s3cret").unwrap(), Token::parse("other").unwrap());
        let carried = Token::carried(Some(&token))(Request::new(())).unwrap();
        assert!(token.check(carried).is_ok());
        let carried = Token::carried(Some(&other))(Request::new(())).unwrap();
        assert!(token.check(carried).is_err());
        assert!(token.check(Token::carried(None)(Request::new(())).unwrap()).is_err());
    }
}
