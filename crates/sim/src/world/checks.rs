//! The invariants of a world.

use std::collections::BTreeMap;

use super::*;

/// Groups with equal shares: iSCSI or not, memory or not, and core.
type Kind = (bool, bool, usize);

/// Shortest measurement.
const FIRST_SLICE: Nanos = Nanos::from_millis(1);
/// Longer latencies extend the measurement.
const QUICK: Nanos = Nanos::from_millis(4);

impl World {
    /// Checks that every good client gets in, whatever happened before.
    pub(super) fn check_served(&mut self) -> Result<(), String> {
        for client in self.good() {
            if !client.is_ready() {
                let why = &client.last_loss;
                return Err(format!(
                    "{} is not let in after all faults ended ({why})",
                    client.name
                ));
            }
        }
        Ok(())
    }

    /// Checks the service while all clients run at full speed: each has its share, and none waits
    /// long.
    pub(super) fn measure(&mut self) -> Result<(), String> {
        let is_roomy = self.plan.memory >= ROOMY;
        let longest = Nanos::from_millis(120 / self.plan.depth.clamp(1, 6));
        let span = if is_roomy { longest } else { PATIENCE };
        self.set_pace(Nanos(0), 0);
        let begin = self.now() + Nanos::from_millis(2);
        self.run_until(begin)?;
        self.clients.iter_mut().for_each(Client::reset);
        // The wait ends as soon as all is well, so that it is short without violations.
        let mut slice = FIRST_SLICE;
        loop {
            let end = (self.now() + slice).min(begin + span);
            self.run_until(end)?;
            let is_last = end == begin + span;
            let enough = if is_last { 1 } else { 2 * self.plan.depth + 4 };
            match if is_roomy { self.judge(enough) } else { self.all_get_on() } {
                Ok(()) if is_last || !is_roomy || self.is_quick() => {
                    return self.check_waits(longest);
                }
                Ok(()) => slice = slice + Nanos(slice.0 / 2),
                Err(why) if is_last => return Err(why),
                Err(_) => slice = slice + Nanos(slice.0 / 2),
            }
        }
    }

    /// Whether no client waits long, so that no longer measurement is needed.
    fn is_quick(&self) -> bool {
        let now = self.now();
        self.good().all(|client| client.longest.max(client.oldest(now)) < QUICK)
    }

    /// Checks that no client has lost a connection or waited long.
    fn check_waits(&self, span: Nanos) -> Result<(), String> {
        for client in self.good() {
            if client.lost > 0 {
                let why = &client.last_loss;
                return Err(format!("{} lost its connection in quiet times: {why}", client.name));
            }
            let waited = client.longest.max(client.oldest(self.now()));
            if self.plan.memory >= ROOMY && waited > LONGEST.min(Nanos(span.0 * 3 / 4)) {
                let ms = waited.0 / 1_000_000;
                return Err(format!("{} waited {ms} ms for an I/O in quiet times", client.name));
            }
        }
        Ok(())
    }

    /// Checks that the clients of a core have equal shares of it, with at least `enough` I/Os each.
    fn judge(&self, enough: u64) -> Result<(), String> {
        let mut groups: BTreeMap<Kind, Vec<(u64, &str)>> = BTreeMap::new();
        let memories = self.plan.disks as usize;
        for client in self.good() {
            let cores = self.dialer.cores.borrow();
            let core = client.conns().last().map(|conn| cores[conn]);
            let iscsi = client.protocol == Protocol::Iscsi;
            let kind = (iscsi, client.unit >= memories, core.unwrap_or_default());
            groups.entry(kind).or_default().push((client.completed, &client.name));
        }
        for mut group in groups.into_values() {
            group.sort_unstable();
            let (least, name) = group[0];
            let median = group[group.len() / 2].0;
            if least * 2 < median || least < enough {
                return Err(format!("{name} got {least} I/Os where the median got {median}"));
            }
        }
        Ok(())
    }

    /// Checks that every client has completed some I/Os.
    fn all_get_on(&self) -> Result<(), String> {
        let left = self.good().find(|client| client.completed < 2);
        left.map_or(Ok(()), |client| {
            let ms = PATIENCE.0 / 1_000_000;
            Err(format!("{} got {} I/Os in {ms} ms", client.name, client.completed))
        })
    }

    pub(super) fn check_blocks(&self) -> Result<(), String> {
        for client in self.good() {
            let mut bytes = vec![0; client.region.len_bytes()];
            let first = client.region.first * u64::from(BLOCK);
            self.disks[client.unit].borrow().bytes.read(first, &mut bytes);
            let checked = client.region.check_all(&bytes);
            checked.map_err(|why| format!("{}: unit {}: {why}", client.name, client.unit))?;
        }
        Ok(())
    }

    /// Checks that held memory is within the budget, and mapped memory is held.
    pub(super) fn check_memory(&self) -> Result<(), String> {
        let budget = self.shared.budget();
        let (held, limit) = (budget.held_bytes(), budget.limit_bytes());
        let mapped = self.pools.iter().map(|pool| pool.mapped_bytes() as u64).sum::<u64>();
        if held > limit || mapped > held {
            return Err(format!("{mapped} bytes are mapped, {held} held, {limit} allowed"));
        }
        Ok(())
    }

    /// Checks that no failed opening was retried at once.
    pub(super) fn check_attempts(&self) -> Result<(), String> {
        for (unit, disk) in self.disks.iter().enumerate() {
            let disk = disk.borrow();
            for (index, (core, at, refused)) in disk.begun.iter().enumerate() {
                let later = &disk.begun[index + 1..];
                let next = later.iter().find(|(other, ..)| other == core);
                if let Some((_, next, _)) =
                    next.filter(|(_, next, _)| *refused && *next < *at + PAUSE)
                {
                    let ms = next.since(*at).0 / 1_000_000;
                    return Err(format!("unit {unit} was tried again {ms} ms after it refused"));
                }
            }
        }
        Ok(())
    }
}
