import FoundationEssentials
import PipeMachines
import Testing

@Suite("Refusals of a machine")
struct RefusalTests {
  private enum Knock: DSLCompatible, Equatable { case once, often }
  private struct Count: DSLCompatible, Equatable { var value = 0 }
  private struct Closed: Error, CustomStringConvertible { let description: String }

  private func refusal(_ text: String) -> Refusal? {
    let machine = StateMachine<Count, Knock, Never>(
      initial: Count(),
      reducer: { count, knock in
        count.value += 1
        if knock == .often { throw Closed(description: text) }
      })
    #expect(machine.reduce(Count(), .once) == .next(Count(value: 1)))
    guard case .refused(let refusal) = machine.reduce(Count(), .often) else { return nil }
    return refusal
  }

  @Test("If a machine throws, the refusal has the error's text, cut if the text is very long")
  func thrown() {
    #expect(refusal("it is shut") == .thrown("it is shut"))
    let long = refusal(String(repeating: "x", count: 600))
    #expect(long == .thrown(String(repeating: "x", count: 500) + "…"))
    #expect(long?.error?.count == 501)
  }

  private static let all: [Refusal] = [
    .noTransition, .guard, .thrown("it is \"shut\""), .asynchronous, .timedOut,
    .stateTooLarge,
  ]

  @Test(
    "Each refusal is unchanged by encoding and decoding, in records and in explanations",
    arguments: all)
  func travels(refusal: Refusal) throws {
    #expect(Refusal(of: .object(refusal.recordMembers)) == refusal)
    let coded = try JSONEncoder().encode([refusal])
    #expect(try JSONDecoder().decode([Refusal].self, from: coded) == [refusal])
  }

  @Test(
    "Each evaluation is unchanged by encoding and decoding",
    arguments: [
      .accepted, .asynchronous, .selfContained, .refused(.noTransition), .refused(.guard),
      .refused(.thrown("no")),
      .dependsOnValues,
    ] as [Evaluation])
  func evaluation(evaluation: Evaluation) throws {
    let coded = try JSONEncoder().encode(["go": evaluation])
    #expect(try JSONDecoder().decode([String: Evaluation].self, from: coded) == ["go": evaluation])
  }

  @Test("An unknown refusal or evaluation causes an error")
  func unknown() {
    #expect(Refusal(of: ["reason": "mood"]) == nil)
    #expect(Refusal(of: nil) == nil)
    #expect(throws: DecodingError.self) {
      try JSONDecoder().decode([Refusal].self, from: Data(#"["mood"]"#.utf8))
    }
    #expect(throws: DecodingError.self) {
      try JSONDecoder().decode([Evaluation].self, from: Data(#"["mood"]"#.utf8))
    }
  }
}
