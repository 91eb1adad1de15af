//! Active workers and targets in each test of a cycle, with their queue depth.

use super::file::{Cycling, Setup, TestType};

/// Maximum number of tests of one access specification.
pub const TESTS_MAX: usize = 4096;

/// Active workers and targets of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// Number of active targets for each worker of each manager.
    pub targets: Vec<Vec<usize>>,
    /// Queue depth of each target, instead of each worker's own.
    pub outstanding: Option<u64>,
}

/// Returns the tests of a cycle. `has` is the number of targets of each worker of each manager, 0
/// for workers that have nothing to do. `None` if there are more than [`TESTS_MAX`].
pub fn tests(setup: &Setup, has: &[Vec<usize>]) -> Option<Vec<Test>> {
    let all = usize::MAX;
    let each = |targets| move |_: &[Vec<usize>]| active(has, all, targets);
    let depths = || depths(&setup.depth);
    let tests: Vec<Test> = match setup.test {
        TestType::Normal => vec![Test { targets: each(all)(has), outstanding: None }],
        TestType::Targets => growing(&setup.targets, |n| active(has, all, n))?,
        TestType::Workers => growing(&setup.workers, |n| active(has, n, all))?,
        TestType::TargetsParallel => growing(&setup.targets, |n| spread(has, n, false))?,
        TestType::TargetsSerial => growing(&setup.targets, |n| spread(has, n, true))?,
        TestType::WorkersAndTargets => {
            let mut tests = Vec::new();
            for outer in growing(&setup.workers, |n| active(has, n, all))? {
                // The active workers, with a growing number of their targets.
                tests.extend(growing(&setup.targets, |n| active(&outer.targets, all, n))?);
            }
            tests
        }
        TestType::Depth => {
            let test = |depth| Test { targets: each(all)(has), outstanding: Some(depth) };
            depths()?.into_iter().map(test).collect()
        }
        TestType::DepthAndTargets => {
            let mut tests = Vec::new();
            for test in growing(&setup.targets, |n| active(has, all, n))? {
                let deep = |depth| Test { outstanding: Some(depth), ..test.clone() };
                tests.extend(depths()?.into_iter().map(deep));
                if tests.len() > TESTS_MAX {
                    return None;
                }
            }
            tests
        }
    };
    (tests.len() <= TESTS_MAX).then_some(tests)
}

/// Returns tests with growing numbers, as long as more targets become active.
fn growing(cycling: &Cycling, select: impl Fn(usize) -> Vec<Vec<usize>>) -> Option<Vec<Test>> {
    let mut tests = Vec::new();
    let mut before = 0;
    for number in numbers(cycling) {
        let targets = select(usize::try_from(number).unwrap_or(usize::MAX));
        let count: usize = targets.iter().flatten().sum();
        if count <= before {
            return Some(tests);
        }
        if tests.len() == TESTS_MAX {
            return None;
        }
        before = count;
        tests.push(Test { targets, outstanding: None });
    }
    Some(tests)
}

/// Returns the queue depths from the start to the end.
fn depths(cycling: &Cycling) -> Option<Vec<u64>> {
    let depths = numbers(cycling).take_while(|depth| *depth <= cycling.end);
    let depths: Vec<u64> = depths.take(TESTS_MAX + 1).collect();
    (depths.len() <= TESTS_MAX).then_some(depths)
}

/// Returns start, start + step, … or start, start × step, start × step², …, as long as they grow.
fn numbers(cycling: &Cycling) -> impl Iterator<Item = u64> {
    let Cycling { start, step, exponential, .. } = *cycling;
    let next = move |number: &u64| {
        let next = match exponential && step != 1 {
            true => number.checked_mul(step),
            false => number.checked_add(step),
        };
        next.filter(|next| next > number)
    };
    std::iter::successors(Some(start), next)
}

/// Returns the first `workers` of each manager with the first `targets` of each.
fn active(has: &[Vec<usize>], workers: usize, targets: usize) -> Vec<Vec<usize>> {
    let of_manager = |manager: &Vec<usize>| {
        let mut left = workers;
        let of_worker = |has: &usize| {
            if *has == 0 || left == 0 {
                return 0;
            }
            left -= 1;
            targets.min(*has)
        };
        manager.iter().map(of_worker).collect()
    };
    has.iter().map(of_manager).collect()
}

/// Returns the first `targets` of each manager, or of all managers, worker by worker.
fn spread(has: &[Vec<usize>], targets: usize, over_all: bool) -> Vec<Vec<usize>> {
    let mut left = targets;
    let mut of_manager = |manager: &Vec<usize>| {
        if !over_all {
            left = targets;
        }
        let mut of_worker = |has: &usize| {
            let taken = left.min(*has);
            left -= taken;
            taken
        };
        manager.iter().map(&mut of_worker).collect()
    };
    has.iter().map(&mut of_manager).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    /// Two managers: one with workers of 2 and 1 targets, one with a worker of 2.
    fn cycle(test: TestType, targets: Cycling) -> Vec<Vec<Vec<usize>>> {
        let depth = Cycling { start: 1, end: 4, step: 2, exponential: true };
        let setup = Setup { test, targets, depth, ..Setup::default() };
        let tests = tests(&setup, &[vec![2, 1], vec![2]]).unwrap();
        tests.into_iter().map(|test| test.targets).collect()
    }

    #[test]
    fn targets_grow_as_iometer_grows_them() {
        let by_one = Cycling::default();
        let all = vec![vec![2, 1], vec![2]];
        assert_eq!(cycle(TestType::Normal, by_one), vec![all.clone()]);
        let one_each = vec![vec![1, 1], vec![1]];
        assert_eq!(cycle(TestType::Targets, by_one), [one_each.clone(), all.clone()]);
        let parallel = [vec![vec![1, 0], vec![1]], vec![vec![2, 0], vec![2]], all.clone()];
        assert_eq!(cycle(TestType::TargetsParallel, by_one), parallel);
        assert_eq!(cycle(TestType::TargetsSerial, by_one).len(), 5);
        assert_eq!(cycle(TestType::TargetsSerial, by_one)[2], [vec![2, 1], vec![0]]);
        let one_worker = vec![vec![2, 0], vec![2]];
        assert_eq!(cycle(TestType::Workers, by_one), [one_worker.clone(), all.clone()]);
        let both = [vec![vec![1, 0], vec![1]], one_worker, one_each, all.clone()];
        assert_eq!(cycle(TestType::WorkersAndTargets, by_one), both);
        assert_eq!(cycle(TestType::DepthAndTargets, by_one).len(), 6);
        let doubled = Cycling { start: 1, step: 2, exponential: true, ..by_one };
        assert_eq!(cycle(TestType::TargetsSerial, doubled).len(), 4);
    }

    #[test]
    fn cycles_end() {
        for (start, step, exponential) in [(1, 0, false), (0, 2, true), (0, 0, true), (3, 1, true)]
        {
            let cycling = Cycling { start, step, exponential, ..Cycling::default() };
            for (_, test) in super::super::file::TEST_TYPES {
                cycle(test, cycling);
            }
        }
        let endless = Cycling { start: 1, end: u64::MAX, step: 1, exponential: false };
        let setup = Setup { test: TestType::Depth, depth: endless, ..Setup::default() };
        assert_eq!(tests(&setup, &[vec![1]]), None);
    }
}
