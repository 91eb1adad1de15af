//! Minimizes failing cases.

use crate::{Case, Plan};

/// Smallest case found that fails, with any error, when `run` runs it.
pub fn shrink<C: Case>(case: &C, run: impl Fn(&C) -> Result<C::Held, String>) -> C {
    let mut best = case.clone();
    loop {
        let smaller = best.smaller().into_iter().find(|case| run(case).is_err());
        match smaller {
            Some(case) => best = case,
            None => return best,
        }
    }
}

/// Slightly smaller plans, the largest reductions first.
pub(crate) fn smaller(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    for at in 0..plan.faults.len() {
        let mut less = plan.clone();
        less.faults.remove(at);
        plans.push(less);
    }
    if plan.digests {
        plans.push(Plan { digests: false, ..plan.clone() });
    }
    let least = |name: &str| match name {
        "seed" => u64::MAX,
        "cores" | "depth" | "blocks" => 1,
        "buffers" => 2,
        "memory" => 4,
        _ => 0,
    };
    for index in 0..plan.clone().numbers().len() {
        let mut less = plan.clone();
        let (name, number) = &mut less.numbers()[index];
        let least = least(name);
        for next in [least, (**number).saturating_sub(1).max(least)] {
            if next < **number {
                let mut less = plan.clone();
                *less.numbers()[index].1 = next;
                plans.push(less.made_valid());
            }
        }
    }
    plans.retain(|less| less != plan);
    plans
}
