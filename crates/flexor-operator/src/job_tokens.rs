//! The token of each job: how its processes and its controller know each other.
//!
//! Tokens are derived from one key of the operator and the job's uid, so the operator never has to read a job's Secret.
//! The key is a Secret in the operator's own namespace, which the first operator there creates.

use flexor_wire::Token;
use hmac::{Hmac, Mac};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::Sha256;

use crate::OperatorError;

/// The Secret with the operator's key.
const KEY_SECRET: &str = "flexor-operator-key";
/// Its only entry.
const KEY: &str = "key";
const KEY_BYTES: usize = 32;

/// Makes the token of any job.
pub(crate) struct JobTokens(Vec<u8>);

impl JobTokens {
    /// Reads the key of the operators in a namespace, or creates it.
    pub(crate) async fn load(client: &Client, namespace: &str) -> Result<Self, OperatorError> {
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        let secret = match secrets.get_opt(KEY_SECRET).await? {
            Some(secret) => secret,
            None => match secrets.create(&PostParams::default(), &fresh_key()?).await {
                // Another operator was faster.
                Err(kube::Error::Api(status)) if status.is_already_exists() => secrets.get(KEY_SECRET).await?,
                created => created?,
            },
        };
        let key = secret.data.and_then(|mut data| data.remove(KEY)).unwrap_or_default().0;
        if key.len() < KEY_BYTES {
            return Err(OperatorError::Key { namespace: namespace.to_owned(), secret: KEY_SECRET });
        }
        Ok(Self(key))
    }

    /// The token of the job with this uid.
    pub(crate) fn of_job(&self, uid: &str) -> Token {
        Token::parse(&self.text(uid)).expect("hexadecimal digits are a token")
    }

    /// The same as text, for the job's Secret.
    pub(crate) fn text(&self, uid: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key may have any length");
        mac.update(uid.as_bytes());
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn fresh_key() -> Result<Secret, OperatorError> {
    let mut key = vec![0; KEY_BYTES];
    let mut source = std::fs::File::open("/dev/urandom").map_err(OperatorError::Random)?;
    std::io::Read::read_exact(&mut source, &mut key).map_err(OperatorError::Random)?;
    Ok(Secret {
        metadata: ObjectMeta { name: Some(KEY_SECRET.to_owned()), ..ObjectMeta::default() },
        data: Some([(KEY.to_owned(), ByteString(key))].into()),
        immutable: Some(true),
        ..Secret::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_a_token_of_its_own_that_stays() {
        let tokens = JobTokens(vec![7; KEY_BYTES]);
        assert_eq!(tokens.text("a"), tokens.text("a"));
        assert_ne!(tokens.text("a"), tokens.text("b"));
        assert_ne!(tokens.text("a"), JobTokens(vec![8; KEY_BYTES]).text("a"));
        assert_eq!(tokens.text("a").len(), 64);
        assert!(tokens.of_job("a").is_carried_by(Some(format!("Bearer {}", tokens.text("a")).as_bytes())));
    }

    #[test]
    fn a_fresh_key_is_random() {
        let key = |secret: Secret| secret.data.unwrap().remove(KEY).unwrap().0;
        let [first, second] = [fresh_key(), fresh_key()].map(|secret| key(secret.unwrap()));
        assert!(first.len() == KEY_BYTES && first != second);
    }
}
