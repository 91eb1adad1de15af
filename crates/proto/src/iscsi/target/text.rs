//! Text requests in full feature phase: SendTargets.

use crate::Outbox;

use super::super::name::check_name;
use super::super::negotiate::{Key, Values};
use super::super::params::Params;
use super::super::pdu::{Header, NO_TAG, TextRequest, TextResponse};
use super::super::text::{TextError, pairs, put};
use super::control::reason;
use super::{IscsiTarget, Stage};

/// A text exchange in progress.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    task_tag: u32,
    transfer_tag: u32,
    request: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
}

/// Longest request, over all its PDUs.
const REQUEST_MAX_BYTES: usize = 64 << 10;
/// Maximum number of keys in one.
const KEYS_MAX: usize = 64;

impl IscsiTarget {
    pub(super) fn text_request(&mut self, header: &Header, out: &mut Outbox) {
        let request = TextRequest::parse(header);
        let exchange = self.exchange.take();
        let mut exchange = match exchange {
            //= RFC 7143 §11.10.4: without a transfer tag an exchange begins, and another ends.
            old if request.transfer_tag == NO_TAG => Exchange {
                task_tag: request.task_tag,
                transfer_tag: old.map_or(0, |old| old.transfer_tag + 1) % (NO_TAG - 1),
                ..Exchange::default()
            },
            Some(exchange)
                if exchange.transfer_tag == request.transfer_tag
                    && exchange.task_tag == request.task_tag =>
            {
                exchange
            }
            _ => return self.reject(header, reason::INVALID_FIELD, out),
        };
        let too_long = exchange.request.len() + self.gathered.len() > REQUEST_MAX_BYTES;
        // A PDU with truncated text is too long, too.
        let cut = request.data_len as usize != self.gathered.len();
        //= RFC 7143 §11.10.2: with the C bit set the F bit is zero.
        if too_long || cut || request.last && request.more {
            return self.reject(header, reason::PROTOCOL, out);
        }
        exchange.request.extend_from_slice(&self.gathered);
        if !request.more && exchange.sent == exchange.answer.len() {
            let text = std::mem::take(&mut exchange.request);
            exchange.sent = 0;
            match self.answer_text(&text) {
                Ok(Some(answer)) => exchange.answer = answer,
                Ok(None) | Err(_) => return self.reject(header, reason::PROTOCOL, out),
            }
        }
        self.send_text(&request, exchange, out);
    }

    /// Sends the next part of a response, and stores the exchange if it continues.
    fn send_text(&mut self, request: &TextRequest, mut exchange: Exchange, out: &mut Outbox) {
        let rest = exchange.answer.len() - exchange.sent;
        let len = rest.min(self.params.send_max as usize);
        let more = len < rest;
        //= RFC 7143 §11.11.1: F answers F, once the text is complete.
        let last = request.last && !more;
        let response = TextResponse {
            last,
            more,
            data_len: len as u32,
            lun: [0; 8],
            task_tag: request.task_tag,
            //= RFC 7143 §11.11.4: a transfer tag unless the exchange ends here.
            transfer_tag: if last { NO_TAG } else { exchange.transfer_tag },
            numbers: self.next_status(),
        };
        let part = exchange.sent..exchange.sent + len;
        self.send(&response, &exchange.answer[part.clone()], out);
        exchange.sent = part.end;
        if !last {
            self.exchange = Some(exchange);
        }
    }

    /// The response; `None` to reject an invalid request. Initiators take a Reject for a failure,
    /// but `NotUnderstood` for a broken list of targets.
    fn answer_text(&mut self, text: &[u8]) -> Result<Option<Vec<u8>>, TextError> {
        let (mut answer, mut sense) = (Vec::new(), pairs(text).nth(1).is_some() || text.is_empty());
        let mut asked = false;
        for pair in pairs(text).take(KEYS_MAX) {
            let (key, value) = pair?;
            match Key::named(key) {
                Some(Key::MaxRecvDataSegmentLength) => {
                    sense = true;
                    self.redeclare(value, &mut answer);
                }
                //= RFC 7143 §13: all other values are settled at login.
                Some(_) => {
                    sense = true;
                    put(&mut answer, key, "Reject");
                }
                None if key == "SendTargets" && !asked => {
                    asked = true;
                    sense |= self.send_targets(value, &mut answer);
                }
                None if key == "SendTargets" => put(&mut answer, key, "Reject"),
                None => put(&mut answer, key, "NotUnderstood"),
            }
        }
        Ok(sense.then_some(answer))
    }

    //= RFC 7143 §13.12: MaxRecvDataSegmentLength may be declared again at any time.
    fn redeclare(&mut self, value: &str, answer: &mut Vec<u8>) {
        let key = Key::MaxRecvDataSegmentLength;
        match Values::default().answer(key, value) {
            None => put(answer, key.name(), "Reject"),
            Some((longest, _)) => self.params.set_send_max(longest),
        }
    }

    /// Lists the requested targets. False for an invalid value.
    //= RFC 7143 §C: All, one name, or nothing for the target of this session.
    fn send_targets(&self, value: &str, answer: &mut Vec<u8>) -> bool {
        let normal = self.stage == Stage::Normal;
        let directory = self.offers.now();
        let targets = directory.targets();
        let wanted = match value {
            "All" | "" if normal => std::slice::from_ref(&self.target),
            "All" => targets,
            name if check_name(&name.to_lowercase()).is_ok() => {
                directory.find(name).map_or(&[][..], |at| &targets[at..=at])
            }
            _ => {
                put(answer, "SendTargets", "Reject");
                return false;
            }
        };
        for target in wanted {
            put(answer, "TargetName", &target.name);
            put(answer, "TargetAddress", &self.portal);
            //= RFC 7143 §C: every address of the portal group, of which any leads to the target.
            let others = self.other_portals.iter().filter(|other| **other != self.portal);
            others.for_each(|other| put(answer, "TargetAddress", other));
        }
        true
    }
}

impl Params {
    /// Sets the peer's MaxRecvDataSegmentLength.
    fn set_send_max(&mut self, longest: u32) {
        self.send_max = longest.min(Params::longest_segment(self.data_digest));
    }
}
