//! TensorFlow's tensors as ElasticDL's workers send them: a shape and raw little-endian floats. All input is validated.

use flexor_wire::elasticdl as wire;
use thiserror::Error;

use super::Refusal;
use crate::little_endian::floats_as_bytes;
use crate::spec::{MAX_ELEMENTS, MAX_RANK};

/// The message is not a valid tensor of floats.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TensorError {
    #[error("its numbers have TensorFlow's type {0}; only 32-bit floats (type 1) are supported")]
    Type(i32),
    #[error("the shape {0:?} is outside the limits")]
    Shape(Vec<i64>),
    #[error("the shape {shape:?} needs {needs} bytes, but there are {bytes}")]
    Content { shape: Vec<u64>, needs: u64, bytes: usize },
}

/// A tensor with as many bytes as its shape needs.
#[derive(Debug, Clone)]
pub(super) struct Tensor<'a> {
    pub(super) shape: Vec<u64>,
    content: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// Decodes the tensor of `name`. A missing tensor is rejected like one without a type.
    pub(super) fn of(name: &str, proto: Option<&'a wire::TensorProto>) -> Result<Self, Refusal> {
        let refused = |why| Refusal::Tensor { name: name.to_owned(), why };
        match proto {
            Some(proto) => Self::decode(proto).map_err(refused),
            None => Err(refused(TensorError::Type(0))),
        }
    }

    fn decode(proto: &'a wire::TensorProto) -> Result<Self, TensorError> {
        if proto.dtype != wire::DataType::DtFloat as i32 {
            return Err(TensorError::Type(proto.dtype));
        }
        let sides = || proto.tensor_shape.iter().flat_map(|shape| &shape.dim).map(|side| side.size);
        let impossible = || TensorError::Shape(sides().take(MAX_RANK + 1).collect());
        let shape: Option<Vec<u64>> = sides().map(|side| u64::try_from(side).ok()).collect();
        let shape = shape.filter(|shape| shape.len() <= MAX_RANK).ok_or_else(impossible)?;
        let elements = shape.iter().try_fold(1_u64, |product, side| product.checked_mul(*side));
        let elements = elements.filter(|elements| *elements <= MAX_ELEMENTS).ok_or_else(impossible)?;
        let (needs, bytes) = (elements * 4, proto.tensor_content.len());
        match needs == bytes as u64 {
            true => Ok(Self { shape, content: &proto.tensor_content }),
            false => Err(TensorError::Content { shape, needs, bytes }),
        }
    }

    /// The elements, row-major.
    pub(super) fn floats(&self) -> Vec<f32> {
        let (chunks, _) = self.content.as_chunks::<4>();
        chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }
}

/// Encodes a tensor without copying the values.
pub(super) fn encode(shape: &[u64], values: Vec<f32>) -> wire::TensorProto {
    // At most 2^31 elements.
    let dim = shape.iter().map(|side| wire::tensor_shape_proto::Dim { size: *side as i64 }).collect();
    wire::TensorProto {
        dtype: wire::DataType::DtFloat as i32,
        tensor_shape: Some(wire::TensorShapeProto { dim }),
        tensor_content: floats_as_bytes(values),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn proto(dtype: i32, sides: &[i64], content: &[u8]) -> wire::TensorProto {
        let dim = sides.iter().map(|size| wire::tensor_shape_proto::Dim { size: *size }).collect();
        let tensor_shape = Some(wire::TensorShapeProto { dim });
        wire::TensorProto { dtype, tensor_shape, tensor_content: Bytes::copy_from_slice(content) }
    }

    fn refusal(dtype: i32, sides: &[i64], content: &[u8]) -> TensorError {
        Tensor::decode(&proto(dtype, sides, content)).unwrap_err()
    }

    #[test]
    fn an_invalid_tensor_is_rejected() {
        assert_eq!(refusal(2, &[1], &[0; 8]), TensorError::Type(2));
        assert_eq!(refusal(0, &[], &[]), TensorError::Type(0));
        assert_eq!(refusal(1, &[-1], &[0; 4]), TensorError::Shape(vec![-1]));
        assert_eq!(refusal(1, &[i64::MAX, i64::MAX], &[]), TensorError::Shape(vec![i64::MAX; 2]));
        assert_eq!(refusal(1, &[1; 17], &[0; 4]), TensorError::Shape(vec![1; 17]));
        assert_eq!(refusal(1, &[8], &[0; 3]), TensorError::Content { shape: vec![8], needs: 32, bytes: 3 });
        assert_eq!(refusal(1, &[], &[]), TensorError::Content { shape: vec![], needs: 4, bytes: 0 });
    }

    proptest! {
        #[test]
        fn an_encoded_tensor_decodes_back(rows in 0_u64..5, dim in 0_u64..5, seed: u32) {
            let values: Vec<f32> = (0..rows * dim).map(|i| i as f32 + seed as f32).collect();
            let sent = encode(&[rows, dim], values.clone());
            let read = Tensor::decode(&sent).unwrap();
            prop_assert_eq!((read.shape.clone(), read.floats()), (vec![rows, dim], values));
        }

        #[test]
        fn any_shape_and_bytes_decode_completely_or_are_rejected(
            dtype in 0_i32..3,
            sides in prop::collection::vec(prop_oneof![-1_i64..6, any::<i64>()], 0..5),
            content in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            if let Ok(tensor) = Tensor::decode(&proto(dtype, &sides, &content)) {
                prop_assert_eq!(tensor.floats().len() as u64, tensor.shape.iter().product::<u64>());
                prop_assert_eq!(tensor.floats().len() * 4, content.len());
            }
        }
    }
}
