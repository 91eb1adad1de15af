//! Random numbers of the kernel, for values that must differ between runs.

/// An unpredictable number.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: pointer and length are those of an array that outlives the call. So few bytes are
    // never returned in part on a kernel with io_uring.
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
