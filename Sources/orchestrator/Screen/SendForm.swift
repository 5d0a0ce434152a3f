import PipeRuntime

/// A form for sending an event. The user first selects the event, and then fills in a line for each
/// associated value.
package struct SendForm: Sendable {
  /// The effect of a key on the form.
  package enum Outcome: Hashable, Sendable {
    case open
    case cancelled
    case send(JSONValue)
  }

  /// The receiver of the event.
  package let receiver: String
  package let events: [CaseDescription]
  package private(set) var selection = NamedSelection()
  /// The event to fill in; `nil` before the user has selected an event.
  package private(set) var event: CaseDescription?
  package private(set) var fields: [TerminalTextField] = []
  /// The index of the line that receives the keys.
  package private(set) var focusedLineIndex = 0
  /// The error in the typed text; `nil` if the text has no error.
  package private(set) var problem: String?

  /// - Parameter event: The event to fill in; `nil` if the user has to select an event.
  package init(to target: String, events: [CaseDescription], event: String? = nil) {
    self.receiver = target
    self.events = events
    if let event, let found = events.first(where: { $0.name == event }) { choose(found) }
  }

  private mutating func choose(_ event: CaseDescription) {
    self.event = event
    fields = event.fields.map { _ in TerminalTextField() }
    focusedLineIndex = 0
  }

  package mutating func press(_ key: Key, height: Int) -> Outcome {
    problem = nil
    return event == nil ? pressInList(key, height) : pressInFields(key)
  }

  private mutating func pressInList(_ key: Key, _ height: Int) -> Outcome {
    let names = events.map(\.name)
    if selection.press(key, in: names, height: height) { return .open }
    switch key {
    case .escape, .character("q"): return .cancelled
    case .enter:
      guard let row = selection.selectedRow(in: names) else { return .cancelled }
      choose(events[row])
      if events[row].fields.isEmpty { return finish() }
    default: break
    }
    return .open
  }

  private mutating func pressInFields(_ key: Key) -> Outcome {
    switch key {
    case .escape:
      guard events.count > 1 else { return .cancelled }
      event = nil
    case .up, .backTab: focusedLineIndex = max(0, focusedLineIndex - 1)
    case .down, .tab: focusedLineIndex = min(max(0, fields.count - 1), focusedLineIndex + 1)
    case .enter:
      guard focusedLineIndex >= fields.count - 1 else {
        focusedLineIndex += 1
        break
      }
      return finish()
    default:
      if fields.indices.contains(focusedLineIndex) { _ = fields[focusedLineIndex].press(key) }
    }
    return .open
  }

  /// Returns the completed event. If the text has an error, the form stays open and shows the
  /// error.
  private mutating func finish() -> Outcome {
    guard let event else { return .open }
    guard !event.fields.isEmpty else { return .send(.string(event.name)) }
    var members: [String: JSONValue] = [:]
    for (index, field) in event.fields.enumerated() {
      do throws(FieldError) {
        members[field.name] = try Self.value(of: fields[index].text, field)
      } catch {
        focusedLineIndex = index
        problem = error.text
        return .open
      }
    }
    let json = JSONValue.object([event.name: .object(members)])
    if let problem = events.problem(with: json, noun: "event", owner: "'\(receiver)'") {
      self.problem = problem
      return .open
    }
    return .send(json)
  }

  private struct FieldError: Error { let text: String }

  /// Parses typed text as a value of a field. For a field that is a string, returns the text
  /// itself. For other fields, parses the text as JSON.
  private static func value(
    of text: String, _ field: CaseDescription.Field
  ) throws(FieldError) -> JSONValue? {
    var type = SwiftType(field.type)
    if case .optional(let inner) = type {
      if text.isEmpty { return nil }
      type = inner
    }
    if case .string = type { return .string(text) }
    if let value = try? JSONValue(parsing: text.utf8) { return value }
    // For an enum case without associated values, the name alone is accepted.
    if case .unknown = type, !text.isEmpty { return .string(text) }
    throw FieldError(
      text: "'\(field.name)' must be \(field.type): "
        + (text.isEmpty ? "type a value" : "'\(text.cut(to: 40))' is not valid"))
  }
}
