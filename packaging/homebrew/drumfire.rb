# Homebrew's formula, for Linux. `cargo xtask dist --base-url URL` fills in address and checksum.
class Drumfire < Formula
  desc "Serve, drive, measure and predict block storage"
  homepage "@BASE_URL@"
  url "@BASE_URL@/drumfire-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  depends_on :linux

  def install
    system "cargo", "install", "--profile", "dist", *std_cargo_args(path: "crates/cli")
    generate_completions_from_executable(bin/"drumfire", "completions", shells: [:bash, :zsh, :fish])
    system bin/"drumfire", "man", "--out", "man"
    man1.install Dir["man/*.1"]
    doc.install "README.md", "docs"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/drumfire --version")
    assert_match "IOPS", shell_output("#{bin}/drumfire run ram:64m --size 4k --seconds 1")
  end
end
