//! The choice of a model and its size, such as `deepfm:dim=8,hidden=64x32`.

use std::fmt;
use std::str::FromStr;

use flexor_ps::spec::Optimizer;

use super::{Cross, DeepFm, Logistic, Mlp, Model, WideDeep};
use crate::Inputs;
use crate::description::{Description, DescriptionError, whole};

/// A built-in model with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Architecture {
    /// `logistic`: logistic regression.
    Logistic,
    /// `wide-deep`: options `dim`, `hidden` and `crosses`, pairs of fields such as `0x1+2x5`.
    WideDeep {
        /// Values per embedding.
        dim: usize,
        hidden: Hidden,
        /// Pairs of fields whose combinations have weights of their own.
        crosses: Vec<Cross>,
    },
    /// `deepfm`: options `dim` and `hidden`.
    DeepFm {
        /// Values per embedding.
        dim: usize,
        hidden: Hidden,
    },
    /// `mlp`: option `hidden`.
    Mlp { hidden: Hidden },
}

/// The widths of the hidden layers, from the input on; written `64x32`, or `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden(pub Vec<usize>);

/// Why a model cannot learn from the records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnfitInputs {
    /// The records have no categorical fields.
    #[error("{0} learns from categorical fields, and these records have none; try mlp")]
    NoFields(&'static str),
    /// The records have no numbers.
    #[error("mlp learns from numbers, and these records have none; try logistic or deepfm")]
    NoNumbers,
    /// The model would ignore the categorical fields.
    #[error("mlp learns from numbers alone, and these records have {0} categorical fields; try wide-deep or deepfm")]
    UnusedFields(usize),
    /// The labels are not binary.
    #[error("{name} is a binary model, and these records have {classes} classes; try mlp")]
    Classes { name: &'static str, classes: u32 },
    /// A crossed field does not exist.
    #[error("crosses={cross} names a field that does not exist; these records have fields 0 to {last}")]
    NoSuchField { cross: Cross, last: usize },
}

const NAMES: &[&str] = &["logistic", "wide-deep", "deepfm", "mlp"];
const MOST_LAYERS: usize = 8;
const WIDEST: usize = 4096;

impl Architecture {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Logistic => "logistic",
            Self::WideDeep { .. } => "wide-deep",
            Self::DeepFm { .. } => "deepfm",
            Self::Mlp { .. } => "mlp",
        }
    }

    /// Builds the model for records of this width.
    pub fn build(&self, inputs: Inputs) -> Result<Box<dyn Model>, UnfitInputs> {
        let name = self.name();
        match self {
            Self::Mlp { .. } if inputs.fields > 0 => return Err(UnfitInputs::UnusedFields(inputs.fields)),
            Self::Mlp { .. } if inputs.numbers == 0 => return Err(UnfitInputs::NoNumbers),
            Self::Mlp { .. } => {}
            Self::Logistic | Self::WideDeep { .. } | Self::DeepFm { .. } if inputs.classes != 2 => {
                return Err(UnfitInputs::Classes { name, classes: inputs.classes });
            }
            Self::WideDeep { .. } | Self::DeepFm { .. } if inputs.fields == 0 => {
                return Err(UnfitInputs::NoFields(name));
            }
            Self::Logistic | Self::WideDeep { .. } | Self::DeepFm { .. } => {}
        }
        Ok(match self {
            Self::Logistic => Box::new(Logistic::new(inputs)),
            Self::WideDeep { dim, hidden, crosses } => {
                if let Some(cross) = crosses.iter().find(|cross| cross.0.max(cross.1) >= inputs.fields) {
                    return Err(UnfitInputs::NoSuchField { cross: *cross, last: inputs.fields - 1 });
                }
                Box::new(WideDeep::new(inputs, crosses, *dim, &hidden.0))
            }
            Self::DeepFm { dim, hidden } => Box::new(DeepFm::new(inputs, *dim, &hidden.0)),
            Self::Mlp { hidden } => Box::new(Mlp::new(inputs, &hidden.0)),
        })
    }

    /// The default optimizer.
    pub fn default_optimizer(&self) -> Optimizer {
        match self {
            // The gradient is a mean over a batch, so a row used by few records has a small one. With Keras'
            // accumulator of 0.1 such rows would hardly move.
            Self::Logistic | Self::WideDeep { .. } | Self::DeepFm { .. } => {
                Optimizer::Adagrad { learning_rate: 0.1, epsilon: 1e-7, initial_accumulator: 1e-3 }
            }
            Self::Mlp { .. } => Optimizer::adam(0.001),
        }
    }
}

