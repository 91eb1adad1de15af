//! Chance of the kernel's, for what must differ from run to run.

/// A number that nobody can foresee.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the pointer and the length are those of an array that lives beyond the call. So few
    // bytes come whole on every kernel that has io_uring.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    assert_eq!(got, 8, "the kernel has random numbers");
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod test {
    #[test]
    fn is_another_number_each_time() {
        assert_ne!(super::random(), super::random());
    }
}
