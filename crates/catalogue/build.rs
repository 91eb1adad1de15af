//! Packs the data of the catalogue for a small program: a tenth of their size.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "packed")]
    pack();
}

#[cfg(feature = "packed")]
fn pack() {
    println!("cargo:rerun-if-changed=data");
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    for entry in std::fs::read_dir("data").expect("the data of the catalogue") {
        let path = entry.expect("an entry of a folder").path();
        let text = std::fs::read(&path).expect("a file of the catalogue");
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let packed = lz4_flex::compress_prepend_size(&text);
        std::fs::write(out.join(name + ".lz4"), packed).expect("a file of the build");
    }
}
