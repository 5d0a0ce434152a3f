import PipeMachines

/// A node's report of one step to the coordinator. Nodes of composites with outbound pipes send
/// step reports.
package struct StepReport: Hashable, Sendable {
  /// The cause of the reported state.
  package enum Entry: String, Hashable, Sendable {
    /// A step that has entered a state.
    case step
    /// A step that has entered no state: an internal transition, or an ignored synchronized event.
    case `internal`
    /// The start of a node without a recorded state: the node has entered its initial state.
    case first
    /// No new cause: a restarted node has restored its recorded state.
    case none
  }

  package var entry: Entry
  /// The transaction that caused the state; `nil` if no transaction of the receiving coordinator
  /// caused the state. For a restarted node, the last transaction of this coordinator in which the
  /// node took part. For the entry `first`, the coordinator adds the last transaction that earlier
  /// processes of the node may have applied.
  package var transaction: TransactionID?
  /// The state as JSON; `nil` if it cannot be reported.
  package var state: [UInt8]?

  package init(_ entry: Entry, transaction: TransactionID? = nil, state: [UInt8]?) {
    self.entry = entry
    self.transaction = transaction
    self.state = state
  }

  /// The maximum size of a reported state. The complete report must fit into an event. Unit: bytes.
  package static let maximumStateByteCount = WireLimits.maximumEventByteCount - 128
  /// The maximum nesting of a reported state. Values made from the state are nested two levels deeper.
  package static let maximumStateDepth = JSONTokens.maximumDepth - 2

  /// Returns the reason why a state cannot be reported, with advice; `nil` if the state can be
  /// reported.
  package static func reasonNotToReport(_ state: [UInt8]) -> String? {
    let advice =
      "store large data outside the state; keep only a reference to the data in the state, such as a "
      + "file path"
    if state.count > maximumStateByteCount {
      return "the state has \(state.count) bytes; the limit is \(maximumStateByteCount); \(advice)"
    }
    let depth = state.withUnsafeBytes { JSONTokens.depth(of: $0, upTo: maximumStateDepth) }
    guard depth > maximumStateDepth else { return nil }
    return
      "the state is nested more than \(maximumStateDepth) levels deep, which is the limit; \(advice)"
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

  /// Parses the output of ``write(into:)``; `nil` for any other input.
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
    while index < tokens.list[0].nextIndex {
      let key = tokens.list[index]
      members[String(decoding: bytes[Int(key.startOffset)..<Int(key.endOffset)], as: UTF8.self)] =
        bytes[tokens.list[index + 1].range]
      index = Int(tokens.list[index + 1].nextIndex)
    }
    return members
  }

  /// Returns the text between the quotes of a JSON string; `nil` for any other JSON. Precondition:
  /// the string contains no escapes.
  package static func label(_ bytes: ArraySlice<UInt8>) -> String? {
    let quote = UInt8(ascii: "\"")
    guard bytes.count >= 2, bytes.first == quote, bytes.last == quote else { return nil }
    return String(decoding: bytes.dropFirst().dropLast(), as: UTF8.self)
  }
}
