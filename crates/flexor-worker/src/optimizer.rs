//! Parses an optimizer such as `adagrad:learning_rate=0.05`.

use flexor_ps::spec::Optimizer;

use crate::description::{Description, DescriptionError};

const NAMES: &[&str] = &["sgd", "adagrad", "adam"];

/// Parses `sgd` (`learning_rate`, `momentum`, `nesterov`), `adagrad` (`learning_rate`, `epsilon`,
/// `initial_accumulator`) or `adam` (`learning_rate`, `beta1`, `beta2`, `epsilon`). The defaults are those of Keras.
pub fn read_optimizer(text: &str) -> Result<Optimizer, DescriptionError> {
    let description = Description::parse(text)?;
    let optimizer = optimizer_of(&description)?;
    match optimizer.check() {
        Ok(()) => Ok(optimizer),
        Err(problem) => {
            Err(DescriptionError::Unfit { name: description.name.to_owned(), problem: problem.to_string() })
        }
    }
}

fn optimizer_of(description: &Description<'_>) -> Result<Optimizer, DescriptionError> {
    let number = |option, default| description.option(option, default, positive);
    match description.name {
        "sgd" => {
            description.refuse_unknown(&["learning_rate", "momentum", "nesterov"])?;
            let nesterov = description.option("nesterov", false, |text| match text {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err("write true or false".to_owned()),
            })?;
            Ok(Optimizer::Sgd {
                learning_rate: number("learning_rate", 0.01)?,
                momentum: number("momentum", 0.0)?,
                nesterov,
            })
        }
        "adagrad" => {
            description.refuse_unknown(&["learning_rate", "epsilon", "initial_accumulator"])?;
            Ok(Optimizer::Adagrad {
                learning_rate: number("learning_rate", 0.001)?,
                epsilon: number("epsilon", 1e-7)?,
                initial_accumulator: number("initial_accumulator", 0.1)?,
            })
        }
        "adam" => {
            description.refuse_unknown(&["learning_rate", "beta1", "beta2", "epsilon"])?;
            Ok(Optimizer::Adam {
                learning_rate: number("learning_rate", 0.001)?,
                beta1: number("beta1", 0.9)?,
                beta2: number("beta2", 0.999)?,
                epsilon: number("epsilon", 1e-7)?,
            })
        }
        other => Err(DescriptionError::UnknownName { kind: "optimizer", name: other.to_owned(), known: NAMES }),
    }
}

fn positive(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        Ok(_) | Err(_) => Err("write a number that is not negative".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optimizer_is_a_name_with_options() {
        assert_eq!(read_optimizer("adam").unwrap(), Optimizer::adam(0.001));
        let sgd = Optimizer::Sgd { learning_rate: 0.5, momentum: 0.9, nesterov: true };
        assert_eq!(read_optimizer("sgd:learning_rate=0.5,momentum=0.9,nesterov=true").unwrap(), sgd);
    }

    #[test]
    fn mistakes_are_answered_with_what_would_be_right() {
        let message = read_optimizer("ftrl").unwrap_err().to_string();
        assert_eq!(message, "there is no optimizer \"ftrl\"; choose one of sgd, adagrad, adam");
        let message = read_optimizer("adam:learning_rate=-1").unwrap_err().to_string();
        assert_eq!(message, "adam: learning_rate=-1 is refused: write a number that is not negative");
        let message = read_optimizer("adam:beta1=1").unwrap_err().to_string();
        assert_eq!(message, "adam is refused: the beta1 is 1; it must be at least 0 and below 1");
        let message = read_optimizer("sgd:nesterov=true").unwrap_err().to_string();
        assert_eq!(message, "sgd is refused: nesterov needs a momentum above 0");
    }
}
