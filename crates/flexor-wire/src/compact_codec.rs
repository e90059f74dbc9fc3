//! How messages are written into a stream: as prost writes them, with small buffers.
//!
//! Every open stream keeps a buffer for each direction. A master has thousands of streams open on which hardly anything
//! is said, and most messages have fewer than a hundred bytes; tonic's own 8 KiB would be most of its memory. Buffers
//! grow for longer messages.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

const BUFFER: usize = 512;
/// How many bytes of waiting messages are sent at a time, as tonic has it.
const SENT_TOGETHER: usize = 32 << 10;

/// The codec of all services of ours.
#[derive(Debug, Clone)]
pub struct CompactCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for CompactCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for CompactCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER, SENT_TOGETHER))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER, SENT_TOGETHER))
    }
}
