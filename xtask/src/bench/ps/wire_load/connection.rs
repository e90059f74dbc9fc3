//! gRPC calls at wire level: prepared request bytes, and answers of which only the length counts. A client that decoded
//! its answers would be the bottleneck of the race.

use anyhow::{Context, Result, ensure};
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request, StatusCode};
use prost::Message;
use tokio::net::TcpStream;

/// As much as an answer can have, so that no server waits for its client.
const WINDOW: u32 = 64 << 20;
/// The prefix of a message: whether it is compressed, and its length.
const FRAME: usize = 5;

/// A message as a call carries it.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let len = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(FRAME + len);
    bytes.put_u8(0);
    // The longest has 13 MB.
    bytes.put_u32(len as u32);
    bytes.put_slice(&message.encode_to_vec());
    bytes.freeze()
}

/// A connection for calls of one method.
pub(super) struct Connection {
    calls: SendRequest<Bytes>,
    uri: String,
}

impl Connection {
    pub(super) async fn open(port: u16, method: &str) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.context("the server does not serve")?;
        stream.set_nodelay(true)?;
        let mut settings = h2::client::Builder::new();
        settings.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
        let (calls, connection) = settings.handshake(stream).await?;
        tokio::spawn(connection);
        Ok(Self { calls, uri: format!("http://127.0.0.1:{port}{method}") })
    }

    /// Sends a request; its answer must have at least this many bytes.
    pub(super) async fn ask(&mut self, request: Bytes, least: usize) -> Result<()> {
        let call = Request::post(&self.uri).header("content-type", "application/grpc").header("te", "trailers");
        let mut calls = self.calls.clone().ready().await?;
        let (answer, mut body) = calls.send_request(call.body(())?, false)?;
        body.send_data(request, true)?;
        let answer = answer.await?;
        ensure!(answer.status() == StatusCode::OK, "the server answers {}", answer.status());
        succeeded(answer.headers())?;
        let mut data = answer.into_body();
        let mut bytes = 0;
        while let Some(part) = data.data().await {
            let part = part?;
            bytes += part.len();
            data.flow_control().release_capacity(part.len())?;
        }
        succeeded(&data.trailers().await?.unwrap_or_default())?;
        ensure!(bytes > FRAME && bytes >= FRAME + least, "an answer of {bytes} bytes, not {least}");
        Ok(())
    }
}

/// Checks gRPC's status, which is in the headers of an answer without a body, and otherwise in the trailers.
fn succeeded(headers: &HeaderMap) -> Result<()> {
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let status = text("grpc-status").unwrap_or_else(|| "0".to_owned());
    ensure!(status == "0", "the server refuses: {}", text("grpc-message").unwrap_or(status));
    Ok(())
}
