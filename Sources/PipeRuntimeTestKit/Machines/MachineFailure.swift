import PipeRuntime

/// A difference between a machine's behaviour and a test's expectation.
struct MachineFailure {
  enum Cause {
    case wrongState(expected: String, actual: String, [ValueComparison.Difference])
    case refused(Refusal, expected: String, acceptedEvents: [String])
    case asynchronous(expected: String)
    case moved(to: String)
    /// The machine made an internal transition, but should have entered the state.
    case entersNoState(expected: String)
    /// The machine entered the state, but should have made an internal transition.
    case entersState(expected: String)
    case ignored(expected: String)
    /// The machine accepted the event, but should have ignored it.
    case notIgnored(actual: String)
    case movesAsynchronously
    case wrongRefusal(expected: Refusal, actual: Refusal, acceptedEvents: [String])
    case wrongOutput(expected: String, actual: String, [ValueComparison.Difference])
    case noOutput(expected: String)
    case unexpectedOutput(String)
    case timedOut(expected: String, Duration)
    case wrongTimer(expected: String, actual: String)
  }

  /// A readable form of the machine's state.
  var state: String
  /// The name of the state's case.
  var stateName: String
  /// A readable form of the event; `nil` if the failure is about the output of a state.
  var event: String?
  var eventName = ""
  var cause: Cause
}

// The texts that describe the failure.
extension MachineFailure {
  /// The complete message: the situation, the expectation, the actual behaviour, and what to do.
  var text: String {
    let context = event.map { "when \(state), on \($0)" } ?? "when \(state)"
    let lines: [String] =
      ["\(context): \(summary)", "  expected: \(expected)", "  actual:   \(actual)"]
      + differences.map { "  \($0)" } + ["  \(advice)"]
    return lines.joined(separator: "\n")
  }

  private var whenText: String { "When(state: \(stateName))" }
  private var onText: String { "On(event: \(eventName))" }

  private var summary: String {
    switch cause {
    case .wrongState: "the transition enters another state"
    case .refused(.noTransition, _, _): "there is no transition"
    case .refused(.guard, _, _): "the guard refuses the event"
    case .refused(.thrown, _, _): "the function throws an error"
    case .refused(.asynchronous, _, _): "the transition is asynchronous"
    case .refused(.timedOut, _, _): "the transition exceeds the time limit"
    case .refused(.stateTooLarge, _, _): "the state exceeds 1 MiB as JSON"
    case .refused(.ended, _, _): "the instance has ended in a final state"
    case .asynchronous: "the transition is asynchronous"
    case .moved, .movesAsynchronously: "there is a transition"
    case .entersNoState: "the transition is internal and enters no state"
    case .entersState: "the transition enters the state"
    case .ignored: "the event is ignored"
    case .notIgnored: "the event is not ignored"
    case .wrongRefusal: "the event is refused for another reason"
    case .wrongOutput: "the output differs"
    case .noOutput: "there is no output"
    case .unexpectedOutput: "there is an output"
    case .timedOut: "timed out: the transition has not returned"
    case .wrongTimer: "the timer differs"
    }
  }

  private var expected: String {
    switch cause {
    case .wrongState(let expected, _, _), .refused(_, let expected, _),
      .asynchronous(let expected), .wrongOutput(let expected, _, _), .noOutput(let expected),
      .timedOut(let expected, _), .wrongTimer(let expected, _), .ignored(let expected):
      expected
    case .entersNoState(let expected): "\(expected), entered"
    case .entersState(let expected): "\(expected), without an entry"
    case .notIgnored: "an ignored event"
    case .moved, .movesAsynchronously: "no transition"
    case .wrongRefusal(let expected, _, _): Self.caseName(expected)
    case .unexpectedOutput: "no output"
    }
  }

  private var actual: String {
    switch cause {
    case .wrongState(_, let actual, _), .wrongOutput(_, let actual, _): actual
    case .refused(let refusal, _, let acceptedEvents):
      Self.caseName(refusal) + acceptedEventsClause(acceptedEvents, refusal)
    case .asynchronous, .movesAsynchronously: "a state that comes later"
    case .moved(let state), .notIgnored(let state): state
    case .entersNoState(let state): "\(state), without an entry"
    case .entersState(let state): "\(state), entered"
    case .ignored: "an ignored event"
    case .wrongRefusal(_, let actual, let acceptedEvents):
      Self.caseName(actual) + acceptedEventsClause(acceptedEvents, actual)
    case .noOutput: "no output"
    case .unexpectedOutput(let output): output
    case .timedOut(_, let limit): "no state within \(limit.shortText)"
    case .wrongTimer(_, let actual): actual
    }
  }

  private var differences: [String] {
    switch cause {
    case .wrongState(_, _, let differences), .wrongOutput(_, _, let differences):
      differences.filter { !$0.path.isEmpty }.map {
        "at \($0.path): expected \($0.expected), actual \($0.actual)"
      }
    default: []
    }
  }

