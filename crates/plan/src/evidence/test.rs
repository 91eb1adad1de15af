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

#[test]
fn each_row_is_asked_from_the_others() {
    let asked = table(&Evidence::shipped(), &Catalogue::shipped()).unwrap();
    for row in &asked.rows {
        println!(
            "{:?} {:+.0} % {} {:?} | {} pub {:.4e} model {:.4e}",
            row.sample.class,
            row.error * 100.0,
            row.held,
            row.learned.as_ref().map(|l| (
                l.pooled,
                (l.center * 100.0).round(),
                (l.half * 100.0).round()
            )),
            row.name,
            row.sample.published,
            row.sample.model
        );
    }
    for total in asked.classes.iter().chain([&asked.single, &asked.all]) {
        println!("{total:?}");
    }
}
