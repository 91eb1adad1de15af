//! Tests that the bills of docs/bills.md are predicted, and that each prediction matches its text.

use catalogue::Catalogue;
use plan::bill::Bill;
use plan::predict::predict;
use plan::system::Tweak;

const PAGE: &str = include_str!("../../../docs/bills.md");

#[test]
fn every_bill_of_the_page_is_answered() {
    let catalogue = Catalogue::shipped();
    let bills: Vec<&str> = PAGE.split("```toml\n").skip(1).collect();
    assert!(bills.len() >= 7, "{}", bills.len());
    for text in bills {
        let text = text.split("```").next().unwrap_or_default();
        let bill = Bill::read("bills.md", text, &catalogue).unwrap_or_else(|e| panic!("{e}"));
        let found =
            predict(&bill, &Tweak::default()).unwrap_or_else(|e| panic!("{}: {e}", bill.name));
        assert!(found.iops > 10.0 && found.iops < 1e8, "{}: {}", bill.name, found.iops);
    }
}

#[test]
fn parts_that_its_table_names_are_known() {
    let catalogue = Catalogue::shipped();
    for line in PAGE.lines().filter(|line| line.starts_with("| ")) {
        let told = line.split('|').nth(2).unwrap_or_default();
        for key in ["software = \"", "server = \""] {
            for part in told.split(key).skip(1) {
                let name = part.split('"').next().unwrap_or_default();
                catalogue.part(name).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}
