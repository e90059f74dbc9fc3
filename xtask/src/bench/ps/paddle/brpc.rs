//! brpc calls at wire level (`baidu_std`): prepared request bytes, and answers of which only success and length count.

use anyhow::{Context, Result, ensure};
use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const MAGIC: &[u8; 4] = b"PRPC";
/// The magic, the length of the rest, and the length of the meta part, which comes first.
const HEADER: usize = 12;

/// brpc's metadata of a call and of its answer.
#[derive(Message)]
struct Meta {
    #[prost(message, optional, tag = "1")]
    request: Option<Method>,
    #[prost(message, optional, tag = "2")]
    response: Option<Outcome>,
    #[prost(int64, optional, tag = "4")]
    correlation_id: Option<i64>,
    #[prost(int32, optional, tag = "5")]
    attachment_size: Option<i32>,
}

#[derive(Message)]
struct Method {
    #[prost(string, required, tag = "1")]
    service_name: String,
    #[prost(string, required, tag = "2")]
    method_name: String,
}

#[derive(Message)]
struct Outcome {
    #[prost(int32, optional, tag = "1")]
    error_code: Option<i32>,
    #[prost(string, optional, tag = "2")]
    error_text: Option<String>,
}

/// A request to the parameter server; `PsRequestMessage` there.
#[derive(Message)]
pub(super) struct PsRequest {
    #[prost(uint32, required, tag = "1")]
    pub(super) command: u32,
    #[prost(uint32, optional, tag = "2")]
    pub(super) table: Option<u32>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(super) params: Vec<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub(super) data: Option<Bytes>,
}

/// Its answer, without the attachment; `PsResponseMessage` there.
#[derive(Message)]
struct PsResponse {
    #[prost(int32, required, tag = "1")]
    error_code: i32,
    #[prost(string, required, tag = "2")]
    error_text: String,
}

/// A call of the parameter server's only method.
pub(super) fn framed(request: &PsRequest, attachment: &[u8]) -> Bytes {
    let method = Method { service_name: "paddle.distributed.PsService".to_owned(), method_name: "service".to_owned() };
    let meta = Meta {
        request: Some(method),
        response: None,
        correlation_id: Some(1),
        // The longest has 600 kB.
        attachment_size: Some(attachment.len() as i32),
    };
    let (meta, request) = (meta.encode_to_vec(), request.encode_to_vec());
    let len = meta.len() + request.len() + attachment.len();
    let mut bytes = BytesMut::with_capacity(HEADER + len);
    bytes.put_slice(MAGIC);
    // The longest has 14 MB.
    bytes.put_u32(len as u32);
    bytes.put_u32(meta.len() as u32);
    bytes.put_slice(&meta);
    bytes.put_slice(&request);
    bytes.put_slice(attachment);
    bytes.freeze()
}

/// A connection with one call under way.
pub(super) struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.context("PaddlePaddle's server does not serve")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::new() })
    }

    /// Sends a call; its answer must have an attachment of this many bytes.
    pub(super) async fn ask(&mut self, call: &[u8], attached: usize) -> Result<()> {
        self.stream.write_all(call).await?;
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header).await?;
        let [magic, len, meta] = [0, 4, 8].map(|at| [header[at], header[at + 1], header[at + 2], header[at + 3]]);
        ensure!(&magic == MAGIC, "an answer that is not brpc's: {header:?}");
        let (len, meta) = (u32::from_be_bytes(len) as usize, u32::from_be_bytes(meta) as usize);
        self.answer.resize(len, 0);
        self.stream.read_exact(&mut self.answer).await?;
        let (meta, body) = self.answer.split_at_checked(meta).context("an answer that is cut off")?;
        let meta = Meta::decode(meta)?;
        if let Some(Outcome { error_code: Some(code), error_text }) = meta.response {
            ensure!(code == 0, "brpc refuses ({code}): {}", error_text.unwrap_or_default());
        }
        let got = usize::try_from(meta.attachment_size.unwrap_or(0))?;
        let response = body.get(..body.len().saturating_sub(got)).unwrap_or_default();
        let response = PsResponse::decode(response)?;
        let (code, text) = (response.error_code, response.error_text);
        ensure!(code == 0, "PaddlePaddle's server refuses ({code}): {text}");
        ensure!(got == attached, "an attachment of {got} bytes, not {attached}");
        Ok(())
    }
}
