import PipeSupport
import Testing

@Suite("Sizes in bytes")
struct ByteSizeTests {
  @Test(
    "A size with a unit is read, and a written size is read as the same size",
    arguments: [
      ("10MB", 10_000_000), ("10m", 10_000_000), ("10Mb", 10_000_000), ("4KiB", 4096),
      ("4kib", 4096), ("3k", 3_000), ("1GiB", 1 << 30), ("2g", 2_000_000_000), ("512B", 512),
      ("0B", 0), ("999999999b", 999_999_999),
    ])
  func typed(text: String, size: Int) {
    #expect(ByteSizeText.parse(text) == size)
    #expect(ByteSizeText.parse(ByteSizeText.write(size)) == size)
  }

  @Test(
    "Text is a size only if an integer is directly followed by a known unit",
    arguments: ["", "10", "MB", "10 MB", "-1MB", "1.5MB", "10Mi", "10TB", "1234567890B", "1MBB"])
  func other(text: String) { #expect(ByteSizeText.parse(text) == nil) }
}
