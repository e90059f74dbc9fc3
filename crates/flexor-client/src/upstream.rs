//! The master of a job as its clients see it: an address and a token.
//!
//! Each connection resolves the name and reads a token file anew: a master that restarts may come back at another
//! address, and tokens are replaced. Keep-alive pings notice within seconds that the other end is gone.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use flexor_wire::Token;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint, Uri};

use crate::token_file::{self, TokenFileError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A peer that answers no ping is given up after this interval and this timeout together.
const PING_INTERVAL: Duration = Duration::from_millis(1500);
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Address of the master, and the token that its calls carry.
#[derive(Debug, Clone)]
pub struct Upstream {
    endpoint: Endpoint,
    token: TokenSource,
}

/// Where the job's token comes from.
#[derive(Debug, Clone, Default)]
pub enum TokenSource {
    /// Calls carry no token.
    #[default]
    Absent,
    Value(Token),
    /// Read anew for every connection.
    File(PathBuf),
}

impl From<Option<PathBuf>> for TokenSource {
    fn from(file: Option<PathBuf>) -> Self {
        file.map_or(Self::Absent, Self::File)
    }
}

impl From<Option<Token>> for TokenSource {
    fn from(token: Option<Token>) -> Self {
        token.map_or(Self::Absent, Self::Value)
    }
}

/// Text that is no address of a master.
#[derive(Debug, thiserror::Error)]
#[error("{address:?} is no address of a master; write HOST:PORT, such as my-job-master:50001")]
pub struct AddressError {
    address: String,
}

/// Why there is no connection to the master.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Token(#[from] TokenFileError),
    #[error("the master at {address} cannot be reached: {}", root_cause(error))]
    Unreachable { address: Uri, error: tonic::transport::Error },
}

impl Upstream {
    /// A master at `HOST:PORT`.
    pub fn new(address: &str, token: impl Into<TokenSource>) -> Result<Self, AddressError> {
        let invalid = || AddressError { address: address.to_owned() };
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|_| invalid())?;
        let authority =
            endpoint.uri().authority().filter(|authority| authority.as_str() == address).ok_or_else(invalid)?;
        if authority.host().is_empty() || authority.port_u16().is_none() {
            return Err(invalid());
        }
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        Ok(Self { endpoint, token: token.into() })
    }

    /// Connects, and makes `message` a request that carries the job's token.
    pub async fn connect<T>(&self, message: T) -> Result<(Channel, Request<T>), ConnectError> {
        let mut request = Request::new(message);
        if let Some(bearer) = self.bearer()? {
            request.metadata_mut().insert("authorization", bearer);
        }
        match self.endpoint.connect().await {
            Ok(channel) => Ok((channel, request)),
            Err(error) => Err(ConnectError::Unreachable { address: self.endpoint.uri().clone(), error }),
        }
    }

    fn bearer(&self) -> Result<Option<MetadataValue<Ascii>>, TokenFileError> {
        Ok(match &self.token {
            TokenSource::Absent => None,
            TokenSource::Value(token) => token.bearer(),
            TokenSource::File(path) => token_file::read(path)?.bearer(),
        })
    }
}

/// The last cause of an error: tonic's own text is only "transport error".
fn root_cause(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for address in ["master:50001", "127.0.0.1:1", "[::1]:50001", "master.ns.svc.cluster.local:50001"] {
            assert!(Upstream::new(address, TokenSource::Absent).is_ok(), "{address}");
        }
        for address in ["", "master", ":50001", "master:", "master:port", "http://master:1", "a:1/b", "a:1?b", "a b:1"]
        {
            let message = Upstream::new(address, TokenSource::Absent).map(|_| ()).unwrap_err().to_string();
            assert!(message.contains("HOST:PORT"), "{message}");
        }
    }

    #[test]
    fn a_token_file_is_read_anew_for_every_connection() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let upstream = Upstream::new("master:50001", Some(path.clone())).unwrap();
        let message = upstream.bearer().unwrap_err().to_string();
        assert!(message.contains("token cannot be read") && message.contains("token"), "{message}");
        for token in ["first", "second"] {
            std::fs::write(&path, format!("{token}\n")).unwrap();
            assert_eq!(upstream.bearer().unwrap().unwrap(), format!("Bearer {token}"));
        }
        std::fs::write(&path, "two\nlines").unwrap();
        assert!(matches!(upstream.bearer(), Err(TokenFileError::Invalid { .. })));
    }

    #[test]
    fn a_token_value_is_carried_as_it_is() {
        let token = Token::parse("s3cret").unwrap();
        let upstream = Upstream::new("master:50001", Some(token)).unwrap();
        assert_eq!(upstream.bearer().unwrap().unwrap(), "Bearer s3cret");
    }

    #[tokio::test]
    async fn a_master_that_is_away_is_named_with_the_cause() {
        let upstream = Upstream::new("127.0.0.1:1", TokenSource::Absent).unwrap();
        let message = upstream.connect(()).await.map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("127.0.0.1:1") && message.contains("refused"), "{message}");
    }
}
