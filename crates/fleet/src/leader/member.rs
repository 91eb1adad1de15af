//! The leader's state of another rank.

use block::{Nanos, Plant, planted};

use super::{Fate, Outcome};
use crate::clocks::Relation;

/// A part or draft, and the window that is in it by the rank's own clock.
type Held = ((Nanos, Nanos), Vec<u8>);

/// Another rank.
#[derive(Debug)]
pub(super) struct Member {
    pub heard_at: Nanos,
    /// Why it is gone.
    pub lost: Option<String>,
    /// Why it ended its round without a part.
    pub failed: Option<String>,
    pub facts: Option<Vec<u8>>,
    pub is_ready: bool,
    /// Serves the others in this round.
    pub serves: bool,
    pub relation: Option<Relation>,
    pub draft: Option<Held>,
    pub part: Option<Held>,
}

impl Member {
    pub fn new(now: Nanos) -> Member {
        Member {
            heard_at: now,
            lost: None,
            failed: None,
            facts: None,
            is_ready: false,
            serves: false,
            relation: None,
            draft: None,
            part: None,
        }
    }

    /// Forgets the round before.
    pub fn begin_round(&mut self, serves: bool) {
        (self.failed, self.is_ready, self.serves) = (None, false, serves);
        (self.relation, self.draft, self.part) = (None, None, None);
    }

    /// Whether its hello need not be waited for.
    pub fn is_known(&self) -> bool {
        self.facts.is_some() || self.lost.is_some()
    }

    /// Whether nothing more of this round comes from it.
    pub fn is_settled(&self) -> bool {
        self.part.is_some() || self.failed.is_some() || self.lost.is_some()
    }

    /// The rank's outcome.
    pub fn outcome(&mut self, rank: u32) -> Outcome {
        let relation = self.relation;
        let (fate, window) = match (self.part.take(), self.draft.take()) {
            (Some((window, body)), _) => (Fate::Part(body), Some(window)),
            (None, draft) => {
                let why = self.lost.clone().or_else(|| self.failed.clone());
                let why = why.unwrap_or_else(|| "sent no part in time".to_owned());
                let draft = draft.filter(|_| !planted(Plant::ForgetDraft));
                let (window, draft) = draft.unzip();
                (Fate::Lost { draft, why }, window)
            }
        };
        let own = |(from, to)| relation.map(|of: Relation| (of.own(from), of.own(to)));
        Outcome { rank, fate, window: window.and_then(own), relation }
    }
}