impl FromStr for Architecture {
    type Err = DescriptionError;

    fn from_str(text: &str) -> Result<Self, DescriptionError> {
        let description = Description::parse(text)?;
        let dim = || description.option("dim", 8, whole(1, 512));
        let hidden = |default: &[usize]| description.option("hidden", Hidden(default.to_vec()), str::parse);
        match description.name {
            "logistic" => {
                description.refuse_unknown(&[])?;
                Ok(Self::Logistic)
            }
            "wide-deep" => {
                description.refuse_unknown(&["dim", "hidden", "crosses"])?;
                let crosses = description.option("crosses", Vec::new(), read_crosses)?;
                Ok(Self::WideDeep { dim: dim()?, hidden: hidden(&[64, 32])?, crosses })
            }
            "deepfm" => {
                description.refuse_unknown(&["dim", "hidden"])?;
                Ok(Self::DeepFm { dim: dim()?, hidden: hidden(&[64, 32])? })
            }
            "mlp" => {
                description.refuse_unknown(&["hidden"])?;
                Ok(Self::Mlp { hidden: hidden(&[128])? })
            }
            other => Err(DescriptionError::UnknownName { kind: "model", name: other.to_owned(), known: NAMES }),
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Logistic => Ok(()),
            Self::WideDeep { dim, hidden, crosses } => {
                write!(f, ":dim={dim},hidden={hidden}")?;
                let crosses: Vec<String> = crosses.iter().map(Cross::to_string).collect();
                if crosses.is_empty() { Ok(()) } else { write!(f, ",crosses={}", crosses.join("+")) }
            }
            Self::DeepFm { dim, hidden } => write!(f, ":dim={dim},hidden={hidden}"),
            Self::Mlp { hidden } => write!(f, ":hidden={hidden}"),
        }
    }
}

impl FromStr for Hidden {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let widths: Result<Vec<usize>, _> = text.split('x').map(whole(1, WIDEST)).collect();
        match widths {
            Ok(widths) if widths.len() <= MOST_LAYERS => Ok(Self(widths)),
            Ok(_) | Err(_) => Err(format!(
                "write the widths of up to {MOST_LAYERS} layers, each from 1 to {WIDEST}, as 64x32, or none"
            )),
        }
    }
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let widths: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&widths.join("x"))
    }
}

