//! Whoever shows the job to people, such as a controller: what is new for it, and what it has been told.
//!
//! A worker ends when its last words are answered, and with the last worker the job. So words that are to be shown at once
//! are answered when whoever listens has been told; a master that took over a moment ago waits for who listened before.

use std::time::Duration;

use tokio::sync::watch;

/// How long words wait to be passed on.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who listens.
#[derive(Debug, Default)]
pub(crate) struct Audience {
    /// How many words there were.
    said: watch::Sender<u64>,
    told: watch::Sender<Told>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Told {
    listeners: u32,
    words: u64,
}

/// Somebody who listens, as long as this is there.
pub(crate) struct Listener<'a>(&'a Audience);

impl Audience {
    /// Something was reported that is to be shown at once; how many such words there were.
    pub(crate) fn say(&self) -> u64 {
        self.said.send_modify(|words| *words += 1);
        *self.said.borrow()
    }

    /// Moves on with every word.
    pub(crate) fn said(&self) -> watch::Receiver<u64> {
        self.said.subscribe()
    }

    /// Somebody listens.
    pub(crate) fn listen(&self) -> Listener<'_> {
        self.told.send_modify(|told| told.listeners += 1);
        Listener(self)
    }

    /// Waits until so many words were passed on: not where nobody listens, unless somebody is about to.
    pub(crate) async fn has_heard(&self, words: u64, is_awaited: bool) {
        let mut told = self.told.subscribe();
        let is_over = |told: &Told| match told.listeners {
            0 => !is_awaited,
            _ => told.words >= words,
        };
        // Whoever does not hear it then may still ask.
        let _ = tokio::time::timeout(PATIENCE, told.wait_for(is_over)).await;
    }
}

impl Listener<'_> {
    /// It was told everything up to this word.
    pub(crate) fn heard(&self, words: u64) {
        self.0.told.send_if_modified(|told| {
            let is_news = told.words < words;
            told.words = told.words.max(words);
            is_news
        });
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.0.told.send_modify(|told| told.listeners -= 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn words_are_passed_on_before_they_are_answered() {
        let (audience, began) = (Audience::default(), Instant::now());
        let word = audience.say();
        audience.has_heard(word, false).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "nobody listens");
        let later = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let listener = audience.listen();
            tokio::time::sleep(Duration::from_millis(300)).await;
            listener.heard(word);
            listener
        };
        let (_, listener) = tokio::join!(audience.has_heard(word, true), later);
        assert_eq!(began.elapsed(), Duration::from_millis(600), "somebody was about to");
        audience.has_heard(audience.say(), false).await;
        assert_eq!(began.elapsed(), Duration::from_millis(2600), "no longer than that");
        drop(listener);
    }
}
