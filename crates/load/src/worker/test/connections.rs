//! Changes of a lane's connection count once, in the interval in which they happened.

use super::*;

/// Loses its connection at 1 s and at 5 s, and reconnects 500 ms later, after a failed attempt.
struct Unsteady(Lane);

impl block::Lane for Unsteady {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        self.0.submit(now, ios);
    }
    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.0.poll(now, done);
    }
    fn wake(&self) -> Option<Nanos> {
        self.0.wake()
    }
    fn connection(&self, now: Nanos) -> Connection {
        let mut sum = Connection::default();
        for lost in [1000, 5000].map(Nanos::from_millis).into_iter().filter(|lost| *lost <= now) {
            let gone = now.since(lost).min(Nanos::from_millis(500));
            let again = u64::from(gone == Nanos::from_millis(500));
            sum += Connection {
                lost: 1,
                reconnects: again,
                failed_attempts: again,
                disconnected: gone,
            };
        }
        sum
    }
}

#[test]
fn every_interval_has_its_own_losses() {
    let workload = Workload::new(Access::new(4096, 100.0, 100.0), 1);
    let who = Identity { seed: 1, number: 0, part: Part::WHOLE, data: true };
    let lane = Box::new(Unsteady(Lane::new(MS, 0)));
    let mut worker = Worker::new(lane, &workload, who, None, &Pool::new(4, 4)).unwrap();
    worker.begin(Nanos(0), Box::default());
    worker.start(Nanos(0));
    let mut take = |ms| {
        let now = Nanos::from_millis(ms);
        worker.step(now, Order::Run);
        let Connection { lost, reconnects, failed_attempts, disconnected } =
            worker.take_interval(now, Box::default()).connection;
        (lost, reconnects, failed_attempts, disconnected.0 / MS)
    };
    assert_eq!(take(900), (0, 0, 0, 0));
    assert_eq!(take(1200), (1, 0, 0, 200));
    assert_eq!(take(2000), (0, 1, 1, 300));
    assert_eq!(take(5000), (1, 0, 0, 0));
    // Changes after the last interval are not lost.
    worker.close_window(Nanos::from_millis(5000));
    let (rest, _) = worker.give_up(Nanos::from_millis(9000));
    let rest = rest.connection;
    assert_eq!((rest.lost, rest.reconnects, rest.disconnected.0 / MS), (0, 1, 500));
}
