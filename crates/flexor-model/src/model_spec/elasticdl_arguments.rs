//! ElasticDL's notation of an optimizer: `opt_type` and `opt_args` of its command line.

use super::{Optimizer, OptimizerError};

impl Optimizer {
    /// Parses ElasticDL's `opt_type` and `opt_args` (`learning_rate=0.1;momentum=0.0;nesterov=False;`).
    ///
    /// Adagrad also accepts Keras' `initial_accumulator_value`, which ElasticDL never passes on. Without it the
    /// accumulator starts at 0, as in ElasticDL.
    pub fn from_elasticdl(opt_type: &str, opt_args: &str) -> Result<Self, OptimizerError> {
        let mut given = Arguments::parse(opt_args)?;
        let optimizer = match opt_type {
            "SGD" => Self::Sgd {
                learning_rate: given.number("SGD", "learning_rate")?,
                momentum: given.number("SGD", "momentum")?,
                nesterov: given.flag("SGD", "nesterov")?,
            },
            "Adagrad" => Self::Adagrad {
                learning_rate: given.number("Adagrad", "learning_rate")?,
                epsilon: given.number("Adagrad", "epsilon")?,
                initial_accumulator: match given.has("initial_accumulator_value") {
                    true => given.number("Adagrad", "initial_accumulator_value")?,
                    false => 0.0,
                },
            },
            "Adam" => {
                let adam = Self::Adam {
                    learning_rate: given.number("Adam", "learning_rate")?,
                    beta1: given.number("Adam", "beta_1")?,
                    beta2: given.number("Adam", "beta_2")?,
                    epsilon: given.number("Adam", "epsilon")?,
                };
                if given.flag("Adam", "amsgrad")? {
                    return Err(OptimizerError::Amsgrad);
                }
                adam
            }
            other => return Err(OptimizerError::Unknown(other.to_owned())),
        };
        given.check_empty(optimizer.name())?;
        // Keras may pass nesterov=True with momentum=0.0, where it has no effect.
        let optimizer = match optimizer {
            Self::Sgd { learning_rate, momentum: 0.0, nesterov: true } => Self::sgd(learning_rate),
            other => other,
        };
        optimizer.check().map(|()| optimizer)
    }
}

/// The arguments of `opt_args` that were not consumed yet.
struct Arguments<'a> {
    left: Vec<(&'a str, &'a str)>,
    known: Vec<&'static str>,
}

impl<'a> Arguments<'a> {
    fn parse(text: &'a str) -> Result<Self, OptimizerError> {
        let pieces = text.split(';').map(str::trim).filter(|piece| !piece.is_empty());
        let pairs = pieces.map(|piece| match piece.split_once('=') {
            Some((name, value)) => Ok((name.trim(), value.trim())),
            None => Err(OptimizerError::Argument(piece.to_owned())),
        });
        Ok(Self { left: pairs.collect::<Result<_, _>>()?, known: Vec::new() })
    }

    fn has(&self, name: &str) -> bool {
        self.left.iter().any(|(given, _)| *given == name)
    }

    fn take(&mut self, optimizer: &'static str, argument: &'static str) -> Result<&'a str, OptimizerError> {
        self.known.push(argument);
        let index = self.left.iter().position(|(given, _)| *given == argument);
        index.map(|index| self.left.remove(index).1).ok_or(OptimizerError::Missing { optimizer, argument })
    }

    fn number(&mut self, optimizer: &'static str, argument: &'static str) -> Result<f32, OptimizerError> {
        let text = self.take(optimizer, argument)?;
        text.parse().map_err(|_| OptimizerError::Argument(format!("{argument}={text}")))
    }

    fn flag(&mut self, optimizer: &'static str, argument: &'static str) -> Result<bool, OptimizerError> {
        match self.take(optimizer, argument)? {
            "True" | "true" => Ok(true),
            "False" | "false" => Ok(false),
            text => Err(OptimizerError::Argument(format!("{argument}={text}"))),
        }
    }

    fn check_empty(&self, optimizer: &'static str) -> Result<(), OptimizerError> {
        match self.left.first() {
            None => Ok(()),
            Some((argument, _)) => {
                let known = self.known.join(", ");
                Err(OptimizerError::Surplus { optimizer, argument: (*argument).to_owned(), known })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_elasticdl_are_parsed() {
        let sgd = Optimizer::from_elasticdl("SGD", "learning_rate=0.1;momentum=0.0;nesterov=False;");
        assert_eq!(sgd, Ok(Optimizer::sgd(0.1)));
        let adam = Optimizer::from_elasticdl(
            "Adam",
            "learning_rate=0.001;beta_1=0.9;beta_2=0.999;epsilon=1e-07;amsgrad=False;",
        );
        assert_eq!(adam, Ok(Optimizer::adam(0.001)));
        let adagrad = Optimizer::from_elasticdl("Adagrad", "learning_rate=0.1;epsilon=1e-07");
        assert_eq!(adagrad.unwrap().initial_slot(), 0.0);
        let accumulated =
            Optimizer::from_elasticdl("Adagrad", "learning_rate=0.1;epsilon=1e-07;initial_accumulator_value=0.1");
        assert_eq!(accumulated, Ok(Optimizer::adagrad(0.1)));
    }

    #[test]
    fn invalid_arguments_are_rejected_by_name() {
        let refusal = |kind: &str, args: &str| Optimizer::from_elasticdl(kind, args).unwrap_err().to_string();
        assert_eq!(refusal("RMSprop", ""), "no optimizer 'RMSprop'; there are SGD, Adagrad and Adam");
        assert_eq!(refusal("SGD", "learning_rate=0.1"), "SGD needs the argument 'momentum'");
        assert!(refusal("SGD", "learning_rate").contains("'learning_rate' is not an argument"));
        assert!(refusal("Adagrad", "learning_rate=x;epsilon=0").contains("'learning_rate=x'"));
        assert_eq!(
            refusal("Adagrad", "learning_rate=1;epsilon=0;decay=1"),
            "Adagrad has no argument 'decay'; it has learning_rate, epsilon"
        );
        assert!(refusal("SGD", "learning_rate=nan;momentum=0;nesterov=False").contains("learning rate is NaN"));
        let amsgrad = "learning_rate=0.1;beta_1=0.9;beta_2=0.999;epsilon=0;amsgrad=True";
        assert!(refusal("Adam", amsgrad).contains("amsgrad"));
    }
}
