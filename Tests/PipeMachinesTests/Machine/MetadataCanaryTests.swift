import PipeMachines
import Testing

@Suite("The check of the memory layout of types")
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
    arguments: MetadataCanary.kindFacts() + MetadataCanary.caseFacts())
  func lists(expected: Fact) {
    let (reading, difference) = MetadataCanary.reading(
      kinds: changed(MetadataCanary.kindFacts(), expected),
      cases: changed(MetadataCanary.caseFacts(), expected))
    #expect(reading == .mirrorOnly)
    #expect(difference?.subject == expected.subject)
  }

  @Test(
    "A difference in values still allows the lists of cases to be read",
    arguments: MetadataCanary.valueFacts())
  func values(expected: Fact) {
    let (reading, difference) = MetadataCanary.reading(
      values: changed(MetadataCanary.valueFacts(), expected))
    #expect(reading == .mirror)
    #expect(difference?.subject == expected.subject)
  }

  @Test("After the first difference no memory is read, because an address could be invalid")
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
    readings.map { $0.subject == one.subject ? Fact($0.subject, "0", $0.expectedValue) : $0 }
  }

  private func unreachable() -> [Fact] {
    Issue.record("read after a difference")
    return []
  }
}
