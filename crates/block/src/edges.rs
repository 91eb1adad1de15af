//! Buckets of latencies for collectors of metrics, which add up histograms of many hosts and hours.

/// Upper edges of the buckets in nanoseconds: six per decade, from 100 ns to 100 s. Longer
/// latencies are in no bucket.
pub const EDGES_NS: [u64; EDGES] = edges();
/// Number of edges.
pub const EDGES: usize = 55;

/// Edges of a decade in tenths.
const STEPS: [u64; 6] = [10, 15, 20, 30, 50, 70];

const fn edges() -> [u64; EDGES] {
    let mut edges = [0; EDGES];
    let (mut index, mut decade_ns) = (0, 10);
    while index < EDGES {
        edges[index] = decade_ns * STEPS[index % STEPS.len()];
        index += 1;
        if index.is_multiple_of(STEPS.len()) {
            decade_ns *= 10;
        }
    }
    edges
}

/// Returns the bucket of a latency: the first edge that is not below it; [`EDGES`] beyond the last.
#[inline]
pub fn bucket_of(latency_ns: u64) -> usize {
    EDGES_NS.partition_point(|edge| *edge < latency_ns)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn edges_are_six_a_decade_from_100_ns_to_100_s() {
        assert_eq!(EDGES_NS[..7], [100, 150, 200, 300, 500, 700, 1000]);
        assert_eq!(EDGES_NS[EDGES - 1], 100_000_000_000);
        assert!(EDGES_NS.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_latency_on_an_edge_is_in_the_bucket_below_it() {
        for (ns, bucket) in [(0, 0), (100, 0), (101, 1), (150, 1), (1000, 6), (1001, 7)] {
            assert_eq!(bucket_of(ns), bucket, "{ns} ns");
        }
        assert_eq!(bucket_of(EDGES_NS[EDGES - 1]), EDGES - 1);
        assert_eq!(bucket_of(EDGES_NS[EDGES - 1] + 1), EDGES);
    }
}