  private var advice: String {
    switch cause {
    case .wrongState(_, let actual, _):
      "Change the Transition of \(onText) in \(whenText), or expect \(actual)."
    case .refused(.noTransition, _, _):
      "Add \(onText) to \(whenText), or expect it with assertNoTransition(when:on:)."
    case .refused(.guard, _, _):
      "Change the Guard of \(onText) in \(whenText), or expect it with assertNoTransition(when:on:)."
    case .refused(.thrown, _, _), .refused(.timedOut, _, _), .refused(.stateTooLarge, _, _),
      .refused(.ended, _, _):
      "Change the function, or expect it with assertNoTransition(when:on:)."
    case .refused(.asynchronous, _, _), .asynchronous, .movesAsynchronously:
      "Wait for the state with 'await assertEventually(when:on:transitionTo:)'."
    case .moved(let state):
      "Remove \(onText) from \(whenText), add a Guard that refuses the event, or expect \(state)."
    case .entersNoState:
      "Write Transition(to:) instead of Stay for \(onText) in \(whenText), or expect it with "
        + "assert(when:on:staysIn:)."
    case .entersState:
      "Write Stay instead of Transition(to:) for \(onText) in \(whenText), or expect it with "
        + "assert(when:on:transitionTo:)."
    case .ignored:
      "Remove Ignore(event: \(eventName)) from \(whenText), or expect it with assertIgnored(when:on:)."
    case .notIgnored:
      "Write Ignore(event: \(eventName)) in \(whenText), or expect the event's actual outcome."
    case .wrongRefusal(_, .guard, _):
      "Remove \(onText) from \(whenText), or expect 'because: .guard'."
    case .wrongRefusal(_, .noTransition, _):
      "Add \(onText) with a Guard to \(whenText), or expect 'because: .noTransition'."
    case .wrongRefusal(_, .thrown, _), .wrongRefusal(_, .asynchronous, _),
      .wrongRefusal(_, .timedOut, _), .wrongRefusal(_, .stateTooLarge, _),
      .wrongRefusal(_, .ended, _):
      "Change the function, or expect its refusal with 'because:'."
    case .wrongOutput(_, let actual, _):
      "Change the Execute of \(whenText), or expect \(actual)."
    case .noOutput(let output):
      "Add Execute(output: \(output)) to \(whenText), or expect it with assertNoOutput(when:)."
    case .unexpectedOutput(let output):
      "Write Execute.noOutput in \(whenText), or expect \(output) with assert(when:execute:)."
    case .wrongTimer(_, let actual):
      "Change the After of \(whenText), or expect \(actual)."
    case .timedOut:
      "Check what the transition of \(onText) in \(whenText) waits for, or pass a longer 'within:'."
    }
  }

  private static func caseName(_ refusal: Refusal) -> String {
    switch refusal {
    case .noTransition: "no transition"
    case .guard: "refused by a guard"
    case .thrown(let error): "refused: the function throws '\(error)'"
    case .asynchronous: "refused: the transition is asynchronous"
    case .timedOut: "refused: the transition exceeds the time limit"
    case .stateTooLarge: "refused: the state exceeds 1 MiB as JSON"
    case .ended: "refused: the instance has ended in a final state"
    }
  }

  /// Returns a clause that lists the events that the state accepts. Returns an empty text unless
  /// the refusal is `noTransition`.
  private func acceptedEventsClause(_ acceptedEvents: [String], _ refusal: Refusal) -> String {
    guard refusal == .noTransition else { return "" }
    if acceptedEvents.isEmpty { return "; \(stateName) accepts no events" }
    return "; \(stateName) accepts \(acceptedEvents.joined(separator: ", "))"
  }
}

/// Compares values that may not be `Equatable`, such as the states of a machine.
///
/// The comparison uses reflection, which is slow, but fast enough for a test.
enum ValueComparison {
  /// A part of a value where the actual value differs from the expected value.
  struct Difference {
    /// The path of the part in the value, such as `persons` or `order.lines.0`.
    var path: String
    var expected: String
    var actual: String
  }

  static func areEqual(_ left: Any, _ right: Any) -> Bool {
    if let left = left as? any Equatable { return isEqual(left, right) }
    guard type(of: left) == type(of: right) else { return false }
    let (leftParts, rightParts) = (parts(of: left), parts(of: right))
    guard !leftParts.isEmpty || !rightParts.isEmpty else {
      return String(reflecting: left) == String(reflecting: right)
    }
    return haveSameShape(leftParts, rightParts)
      && zip(leftParts, rightParts).allSatisfy { areEqual($0.value, $1.value) }
  }

  /// Returns the parts in which two values differ. Values of different structure have a single
  /// difference, whose path is the path of the values.
  static func differences(expected: Any, actual: Any, path: String = "") -> [Difference] {
    if areEqual(expected, actual) { return [] }
    let (expectedParts, actualParts) = (parts(of: expected), parts(of: actual))
    guard type(of: expected) == type(of: actual), !expectedParts.isEmpty,
      haveSameShape(expectedParts, actualParts)
    else {
      return [
        Difference(
          path: path, expected: String(describing: expected), actual: String(describing: actual))
      ]
    }
    return zip(expectedParts, actualParts).enumerated().flatMap { index, pair in
      // The path does not contain the name of an enum's case.
      let isCase = Mirror(reflecting: expected).displayStyle == .enum
      let label = isCase ? nil : pair.0.label ?? "\(index)"
      return differences(
        expected: pair.0.value, actual: pair.1.value,
        path: [path, label ?? ""].filter { !$0.isEmpty }.joined(separator: "."))
    }
  }

  private static func isEqual<Value: Equatable>(_ left: Value, _ right: Any) -> Bool {
    left == right as? Value
  }

  private static func parts(of value: Any) -> [(label: String?, value: Any)] {
    Mirror(reflecting: value).children.map { child in
      // Reflection labels an unnamed element of a tuple `.0`. In a path, the label is only the
      // number.
      (child.label.map { $0.hasPrefix(".") ? String($0.dropFirst()) : $0 }, child.value)
    }
  }

  private static func haveSameShape(
    _ left: [(label: String?, value: Any)], _ right: [(label: String?, value: Any)]
  ) -> Bool {
    left.count == right.count && zip(left, right).allSatisfy { $0.label == $1.label }
  }
}
