/// What is wrong with composites as they are written, all of it at once.
public struct CompositionError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The problems, in the order found; at least one.
  public let problems: [Problem]

  /// One thing that is wrong.
  public enum Problem: Hashable, Sendable {
    /// Two machines or composites have one name.
    case duplicateName(String)
    /// A composite has no components.
    case noComponents(composite: String)
    /// A composite names a component twice.
    case repeatedComponent(String, composite: String)
    /// No machine and no composite has this name.
    case unknownComponent(String, composite: String, known: [String])
    /// Composites contain each other.
    case cycle([String])
    /// A participant is not among the components.
    case unknownParticipant(String, event: String, composite: String, components: [String])
    /// The alphabet of a participant does not have the event.
    case notInAlphabet(String, event: String, composite: String, alphabet: [String])
    /// Fewer than two machines would take the event.
    case tooFewParticipants([String], event: String, composite: String)
    /// The composite synchronizes the event twice.
    case repeatedEvent(String, composite: String)
    /// A participant could take the event in several ways, and nothing says in which.
    case alternatives([[String]], participant: String, event: String, composite: String)
  }
}

extension CompositionError {
  /// The problems, a line each.
  public var description: String { problems.map(\.description).joined(separator: "\n") }
}

extension CompositionError.Problem: CustomStringConvertible {
  /// A sentence that tells it.
  public var description: String {
    switch self {
    case .duplicateName(let name):
      "two machines or composites have the name '\(name)'; rename one"
    case .noComponents(let composite):
      "composite '\(composite)' has no components"
    case .repeatedComponent(let name, let composite):
      "composite '\(composite)': component '\(name)' is listed twice"
    case .unknownComponent(let name, let composite, let known):
      """
      composite '\(composite)': component '\(name)' is neither a node nor a composite; there are \
      \(Self.list(known))
      """
    case .cycle(let names):
      "composites contain each other: \(names.joined(separator: " > "))"
    case .unknownParticipant(let name, let event, let composite, let components):
      """
      composite '\(composite)', event '\(event)': participant '\(name)' is not one of its \
      components \(Self.list(components))
      """
    case .notInAlphabet(let name, let event, let composite, let alphabet):
      """
      composite '\(composite)', event '\(event)': participant '\(name)' never takes it; it takes \
      \(Self.list(alphabet))
      """
    case .tooFewParticipants(let names, let event, let composite):
      """
      composite '\(composite)', event '\(event)': \
      \(names.isEmpty ? "no component takes it" : "only \(Self.list(names)) takes it"); \
      a synchronized event has two participants or more
      """
    case .repeatedEvent(let event, let composite):
      """
      composite '\(composite)': event '\(event)' is synchronized twice, and a caller could not say \
      which is meant; make a composite for each
      """
    case .alternatives(let vectors, let participant, let event, let composite):
      """
      composite '\(composite)', event '\(event)': participant '\(participant)' could take it in \
      \(vectors.count) ways, \(vectors.map { $0.joined(separator: " with ") }
        .joined(separator: " or ")); synchronize it in '\(participant)', or list other participants
      """
    }
  }

  private static func list(_ names: [String]) -> String {
    names.isEmpty ? "none" : names.map { "'\($0)'" }.joined(separator: ", ")
  }
}
