//! The stream to the master: dialling, the job's token, and noticing that nobody is there any more.
//!
//! Each dial resolves the name and reads the token again, because a master that restarts may come back elsewhere and
//! tokens are replaced. What is said over the stream is the [relay's](super::Relay) business.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use flexor_wire::master::v1::{FromSidecar, ToSidecar, store_link_client::StoreLinkClient};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use super::relay::LinkFault;
use crate::codec::MAX_REQUEST;

/// Longest message on the link, for both sides to allow: an answer carries its reply and again the values in it.
pub const MAX_LINK_MESSAGE: usize = 4 * MAX_REQUEST;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// A peer that answers no ping is given up after this pause and this patience together.
const PING_EVERY: Duration = Duration::from_millis(1500);
const PING_WITHIN: Duration = Duration::from_secs(2);

/// Where the master is, and what it wants to see of us.
#[derive(Debug, Clone)]
pub struct Upstream {
    endpoint: Endpoint,
    token_file: Option<PathBuf>,
}

/// A master's address that is none.
#[derive(Debug, thiserror::Error)]
#[error("{address:?} is no address of a master; write HOST:PORT, such as my-job-master:50001")]
pub struct UpstreamError {
    address: String,
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("the job's token cannot be read from {}: {error}", path.display())]
    Token { path: PathBuf, error: std::io::Error },
    #[error("the job's token in {} has characters that no header may have", path.display())]
    OddToken { path: PathBuf },
    #[error("the master cannot be reached: {}", with_causes(.0))]
    Unreachable(#[source] tonic::transport::Error),
    #[error("the master has ended the link: {}: {}", .0.code(), .0.message())]
    Broken(Box<Status>),
    #[error("the master has ended the link")]
    Ended,
    #[error("the master has not said Welcome within {0:?}")]
    NoWelcome(Duration),
    #[error(transparent)]
    Fault(#[from] LinkFault),
}

impl Upstream {
    /// A master at `HOST:PORT`. Without a token file none is shown.
    pub fn new(address: &str, token_file: Option<PathBuf>) -> Result<Upstream, UpstreamError> {
        let wrong = || UpstreamError { address: address.to_owned() };
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|_| wrong())?;
        let authority =
            endpoint.uri().authority().filter(|authority| authority.as_str() == address).ok_or_else(wrong)?;
        if authority.host().is_empty() || authority.port_u16().is_none() {
            return Err(wrong());
        }
        let endpoint = endpoint
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_WITHIN)
            .keep_alive_while_idle(true);
        Ok(Upstream { endpoint, token_file })
    }

    /// A fresh channel to the master, and the message as a request that shows the job's token. In words, why not.
    pub async fn open<T>(&self, message: T) -> Result<(Channel, Request<T>), String> {
        let mut request = Request::new(message);
        if let Some(bearer) = self.bearer().map_err(|error| error.to_string())? {
            request.metadata_mut().insert("authorization", bearer);
        }
        let channel = self.endpoint.connect().await;
        let unreachable = |error: tonic::transport::Error| {
            format!("the master at {} cannot be reached: {}", self.endpoint.uri(), root_cause(&error))
        };
        Ok((channel.map_err(unreachable)?, request))
    }

    /// Opens a stream that sends what comes out of `messages`.
    pub(super) async fn dial(
        &self,
        messages: UnboundedReceiver<FromSidecar>,
    ) -> Result<Streaming<ToSidecar>, LinkError> {
        let mut request = Request::new(UnboundedReceiverStream::new(messages));
        if let Some(bearer) = self.bearer()? {
            request.metadata_mut().insert("authorization", bearer);
        }
        let channel = self.endpoint.connect().await.map_err(LinkError::Unreachable)?;
        let answer = client(channel).link(request).await.map_err(|status| LinkError::Broken(Box::new(status)))?;
        Ok(answer.into_inner())
    }

    fn bearer(&self) -> Result<Option<MetadataValue<Ascii>>, LinkError> {
        let Some(path) = self.token_file.clone() else { return Ok(None) };
        let token = match std::fs::read_to_string(&path) {
            Ok(token) => token,
            Err(error) => return Err(LinkError::Token { path, error }),
        };
        let bearer = format!("Bearer {}", token.trim()).parse();
        bearer.map(Some).map_err(|_| LinkError::OddToken { path })
    }
}

/// What the causes of an error come down to.
fn root_cause(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

fn client(channel: Channel) -> StoreLinkClient<Channel> {
    StoreLinkClient::new(channel)
        .max_decoding_message_size(MAX_LINK_MESSAGE)
        .max_encoding_message_size(MAX_LINK_MESSAGE)
}

/// An error and what caused it: by itself tonic's says "transport error".
fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for address in ["master:50001", "127.0.0.1:1", "[::1]:50001", "master.ns.svc.cluster.local:50001"] {
            assert!(Upstream::new(address, None).is_ok(), "{address}");
        }
        for address in ["", "master", ":50001", "master:", "master:port", "http://master:1", "a:1/b", "a:1?b", "a b:1"]
        {
            let said = Upstream::new(address, None).map(|_| ()).unwrap_err().to_string();
            assert!(said.contains("HOST:PORT"), "{said}");
        }
    }

    #[test]
    fn the_token_is_read_anew_for_every_dial() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let upstream = Upstream::new("master:50001", Some(path.clone())).unwrap();
        let said = upstream.bearer().unwrap_err().to_string();
        assert!(said.contains("token cannot be read") && said.contains("token"), "{said}");
        for token in ["first", "second"] {
            std::fs::write(&path, format!("{token}\n")).unwrap();
            assert_eq!(upstream.bearer().unwrap().unwrap(), format!("Bearer {token}"));
        }
        std::fs::write(&path, "two\nlines").unwrap();
        assert!(matches!(upstream.bearer(), Err(LinkError::OddToken { .. })));
    }
}
