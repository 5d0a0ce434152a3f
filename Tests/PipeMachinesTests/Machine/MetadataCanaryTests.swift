import PipeMachines
import Testing

@Suite("The check of the layout of types")
struct MetadataCanaryTests {
  typealias Fact = MetadataCanary.Fact

  @Test("The compiler of this test lays out types as expected")
  func thisCompiler() {
    let (reading, difference) = MetadataCanary.reading()
    #expect(reading == .layout)
    #expect(difference == nil)
  }

  @Test(
    "A difference in the lists of cases disables all reading from memory",
    arguments: MetadataCanary.kinds() + MetadataCanary.cases())
  func lists(expected: Fact) {
    let (reading, difference) = MetadataCanary.reading(
      kinds: changed(MetadataCanary.kinds(), expected),
      cases: changed(MetadataCanary.cases(), expected))
    #expect(reading == .mirrorOnly)
    #expect(difference?.what == expected.what)
  }

  @Test(
    "A difference in values still allows the lists of cases to be read",
    arguments: MetadataCanary.values())
  func values(expected: Fact) {
    let (reading, difference) = MetadataCanary.reading(
      values: changed(MetadataCanary.values(), expected))
    #expect(reading == .mirror)
    #expect(difference?.what == expected.what)
  }

  @Test("Nothing is read after a difference, because it may not exist")
  func stops() {
    let wrong = [Fact("kinds", "0", "1")]
    let (reading, _) = MetadataCanary.reading(
      kinds: wrong, cases: unreachable(), values: unreachable())
    #expect(reading == .mirrorOnly)
  }

  @Test("The warning says what differs, with which compiler, and what to do")
  func warning() {
    let warning = MetadataCanary.warning(Fact("tags", "1 0", "0 1"))
    #expect(warning.contains("(tags: 1 0 instead of 0 1)"))
    #expect(warning.contains(MetadataCanary.compiler))
    #expect(warning.contains("build with Swift 6.3"))
  }

  private func changed(_ readings: [Fact], _ one: Fact) -> [Fact] {
    readings.map { $0.what == one.what ? Fact($0.what, "0", $0.expected) : $0 }
  }

  private func unreachable() -> [Fact] {
    Issue.record("read after a difference")
    return []
  }
}