fn read_crosses(text: &str) -> Result<Vec<Cross>, String> {
    let field = |text: &str| text.trim().parse::<usize>().ok();
    let crosses = text.split('+').map(|pair| {
        let (first, second) = pair.split_once('x')?;
        Some(Cross(field(first)?, field(second)?)).filter(|cross| cross.0 != cross.1)
    });
    crosses.collect::<Option<_>>().ok_or_else(|| "write pairs of two fields, by their numbers, as 0x1+2x5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLICKS: Inputs = Inputs { fields: 10, numbers: 4, classes: 2 };
    const DIGITS: Inputs = Inputs { fields: 0, numbers: 784, classes: 10 };

    #[test]
    fn a_description_reads_back() {
        for text in [
            "logistic",
            "deepfm:dim=16,hidden=128x64",
            "deepfm:dim=1,hidden=none",
            "wide-deep:dim=8,hidden=64x32,crosses=0x1+2x5",
            "mlp:hidden=128",
        ] {
            assert_eq!(text.parse::<Architecture>().unwrap().to_string(), text);
        }
        assert_eq!("deepfm".parse::<Architecture>().unwrap().to_string(), "deepfm:dim=8,hidden=64x32");
    }

    #[test]
    fn mistakes_are_answered_with_what_would_be_right() {
        let error = |text: &str| text.parse::<Architecture>().unwrap_err().to_string();
        assert_eq!(error("deepfn"), "there is no model \"deepfn\"; choose one of logistic, wide-deep, deepfm, mlp");
        assert_eq!(error("logistic:dim=8"), "logistic has no option \"dim\"; it has none");
        assert_eq!(error("mlp:width=8"), "mlp has no option \"width\"; it has hidden");
        assert_eq!(error("deepfm:dim=0"), "deepfm: dim=0 is refused: write a whole number from 1 to 512");
        assert_eq!(
            error("deepfm:hidden=64,32"),
            "\"32\" is no option of deepfm; write it as OPTION=VALUE, several with commas between"
        );
        assert_eq!(
            error("deepfm:hidden=64xmany"),
            "deepfm: hidden=64xmany is refused: write the widths of up to 8 layers, each from 1 to 4096, as 64x32, or none"
        );
        assert_eq!(
            error("wide-deep:crosses=1x1"),
            "wide-deep: crosses=1x1 is refused: write pairs of two fields, by their numbers, as 0x1+2x5"
        );
    }

    #[test]
    fn a_model_that_cannot_learn_from_the_records_says_which_could() {
        let error = |text: &str, inputs| text.parse::<Architecture>().unwrap().build(inputs).err().unwrap().to_string();
        assert_eq!(error("deepfm", DIGITS), "deepfm is a binary model, and these records have 10 classes; try mlp");
        assert_eq!(
            error("mlp", CLICKS),
            "mlp learns from numbers alone, and these records have 10 categorical fields; try wide-deep or deepfm"
        );
        assert_eq!(
            error("wide-deep:crosses=0x10", CLICKS),
            "crosses=0x10 names a field that does not exist; these records have fields 0 to 9"
        );
        let numbers_only = Inputs { fields: 0, ..CLICKS };
        assert_eq!(
            error("deepfm", numbers_only),
            "deepfm learns from categorical fields, and these records have none; try mlp"
        );
    }

    #[test]
    fn checkpoints_find_their_variables_and_tables() {
        let declared = |text: &str, inputs| {
            let model = text.parse::<Architecture>().unwrap().build(inputs).unwrap();
            let declaration = model.declaration();
            declaration.with(Optimizer::sgd(0.1), 1).check().unwrap();
            let tables = declaration.tables.iter().map(|table| format!("{}[{}]", table.name, table.dim));
            let variables =
                declaration.variables.iter().map(|variable| format!("{}{:?}", variable.name, variable.shape));
            tables.chain(variables).collect::<Vec<_>>()
        };
        assert_eq!(declared("logistic", CLICKS), ["linear[1]", "linear/numbers[4]", "linear/bias[1]"]);
        assert_eq!(
            declared("deepfm", CLICKS),
            [
                "embedding[9]",
                "linear/numbers[4]",
                "deep/0/weight[84, 64]",
                "deep/0/bias[64]",
                "deep/1/weight[64, 32]",
                "deep/1/bias[32]",
                "deep/2/weight[32, 1]",
                "deep/2/bias[1]"
            ]
        );
        assert_eq!(
            declared("wide-deep:hidden=16", CLICKS),
            [
                "wide[1]",
                "embedding[8]",
                "wide/numbers[4]",
                "deep/0/weight[84, 16]",
                "deep/0/bias[16]",
                "deep/1/weight[16, 1]",
                "deep/1/bias[1]"
            ]
        );
        assert_eq!(
            declared("mlp", DIGITS),
            ["deep/0/weight[784, 128]", "deep/0/bias[128]", "deep/1/weight[128, 10]", "deep/1/bias[10]"]
        );
    }
}
