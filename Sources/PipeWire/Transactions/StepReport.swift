import PipeMachines

/// A step report: a node's report of one step to the coordinator of composites with outbound pipes.
package struct StepReport: Hashable, Sendable {
  /// The cause of the state.
  package enum Entry: String, Hashable, Sendable {
    /// A step.
    case step
    /// The start of a node without recorded state: it has entered its initial state.
    case first
    /// No cause: a restarted node is in the state that it had before.
    case none
  }

  package var entry: Entry
  /// The receiving coordinator's synchronized event that caused the state. For a restarted node,
  /// the last one that it has taken.
  package var transaction: TransactionID?
  /// The state as JSON; `nil` if it cannot be reported.
  package var state: [UInt8]?

  package init(_ entry: Entry, transaction: TransactionID? = nil, state: [UInt8]?) {
    self.entry = entry
    self.transaction = transaction
    self.state = state
  }

  /// The size of the largest state that is reported: with its other members, the report is an
  /// event. Unit: bytes.
  package static let stateByteCount = WireLimits.eventByteCount - 128
  /// The deepest nesting of a state that is reported: values made from it are nested two levels deeper.
  package static let stateDepth = JSONTokens.deepest - 2

  /// Returns why a state cannot be reported, and what to do about it; `nil` if it can.
  package static func obstacle(toReporting state: [UInt8]) -> String? {
    let advice =
      "keep large data outside the state, and a reference to the data, such as a file path, in the "
      + "state"
    if state.count > stateByteCount {
      return "the state has \(state.count) bytes; the limit is \(stateByteCount); \(advice)"
    }
    let depth = state.withUnsafeBytes { JSONTokens.depth(of: $0, upTo: stateDepth) }
    guard depth > stateDepth else { return nil }
    return "the state is nested more than \(stateDepth) levels deep, which is the limit; \(advice)"
  }

  /// Appends the report as JSON.
  package func write(into bytes: inout [UInt8]) {
    bytes.append(contentsOf: "{\"entry\":\"\(entry.rawValue)\"".utf8)
    if let transaction { bytes.append(contentsOf: ",\"transaction\":\"\(transaction)\"".utf8) }
    if let state {
      bytes.append(contentsOf: ",\"state\":".utf8)
      bytes.append(contentsOf: state)
    }
    bytes.append(UInt8(ascii: "}"))
  }

  /// Parses the output of ``write(into:)``; `nil` for anything else.
  package init?(_ bytes: [UInt8]) {
    guard let members = JSONTokens.members(of: bytes),
      let text = members["entry"].flatMap(JSONTokens.label), let entry = Entry(rawValue: text)
    else { return nil }
    self.entry = entry
    state = members["state"].map(Array.init)
    guard let transaction = members["transaction"] else { return }
    guard let id = JSONTokens.label(transaction).flatMap(TransactionID.init) else { return nil }
    self.transaction = id
  }
}

extension JSONTokens {
  /// Returns the members of an object as unchanged JSON text; `nil` if the text is not an object.
  package static func members(of bytes: [UInt8]) -> [String: ArraySlice<UInt8>]? {
    var tokens = JSONTokens()
    guard bytes.withUnsafeBytes({ tokens.read($0) }), tokens.list[0].kind == .object else {
      return nil
    }
    var members: [String: ArraySlice<UInt8>] = [:]
    var index = 1
    while index < tokens.list[0].next {
      let key = tokens.list[index]
      members[String(decoding: bytes[Int(key.start)..<Int(key.end)], as: UTF8.self)] =
        bytes[tokens.list[index + 1].range]
      index = Int(tokens.list[index + 1].next)
    }
    return members
  }

  /// Returns the text of a string without escapes; `nil` for anything else.
  package static func label(_ bytes: ArraySlice<UInt8>) -> String? {
    let quote = UInt8(ascii: "\"")
    guard bytes.count >= 2, bytes.first == quote, bytes.last == quote else { return nil }
    return String(decoding: bytes.dropFirst().dropLast(), as: UTF8.self)
  }
}
