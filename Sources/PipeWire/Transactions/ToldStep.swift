import PipeMachines

/// A step of a node as it tells it to the coordinator of composites that pipes lead from.
package struct ToldStep: Hashable, Sendable {
  /// What led to the state.
  package enum Entry: String, Hashable, Sendable {
    /// A step.
    case step
    /// The start of a node that goes on from nothing recorded: it has entered its initial state.
    case first
    /// None: a node that was started again stands in the state that it had.
    case none
  }

  package var entry: Entry
  /// The synchronized event, of the coordinator that is told, that has led to the state; of a node that
  /// was started again the last that it has taken.
  package var transaction: TransactionID?
  /// The state as JSON; `nil` where it cannot be told.
  package var state: [UInt8]?

  package init(_ entry: Entry, transaction: TransactionID? = nil, state: [UInt8]?) {
    self.entry = entry
    self.transaction = transaction
    self.state = state
  }

  /// The largest state that is told: with what is told beside it, it is an event. Unit: bytes.
  package static let stateByteCount = WireLimits.eventByteCount - 128
  /// The deepest nesting of a state that is told: what is made of it is nested two deeper.
  package static let stateDepth = JSONTokens.deepest - 2

  /// Why a state cannot be told, and what to do; `nil` where it can.
  package static func obstacle(toTelling state: [UInt8]) -> String? {
    let advice =
      "Keep large data elsewhere, and a reference to it in the state, such as a file's path"
    if state.count > stateByteCount {
      return "it has \(state.count) bytes; the limit is \(stateByteCount). \(advice)"
    }
    let depth = state.withUnsafeBytes { JSONTokens.depth(of: $0, upTo: stateDepth) }
    guard depth > stateDepth else { return nil }
    return "it is nested more than \(stateDepth) deep, which is the limit. \(advice)"
  }

  /// Appends it as JSON.
  package func write(into bytes: inout [UInt8]) {
    bytes.append(contentsOf: "{\"entry\":\"\(entry.rawValue)\"".utf8)
    if let transaction { bytes.append(contentsOf: ",\"transaction\":\"\(transaction)\"".utf8) }
    if let state {
      bytes.append(contentsOf: ",\"state\":".utf8)
      bytes.append(contentsOf: state)
    }
    bytes.append(UInt8(ascii: "}"))
  }

  /// Reads what ``write(into:)`` writes; `nil` for anything else.
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
  /// The members of an object, each as it is written; `nil` where the text is no object.
  package static func members(of bytes: [UInt8]) -> [String: ArraySlice<UInt8>]? {
    var tokens = JSONTokens()
    guard bytes.withUnsafeBytes({ tokens.read($0) }), tokens.list[0].kind == .object else {
      return nil
    }
    var members: [String: ArraySlice<UInt8>] = [:]
    var place = 1
    while place < tokens.list[0].next {
      let key = tokens.list[place]
      members[String(decoding: bytes[Int(key.start)..<Int(key.end)], as: UTF8.self)] =
        bytes[tokens.list[place + 1].range]
      place = Int(tokens.list[place + 1].next)
    }
    return members
  }

  /// The text of a string without escapes; `nil` for anything else.
  package static func label(_ bytes: ArraySlice<UInt8>) -> String? {
    let quote = UInt8(ascii: "\"")
    guard bytes.count >= 2, bytes.first == quote, bytes.last == quote else { return nil }
    return String(decoding: bytes.dropFirst().dropLast(), as: UTF8.self)
  }
}
