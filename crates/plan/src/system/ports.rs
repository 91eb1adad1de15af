//! Network ports as stations: ports with their own requests, ports that connect drives, the network
//! of a host, and Fibre Channel ports whose engines wait for the fabric.

use model::{Class, Method, Network, Servers, Service, Station, solve};

use super::{Builder, Level, Load, PlanError, Stop, through};
use crate::bill::Group;
use crate::wire::{self, Protocol, Tcp};
use catalogue::{Known, Part};

/// The assumed network of hosts.
const SUPPOSED: &str = "ethernet-10";

impl<'a> Builder<'a> {
    /// Returns the adapter of a group whose ports are engines that wait for their transfer.
    pub(super) fn engine_of(&self, group: &Group) -> Option<&'a Part> {
        let adapter = self.part(group.adapter.as_deref()?);
        (group.drive.is_none() && group.ports > 0 && adapter.known("engine_time").is_some())
            .then_some(adapter)
    }

    /// Adds groups of ports: those with engines all together, the others one by one.
    pub(super) fn ports(&mut self, host: [Option<Stop>; 4]) -> Result<(), PlanError> {
        let bill = self.bill;
        let (mut engines, mut time, mut count, mut contexts) = (None, 0.0, 0, 1);
        let served = bill.groups.iter().any(|group| group.drive.is_some() && group.link.is_none());
        for (index, group) in bill.groups.iter().enumerate() {
            self.line = group.line;
            match self.engine_of(group) {
                Some(adapter) if self.wanted(Level::Port) => {
                    let this = self.need(adapter, "engine_time")?;
                    if engines.is_some() && group.contexts != contexts {
                        let reason = "its ports have other engines than others: one kind \
                            in a bill"
                            .to_owned();
                        return Err(PlanError::Part { line: group.line, reason });
                    }
                    (engines, contexts) = (Some(adapter), group.contexts);
                    let devices = group.devices();
                    // Engines of several kinds are replaced by their mean.
                    time = (time * f64::from(count) + this * f64::from(devices))
                        / f64::from(count + devices);
                    count += devices;
                }
                None if group.drive.is_none() && group.ports > 0 && served => {
                    self.front(index, group)?;
                }
                None if group.drive.is_none() && group.ports > 0 => {
                    self.network_ports(index, group, host)?
                }
                _ => {}
            }
        }
        if let Some(adapter) = engines {
            self.engines(adapter, (time, count, contexts), host)?;
        }
        Ok(())
    }

    /// Adds engines that occupy their port while the fabric transfers: a separate network with as
    /// many requests as ports have contexts, whose throughput is the speed of one station in ours.
    fn engines(
        &mut self,
        adapter: &Part,
        (time, count, contexts): (f64, u32, u32),
        [fabric, cpu, far, added]: [Option<Stop>; 4],
    ) -> Result<(), PlanError> {
        let time = self.at(Level::Port, time);
        // An engine that serves several transfers in turn starts each that much later.
        let between = time * f64::from(contexts);
        let mut speeds = Vec::new();
        for busy in 1..=count * contexts {
            let mut inner = Network::default();
            let class = Class::closed("ports", busy).think(Service::exponential(between));
            let transfer = fabric.map_or(0.0, |fabric| fabric.seconds);
            let at = inner.add_station(Station::servers("fabric", 1));
            inner.add_class(class.visit(at, Service::exponential(transfer.max(1e-15))));
            // More requests never do less; near saturation the last digits might differ.
            let least = speeds.last().copied().unwrap_or(0.0);
            speeds.push(solve(&inner, Method::Exact)?.throughput_per_s().max(least));
        }
        let one = speeds[0];
        let rates = speeds.iter().map(|speed| speed / one).collect();
        let servers = Servers::Rates(rates);
        let name = "port engines".to_owned();
        let at = self.network.add_station(Station { name, servers, reserve: None, head: None });
        let population = count.saturating_mul(self.bill.work.outstanding);
        let class = Class::closed("ports", population).visit(at, Service::exponential(1.0 / one));
        let class = [cpu, far, added].into_iter().fold(class, through);
        let class = self.client_stops.iter().copied().map(Some).fold(class, through);
        self.network.add_class(class);
        let load = Load::PerIo(time / f64::from(count));
        let name = format!("{count} ports of {}", adapter.id);
        self.resource(name, Level::Port, &[(&adapter.id, &["engine_time"])], load);
        Ok(())
    }

    /// Adds ports of a network, each with its requests.
    fn network_ports(
        &mut self,
        index: usize,
        group: &Group,
        host: [Option<Stop>; 4],
    ) -> Result<(), PlanError> {
        let (link, seconds) = self.wire(group)?;
        let work = self.bill.work;
        let mut stations = Vec::new();
        for port in 0..group.devices() {
            let mut class = Class::closed(format!("port {index}.{port}"), work.outstanding);
            if self.wanted(Level::Port) {
                let name = format!("port {index}.{port}");
                let stop = self.server(name, Level::Port, seconds);
                stations.push(stop.at);
                class = through(class, Some(stop));
            }
            let class = host.into_iter().fold(class, through);
            let class = self.client_stops.iter().copied().map(Some).fold(class, through);
            self.add(class);
        }
        if !stations.is_empty() {
            let name = format!("{} x {}", group.devices(), link.id);
            let from: &[(&str, &[&str])] = &[(&link.id, &["nominal_rate", "framing", "port_iops"])];
            self.resource(name, Level::Port, from, Load::Stations(stations));
        }
        Ok(())
    }

    /// Returns the link of a group's ports, and the time for which an I/O occupies one of them.
    fn wire(&mut self, group: &Group) -> Result<(&'a Part, f64), PlanError> {
        let Some(link) = group.link.as_deref().map(|id| self.part(id)) else {
            let reason = "ports without a link: name one, such as ethernet-10".to_owned();
            return Err(PlanError::Part { line: group.line, reason });
        };
        let protocol = match protocol(group.protocol.as_deref()) {
            Protocol::Tcp(tcp) => {
                Protocol::Tcp(Tcp { options: f64::from(group.tcp_options), ..tcp })
            }
            rdma => rdma,
        };
        Ok((link, self.port_seconds(link, protocol)?))
    }

    /// Returns the time for which an I/O occupies a port of a link: that of its bytes, or that of
    /// the adapter.
    fn port_seconds(&mut self, link: &Part, protocol: Protocol) -> Result<f64, PlanError> {
        let size = self.bill.work.size_bytes;
        let (bytes_per_s, wire) = if link.id.starts_with("fc") {
            let line = wire::line_bytes_per_s(link, 1).unwrap_or(f64::NAN);
            let framing = self.figure(link, "framing").unwrap_or(1.0);
            (line * framing, wire::fc_wire_bytes(size))
        } else {
            let infiniband = wire::is_infiniband(link);
            (self.carried_per_s(link)?, protocol.wire_bytes(size, infiniband))
        };
        let each = self.figure(link, "port_iops").map_or(0.0, |rate| 1.0 / rate);
        let carried = match self.bill.setup.hosts {
            1 => self.one_way(),
            _ => {
                let (reads, writes) = self.shares();
                self.bill.setup.carried(reads, writes)
            }
        };
        Ok((wire * carried / bytes_per_s).max(each))
    }

    /// Returns the bytes per second of a network after its line code: Ethernet is named after them,
    /// InfiniBand is not.
    fn carried_per_s(&mut self, link: &Part) -> Result<f64, PlanError> {
        match wire::line_bytes_per_s(link, 1).filter(|_| wire::is_infiniband(link)) {
            Some(line) => Ok(line),
            None => Ok(self.need(link, "nominal_rate")? / 8.0),
        }
    }

    /// Returns the latency of a link and the stacks at its ends, if no software defines it; 0
    /// without one, and if I/Os wait for the link anyway.
    pub(super) fn link_latency(&mut self) -> f64 {
        let linked = self.bill.groups.iter().find(|group| group.link.is_some());
        let (id, ports, protocol) = match (linked, &self.bill.setup.network) {
            (Some(group), _) => {
                let ports = group.count.saturating_mul(group.ports.max(1));
                (group.link.as_deref().unwrap_or_default(), ports, group.protocol.as_deref())
            }
            (None, Some(network)) => (network.link.as_str(), network.ports, None),
            (None, None) => return 0.0,
        };
        let carrier = self::protocol(protocol);
        let link = self.part(id);
        let Ok(seconds) = self.port_seconds(link, carrier) else { return 0.0 };
        let waiting = f64::from(self.bill.work.outstanding) * f64::from(self.bill.drives().max(1));
        let quantity = match carrier {
            Protocol::Rdma(_) if link.known("rdma_latency").is_some() => "rdma_latency",
            _ => "added_latency",
        };
        let full = 2.0 * link.value(quantity).unwrap_or(0.0);
        match self.bill.setup.hosts > 1 || waiting * seconds / f64::from(ports) > full {
            true => 0.0,
            false => self.figure(link, quantity).unwrap_or(0.0),
        }
    }

    /// Returns the network of hosts if the bill names none: no network is infinitely fast.
    fn network_unknown(&mut self) -> &'a Part {
        let link = self.part(SUPPOSED);
        let (low, value, high) = (2.5e9, 10e9, 100e9);
        let source = "clusters whose network is not named".to_owned();
        let known = Known::assumed(value, (low, high), source);
        self.supposed(link, "nominal_rate", known);
        self.remark(
            "no network given: assumed one 10 GbE port per host; set network = \"2x25GbE\" or \
             what the hosts have",
        );
        link
    }

    /// Adds the network of a host, if the bill names one for all of its drives.
    pub(super) fn network(&mut self) -> Result<(), PlanError> {
        let linked = self.bill.groups.iter().any(|group| group.link.is_some());
        if self.front.is_some() || !self.wanted(Level::Port) {
            return Ok(());
        }
        let (link, ports) = match &self.bill.setup.network {
            Some(network) => (self.part(&network.link), network.ports),
            // Independent hosts need none; those with daemons always have one.
            None if self.bill.setup.hosts > 1 && !linked && self.has_daemons() => {
                (self.network_unknown(), 1)
            }
            None => return Ok(()),
        };
        let seconds = self.port_seconds(link, protocol(None))?;
        self.link_clients(link, ports)?;
        let name = format!("network, {ports} x {}", link.id);
        let at = self.network.add_station(Station::servers(name.clone(), ports));
        let from: &[(&str, &[&str])] = &[(&link.id, &["nominal_rate", "framing", "port_iops"])];
        self.resource(name, Level::Port, from, Load::Stations(vec![at]));
        self.front = Some(Stop { at, seconds: self.at(Level::Port, seconds) });
        Ok(())
    }

    /// Adds the ports of the clients of a cluster, each with those of a host.
    fn link_clients(&mut self, link: &Part, ports: u32) -> Result<(), PlanError> {
        let Some(clients) = self.bill.setup.clients else { return Ok(()) };
        let (size, bytes_per_s) = (self.bill.work.size_bytes, self.carried_per_s(link)?);
        let wire = Tcp::ISCSI.wire_bytes(size) * self.one_way() / bytes_per_s;
        let from: &[(&str, &[&str])] = &[(&link.id, &["nominal_rate"])];
        let name = format!("network of the clients, {clients} with {ports} x {}", link.id);
        self.clients(name, Level::Port, from, (clients.saturating_mul(ports), wire));
        Ok(())
    }

    /// Adds the time of clients for an I/O, for the host's share of all I/Os.
    pub(super) fn clients(
        &mut self,
        name: String,
        level: Level,
        from: &[(&str, &[&str])],
        (count, seconds): (u32, f64),
    ) {
        // This host has its share of `count` clients, and of one client a share of its time.
        let each = f64::from(count) / f64::from(self.bill.setup.up().max(1));
        let servers = each.floor().max(1.0);
        let station = Station::servers(name.clone(), servers as u32);
        let at = self.network.add_station(station);
        self.resource(name, level, from, Load::Stations(vec![at]));
        let seconds = self.at(level, seconds * servers / each);
        self.client_stops.push(Stop { at, seconds });
    }

    /// Adds the software of the clients of a cluster, if its time is known.
    pub(super) fn client_software(&mut self) {
        let (Some(clients), Some(id)) = (self.bill.setup.clients, &self.bill.software) else {
            return;
        };
        let software = self.part(id);
        if !self.wanted(Level::Processor) {
            return;
        }
        let Some(seconds) = self.client_seconds(software) else { return };
        let name = format!("clients, {clients} of {}", software.id);
        let from: &[(&str, &[&str])] = &[(&software.id, &["client_time", "client_write_time"])];
        self.clients(name, Level::Processor, from, (clients, seconds));
    }

    /// Returns the time of an I/O at a client, if known.
    pub(super) fn client_seconds(&mut self, software: &Part) -> Option<f64> {
        let (reads, writes) = self.shares();
        let read = self.told_of(software, "client_time")?;
        let write = (writes > 0.0).then(|| self.told_of(software, "client_write_time")).flatten();
        Some(reads * read + writes * write.unwrap_or(read))
    }

    /// Adds ports in a bill with drives: I/Os through these ports go to the drives, and are no
    /// separate workload.
    fn front(&mut self, index: usize, group: &Group) -> Result<(), PlanError> {
        if self.front.is_some() {
            let reason = "ports of one kind in a bill that has drives: put them in one group, or \
                          give each group of drives its link"
                .to_owned();
            return Err(PlanError::Part { line: group.line, reason });
        }
        self.front = self.way_in(index, group)?;
        self.remark("the drives are behind the ports: each I/O passes both");
        Ok(())
    }

    /// Returns the ports that connect the drives of a group, all together; `None` if drives are
    /// local.
    pub(super) fn way_in(
        &mut self,
        index: usize,
        group: &Group,
    ) -> Result<Option<Stop>, PlanError> {
        if group.link.is_none() || !self.wanted(Level::Port) {
            return Ok(None);
        }
        if self.bill.setup.target.is_none() && self.bill.software.is_none() {
            self.remark(
                "no target software given: the cores of the target are not modelled; measured \
                 software targets reached 40 to 50 % of this",
            );
        }
        let (link, seconds) = self.wire(group)?;
        let ports = group.count.saturating_mul(group.ports.max(1));
        let at = self.network.add_station(Station::servers(format!("way to {index}"), ports));
        let from: &[(&str, &[&str])] = &[(&link.id, &["nominal_rate", "framing", "port_iops"])];
        let name = format!("{ports} x {}", link.id);
        self.resource(name, Level::Port, from, Load::Stations(vec![at]));
        Ok(Some(Stop { at, seconds: self.at(Level::Port, seconds) }))
    }
}

/// Returns the block protocol of a network, iSCSI by default.
fn protocol(name: Option<&str>) -> Protocol {
    name.and_then(Protocol::named).unwrap_or(Protocol::Tcp(Tcp::ISCSI))
}
