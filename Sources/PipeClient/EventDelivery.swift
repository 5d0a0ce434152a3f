import PipeMachines
import PipeSupport
import PipeWire

/// An event that was sent to a node or a composite, and what became of it.
package struct EventDelivery: Sendable {
  /// What has become of an event, by who has answered.
  package enum Outcome: Sendable {
    case node(RequestOutcome)
    case composite(SynchronizedReply)
  }

  package var event: JSONValue
  /// The node or the composite that has answered.
  package var recipient: String
  package var outcome: Outcome
  /// By node, the names of its state's fields where that is a struct.
  package var stateFields: [String: [String]]

  /// Whether the event was taken.
  package var isTaken: Bool {
    switch outcome {
    case .node(.moved), .node(.done), .composite(.committed): true
    case .node(.refused), .composite: false
    }
  }

  /// What became of the event, in a sentence.
  package var wording: String {
    switch outcome {
    case .node(let outcome):
      outcome.wording(of: event, by: recipient, fields: stateFields[recipient])
    case .composite(let reply): reply.wording(of: event, by: recipient, stateFields)
    }
  }

  /// Why it was refused; `nil` where it was not.
  package var refusal: String? {
    switch outcome {
    case .node(.refused(let refusal, _)): refusal.wording.printable
    case .composite(.refused(let withholdings)): withholdings.wording(stateFields)
    case .node, .composite: nil
    }
  }
}

/// The longest text of an event or a state in a sentence: what stands behind it is to be found.
private let textLimit = 200

extension JSONValue {
  fileprivate func shortText(_ fields: [String]? = nil) -> String {
    stateText(fields: fields).cut(to: textLimit).printable
  }
}

extension RequestOutcome {
  /// What became of an event, in a sentence.
  /// - Parameter fields: The names of the state's fields where that is a struct.
  package func wording(of event: JSONValue, by node: String, fields: [String]?) -> String {
    switch self {
    case .moved(let version, .null): "\(node): \(event.shortText()) was taken  (version \(version))"
    case .moved(let version, let state):
      "\(node): \(state.typedText.printable)  (version \(version))"
    case .refused(let refusal, let state):
      "node '\(node)' refused \(event.shortTypedText) in \(state.shortTypedText): "
        + refusal.wording.printable
    case .done: "\(node): \(event.shortTypedText) was taken"
    }
  }
}

extension SynchronizedReply {
  /// What became of an event, in a sentence.
  /// - Parameters:
  ///   - event: `nil` where it was asked for by the number of its transaction.
  ///   - fields: By node, the names of its state's fields where that is a struct.
  package func wording(
    of event: JSONValue?, by composite: String, _ fields: [String: [String]]
  ) -> String {
    let what = event?.shortTypedText ?? "it"
    switch self {
    case .committed(let transaction, let versions):
      let moved = versions.sorted { $0.key < $1.key }.map { "\($0.key) version \($0.value)" }
      return "\(composite): \(what) committed as \(transaction): \(moved.joined(separator: ", "))"
    case .refused(let withholdings):
      return "composite '\(composite)' refused \(what): \(withholdings.wording(fields))"
    case .busy(let names):
      let who = names.map { "'\($0)'" }.joined(separator: ", ")
      return
        "composite '\(composite)' is busy: \(who) \(names.count == 1 ? "takes" : "take") no event "
        + "now. Nothing was applied; try again."
    case .unavailable(let name):
      return name == composite
        ? "composite '\(composite)' did not take \(what): it does not run, or gave it up. Nothing was "
          + "applied"
        : "composite '\(composite)': participant '\(name)' does not run. Nothing was applied"
    case .unknown(let transaction):
      return
        "composite '\(composite)': what became of transaction \(transaction) is not known yet; "
        + "'orchestrator send \(composite) --ask \(transaction)' asks again"
    }
  }
}

extension Withholding {
  /// Its state and its reason.
  /// - Parameter fields: By node, the names of its state's fields where that is a struct.
  package func wording(_ fields: [String: [String]]) -> String {
    "\(state.shortText(fields[participant])): \(reason.wording.printable)"
  }
}

extension [Withholding] {
  /// Who withholds an event, and why.
  fileprivate func wording(_ fields: [String: [String]]) -> String {
    map { "'\($0.participant)' is in \($0.wording(fields))" }.joined(separator: "; ")
  }
}

extension JSONValue {
  /// A state or an event as a person types it: a label, or JSON.
  package var typedText: String { string ?? text }

  /// The same of one that may be long.
  fileprivate var shortTypedText: String { typedText.printable.cut(to: 200) }
}
