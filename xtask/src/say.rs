//! Output of concurrent steps: each line has the name of its step as a prefix.

use std::cell::Cell;

thread_local! {
    static STEP: Cell<&'static str> = const { Cell::new("") };
}

/// Runs work as a step: lines that it prints have the step's name.
pub fn within<T>(step: &'static str, work: impl FnOnce() -> T) -> T {
    let before = STEP.replace(step);
    let done = work();
    STEP.set(before);
    done
}

/// Step of this thread, to pass to a thread that works for it.
pub fn step() -> &'static str {
    STEP.get()
}

/// Prints each line of a text.
pub fn lines(text: &str) {
    let step = step();
    for line in text.lines() {
        if step.is_empty() { println!("{line}") } else { println!("{step:8} | {line}") }
    }
}

/// Prints like `println!`, with the prefix of [`lines`].
macro_rules! say {
    ($($part:tt)*) => { $crate::say::lines(&format!($($part)*)) };
}
pub(crate) use say;

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_step_ends_with_its_work() {
        let inner = within("a", || (within("b", step), step()));
        assert_eq!((inner, step()), (("b", "a"), ""));
        assert_eq!(std::thread::spawn(step).join().unwrap(), "");
    }
}
