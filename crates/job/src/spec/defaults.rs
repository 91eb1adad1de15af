//! Default values of a job's fields, and the conditions under which a field is omitted.

pub(super) fn one() -> u32 {
    1
}

pub(super) fn hundred() -> f64 {
    100.0
}

pub(super) fn yes() -> bool {
    true
}

pub(super) fn is_one(value: &u32) -> bool {
    *value == 1
}

pub(super) fn is_hundred(value: &f64) -> bool {
    *value == 100.0
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
