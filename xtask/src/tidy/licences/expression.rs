//! A licence expression as manifests write it: `(MIT OR Apache-2.0) AND Unicode-3.0`.
//!
//! `AND` binds closer than `OR`, `WITH` belongs to the name before it, and `/` is an old form of `OR`. The caller
//! decides which names are acceptable.

/// The licences of a package.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expression {
    Name(String),
    /// The user chooses.
    AnyOf(Vec<Expression>),
    /// All apply.
    AllOf(Vec<Expression>),
}

impl Expression {
    /// Parses an expression, or returns the error.
    pub(super) fn parse(text: &str) -> Result<Expression, String> {
        let spaced = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let mut tokens = Tokens { tokens: spaced.split_whitespace().collect(), at: 0 };
        let expression = tokens.any_of()?;
        match tokens.peek() {
            None => Ok(expression),
            Some(word) => Err(format!("'{word}' is one too many")),
        }
    }

    /// Whether the package may be used under licences that `allowed` accepts.
    pub(super) fn holds(&self, allowed: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Expression::Name(name) => allowed(name),
            Expression::AnyOf(parts) => parts.iter().any(|part| part.holds(allowed)),
            Expression::AllOf(parts) => parts.iter().all(|part| part.holds(allowed)),
        }
    }
}

struct Tokens<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl Tokens<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).copied()
    }

    /// Skips `word` if it is next.
    fn skip(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn any_of(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.all_of()?];
        while self.skip("OR") {
            parts.push(self.all_of()?);
        }
        Ok(single_or(parts, Expression::AnyOf))
    }

    fn all_of(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.operand()?];
        while self.skip("AND") {
            parts.push(self.operand()?);
        }
        Ok(single_or(parts, Expression::AllOf))
    }

    fn operand(&mut self) -> Result<Expression, String> {
        if self.skip("(") {
            let inner = self.any_of()?;
            return if self.skip(")") { Ok(inner) } else { Err("a parenthesis is not closed".to_owned()) };
        }
        let mut name = self.name()?;
        if self.skip("WITH") {
            name = format!("{name} WITH {}", self.name()?);
        }
        Ok(Expression::Name(name))
    }

    fn name(&mut self) -> Result<String, String> {
        match self.peek() {
            None => Err("a name is missing at the end".to_owned()),
            Some(word @ ("AND" | "OR" | "WITH" | ")" | "(")) => Err(format!("a name is missing before '{word}'")),
            Some(word) => {
                let name = word.to_owned();
                self.at += 1;
                Ok(name)
            }
        }
    }
}

fn single_or(mut parts: Vec<Expression>, several: fn(Vec<Expression>) -> Expression) -> Expression {
    match (parts.pop(), parts.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            parts.extend(last);
            several(parts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(expression: &str, allowed: &[&str]) -> bool {
        Expression::parse(expression).unwrap().holds(&|name| allowed.contains(&name))
    }

    #[test]
    fn or_is_a_choice_and_and_is_not() {
        assert!(holds("MIT OR X", &["MIT"]) && holds("X/MIT", &["MIT"]));
        assert!(!holds("MIT AND X", &["MIT"]) && holds("MIT AND X", &["MIT", "X"]));
    }

    #[test]
    fn and_binds_closer_than_or() {
        assert!(holds("MIT OR X AND Y", &["MIT"]));
        assert!(!holds("(MIT OR X) AND Y", &["MIT"]));
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        assert!(holds("GPL WITH classpath OR X", &["GPL WITH classpath"]));
        assert!(!holds("GPL WITH classpath", &["GPL"]));
    }

    #[test]
    fn an_invalid_expression_is_reported() {
        for bad in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT Apache-2.0", "MIT WITH"] {
            assert!(Expression::parse(bad).is_err(), "{bad:?}");
        }
    }
}
