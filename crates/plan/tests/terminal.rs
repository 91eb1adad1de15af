//! Texts of files that are printed again.

use catalogue::Catalogue;
use plan::bill::Bill;
use plan::claim::Document;

#[test]
fn names_cannot_steer_a_terminal() {
    let evil = r"a\u001b[31m\nb\u009b";
    let mut catalogue = Catalogue::default();
    let parts = format!(
        "[source.s]\ntitle = \"{evil}\"\ndate = \"{evil}\"\n[[part]]\nid = 'p'\n\
         name = \"{evil}\"\nclass = 'drive'\ninterface = 'pcie'\naliases = [\"{evil}\"]\n\
         note = \"{evil}\"\nfigures = [{{ is = 'read_iops', value = 1000, unit = 'IOPS', \
         kind = 'spec', source = 's', date = \"{evil}\", condition = \"{evil}\" }}]\n"
    );
    catalogue.add("p.toml", &parts).unwrap();
    let bill = format!(
        "name = \"{evil}\"\nsize = '4k'\noutstanding = 1\n[[group]]\ndrive = 'p'\n\
         [[extra]]\nwhat = \"{evil}\"\nprice = 1\n"
    );
    let bill = Bill::read("b.toml", &bill, &catalogue).unwrap();
    let claims = format!(
        "title = \"{evil}\"\n[[claim]]\nsays = \"{evil}\"\nat = \"{evil}\"\n\
         same = [{{ key = \"{evil}\", value = '1' }}]\n"
    );
    let claims = Document::read("c.toml", &claims, &catalogue).unwrap();
    let all = format!("{:?} {:?} {claims:?}", catalogue.part("p"), (&bill.name, &bill.extras));
    assert_eq!(bill.name, "a·[31m·b·");
    // Debug escapes control characters, so a backslash reveals them.
    assert!(!all.contains("\\u{") && !all.contains("\\n"), "{all}");
    let sources = format!("{:?}", catalogue.sources);
    assert!(!sources.contains("\\u{") && sources.contains("a·[31m·b·"), "{sources}");
}
