//! Crash and restart of the server.

use super::*;

impl World {
    /// Kills the server: its sockets are closed and its I/Os forgotten. Units keep acknowledged
    /// data, including memory, which belongs to no process in the simulation.
    pub(super) fn crash(&mut self) -> Result<(), String> {
        self.check_attempts()?;
        self.dialer.listeners.clear();
        self.leaving.clear();
        self.portals.clear();
        self.clients.iter_mut().for_each(Client::server_was_killed);
        self.pools.clear();
        self.woken.clear();
        let left = self.shared.connection_count();
        if left > 0 {
            return Err(format!("{left} connections outlived their server"));
        }
        let fresh = |_| CoreState::new(self.plan.buffers as usize);
        self.dialer.machine.borrow_mut().cores = (0..self.plan.cores).map(fresh).collect();
        for (unit, disk) in self.disks.iter().enumerate() {
            let mut disk = disk.borrow_mut();
            disk.begun.clear();
            disk.forget_writes();
            if disk.in_flight > 0 {
                return Err(format!(
                    "{} I/Os of unit {unit} outlived their server",
                    disk.in_flight
                ));
            }
        }
        Ok(())
    }

    /// Starts a server with the same settings and disks.
    pub(super) fn start(&mut self) -> Result<(), String> {
        self.started += 1;
        *self.units.borrow_mut() = (0..self.disks.len()).collect();
        let instance = self.plan.seed << 8 | self.started;
        self.shared = shared(&self.plan, self.geometry, &self.disks, instance, self.say);
        (0..self.plan.cores as usize).for_each(|core| self.add_core(core));
        Ok(())
    }
}
