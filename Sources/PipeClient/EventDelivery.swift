import PipeMachines
import PipeSupport
import PipeWire

/// An event that was sent to a node or a composite, with its outcome.
package struct EventDelivery: Sendable {
  /// The outcome of an event, depending on the kind of recipient.
  package enum Outcome: Sendable {
    case node(RequestOutcome)
    case composite(SynchronizedReply)
  }

  package var event: JSONValue
  /// The node or the composite that answered.
  package var recipient: String
  package var outcome: Outcome
  /// For each node whose states are structs, the names of the structs' fields.
  package var stateFields: [String: [String]]

  /// Whether the event was accepted.
  package var isAccepted: Bool {
    switch outcome {
    case .node(.accepted), .node(.done), .composite(.committed): true
    case .node(.refused), .composite: false
    }
  }

  /// The outcome of the event, as a sentence.
  package var wording: String {
    switch outcome {
    case .node(let outcome):
      outcome.wording(of: event, by: recipient, fields: stateFields[recipient])
    case .composite(let reply): reply.wording(of: event, by: recipient, stateFields)
    }
  }

  /// The reason for the refusal; `nil` if the event was not refused.
  package var refusal: String? {
    switch outcome {
    case .node(.refused(let refusal, _)): refusal.wording.printable
    case .composite(.refused(let withholdings)): withholdings.wording(stateFields)
    case .node, .composite: nil
    }
  }
}

/// The maximum length of an event or a state in a sentence. Unit: characters. The limit keeps the
/// rest of the sentence visible.
private let textLimit = 200

extension JSONValue {
  fileprivate func shortText(_ fields: [String]? = nil) -> String {
    stateText(fields: fields).cut(to: textLimit).printable
  }
}

extension RequestOutcome {
  /// Returns the outcome of an event as a sentence.
  /// - Parameter fields: The names of the state's fields, if the state is a struct.
  package func wording(of event: JSONValue, by node: String, fields: [String]?) -> String {
    switch self {
    case .accepted(let version, .null):
      "\(node): \(event.shortText()) was accepted  (version "
        + "\(version))"
    case .accepted(let version, let state):
      "\(node): \(state.typedText.printable)  (version \(version))"
    case .refused(let refusal, let state):
      "node '\(node)' refused \(event.shortTypedText) in \(state.shortTypedText): "
        + refusal.wording.printable
    case .done: "\(node): \(event.shortTypedText) was accepted"
    }
  }
}

extension SynchronizedReply {
  /// Returns the outcome of an event as a sentence.
  /// - Parameters:
  ///   - event: The event; `nil` if only the transaction's number is known.
  ///   - fields: For each node whose states are structs, the names of the structs' fields.
  package func wording(
    of event: JSONValue?, by composite: String, _ fields: [String: [String]]
  ) -> String {
    let text = event?.shortTypedText ?? "the event"
    switch self {
    case .committed(let transaction, let versions):
      let moved = versions.sorted { $0.key < $1.key }.map { "\($0.key) version \($0.value)" }
      return "\(composite): \(text) committed as \(transaction): \(moved.joined(separator: ", "))"
    case .refused(let withholdings):
      return "composite '\(composite)' refused \(text): \(withholdings.wording(fields))"
    case .busy(let names):
      let list = names.map { "'\($0)'" }.joined(separator: ", ")
      return
        "composite '\(composite)' is busy: \(list) \(names.count == 1 ? "accepts" : "accept") no "
        + "event now; nothing was applied; try again"
    case .unavailable(let name):
      return name == composite
        ? "composite '\(composite)' did not accept \(text): the composite is not running, or "
          + "aborted the event; nothing was applied"
        : "composite '\(composite)': participant '\(name)' is not running; nothing was applied"
    case .unknown(let transaction):
      return
        "composite '\(composite)': the outcome of transaction \(transaction) is not known yet; "
        + "'orchestrator send \(composite) --ask \(transaction)' asks again"
    }
  }
}

extension BlockingParticipant {
  /// Returns the participant's state, and the reason why the participant blocks the event, as text.
  /// - Parameter fields: For each node whose states are structs, the names of the structs' fields.
  package func wording(_ fields: [String: [String]]) -> String {
    "\(state.shortText(fields[participant])): \(reason.wording.printable)"
  }
}

extension [BlockingParticipant] {
  /// Returns a text that lists the nodes that block an event, with the reasons.
  fileprivate func wording(_ fields: [String: [String]]) -> String {
    map { "'\($0.participant)' is in \($0.wording(fields))" }.joined(separator: "; ")
  }
}

extension JSONValue {
  /// A state or an event in the form in which a user types it: a label, or JSON.
  package var typedText: String { string ?? text }

  /// The typed text, cut to a maximum length.
  fileprivate var shortTypedText: String { typedText.printable.cut(to: 200) }
}
