/// A rule that makes a failpoint act, such as `door:record.after=crash@3/1`.
///
/// The parts, in this order: the node, the failpoint, the action, either the number of a hit (`@3`)
/// or a probability (`%0.01`), and the incarnation. Without a number or a probability, the
/// failpoint acts at each hit.
package struct FailpointRule: Hashable, Sendable {
  package enum Trigger: Hashable, Sendable {
    case always
    /// The failpoint acts at this hit in the process, counted from 1.
    case hit(UInt64)
    /// The failpoint acts at each hit with this probability. Range: above 0, up to 1.
    case probability(Double)
  }

  package var point: Failpoint
  package var action: FailpointAction
  package var trigger: Trigger
  /// The node to which the rule applies; `nil` for all nodes.
  package var node: String?
  /// The incarnation to which the rule applies; `nil` for all incarnations.
  package var incarnation: UInt64?

  package init(
    _ point: Failpoint, _ action: FailpointAction, _ trigger: Trigger = .always,
    node: String? = nil,
    incarnation: UInt64? = nil
  ) {
    self.point = point
    self.action = action
    self.trigger = trigger
    self.node = node
    self.incarnation = incarnation
  }

  /// Parses rules that are separated by commas. Spaces before a rule are ignored.
  package static func parse(list text: String) throws(FailpointError) -> [FailpointRule] {
    var rules: [FailpointRule] = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      let rule = part.drop { $0 == " " }
      guard !rule.isEmpty else { throw FailpointError(text, "the list has an empty entry") }
      rules.append(try FailpointRule(parsing: String(rule)))
    }
    return rules
  }

  /// Parses one rule, such as `door:record.after=crash@3/1`.
  package init(parsing text: String) throws(FailpointError) {
    guard let equals = text.firstIndex(of: "=") else {
      throw FailpointError(text, "missing action; write, for example, 'record.after=crash'")
    }
    var name = text[..<equals]
    if let colon = name.lastIndex(of: ":") {
      guard colon != name.startIndex else {
        throw FailpointError(text, "missing node name before ':'")
      }
      node = String(name[..<colon])
      name = name[name.index(after: colon)...]
    }
    guard let point = Failpoint(rawValue: String(name)) else {
      let known = Failpoint.allCases.map(\.rawValue).joined(separator: ", ")
      throw FailpointError(text, "unknown failpoint '\(name)'; the failpoints are \(known)")
    }
    self.point = point

    var rest = text[text.index(after: equals)...]
    if let slash = rest.lastIndex(of: "/") {
      incarnation = try Self.parsePositiveNumber(
        rest[rest.index(after: slash)...], "incarnation", in: text)
      rest = rest[..<slash]
    }
    if let sign = rest.lastIndex(where: { $0 == "@" || $0 == "%" }) {
      let value = rest[rest.index(after: sign)...]
      trigger =
        rest[sign] == "@"
        ? .hit(try Self.parsePositiveNumber(value, "hit number", in: text))
        : .probability(try Self.parseProbability(value, in: text))
      rest = rest[..<sign]
    } else {
      trigger = .always
    }
    guard let action = FailpointAction(rest) else {
      let known = FailpointAction.actionExamples.joined(separator: ", ")
      throw FailpointError(text, "unknown action '\(rest)'; the actions are \(known)")
    }
    guard action.isPossible(at: point) else {
      throw FailpointError(
        text, "action '\(action)' is not possible at failpoint '\(point.rawValue)'")
    }
    self.action = action
  }

  private static func parsePositiveNumber(
    _ value: Substring, _ what: String, in text: String
  ) throws(FailpointError) -> UInt64 {
    guard value.utf8.allSatisfy(isDigit), let number = UInt64(value), number > 0 else {
      throw FailpointError(text, "invalid \(what) '\(value)': must be an integer of at least 1")
    }
    return number
  }

  private static func parseProbability(
    _ value: Substring, in text: String
  ) throws(FailpointError) -> Double {
    guard value.utf8.allSatisfy({ isDigit($0) || $0 == UInt8(ascii: ".") }),
      let number = Double(value), number > 0, number <= 1
    else {
      throw FailpointError(
        text, "invalid probability '\(value)': must be greater than 0 and at most 1")
    }
    return number
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }
}

/// An error in an environment variable with failpoints.
package struct FailpointError: Error, Hashable, CustomStringConvertible {
  package let variable: String
  package let invalidText: String
  package let problem: String

  init(_ text: String, _ problem: String, variable: String = FailpointCounter.rulesVariable) {
    self.variable = variable
    self.invalidText = text
    self.problem = problem
  }

  package var description: String { "\(variable): '\(invalidText)': \(problem)" }
}
