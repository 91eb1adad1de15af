use super::*;

#[test]
fn every_row_has_an_answer_and_a_source() {
    let evidence = Evidence::shipped();
    let all = samples(&evidence, &Catalogue::shipped()).unwrap_or_else(|error| panic!("{error}"));
    assert!(all.iter().all(|sample| sample.residual.is_finite()));
    for (key, source) in &evidence.sources {
        let rows = evidence.rows.iter().filter(|row| row.source == *key && !row.recalled).count();
        assert!(rows <= 5, "{key} has {rows} rows");
        assert!(!source.publisher.is_empty() && source.url.contains('.'), "{key}");
    }
}
