import PipeMachines
import PipeSupport
import PipeWire

extension CompositionError.Problem {
  /// What to tell of it at its place in the file; `nil` for what the file's own form has told.
  func diagnostic(in topology: Topology, _ source: SourceMap) -> Diagnostic? {
    switch self {
    case .duplicateName, .repeatedComponent, .repeatedEvent: return nil
    case .noComponents(let composite):
      return source.diagnostic(
        .badValue, at: ["composites", composite, "components"],
        "\(self); list two nodes or more")
    case .unknownComponent(let name, let composite, let known):
      return source.diagnostic(
        .unknownNode, at: topology.path(ofComponent: name, in: composite),
        "composite '\(composite)': there is no node or composite '\(name)'"
          + Suggestion.among(known, like: name, verb: "the topology has"))
    case .cycle(let names):
      return source.diagnostic(
        .compositeCycle, at: topology.path(ofComponent: names[1], in: names[0]),
        "\(self); take one out of the other's components")
    case .unknownParticipant(let name, let event, let composite, let components):
      return source.diagnostic(
        .unknownParticipant, at: topology.path(ofParticipant: name, event, in: composite),
        "composite '\(composite)', event '\(event)': '\(name)' is not one of its components"
          + Suggestion.among(components, like: name, verb: "they are"))
    case .notInAlphabet(let name, let event, let composite, let alphabet):
      return source.diagnostic(
        .notInAlphabet, at: topology.path(ofParticipant: name, event, in: composite),
        "composite '\(composite)', event '\(event)': participant '\(name)' takes it in no state"
          + Suggestion.among(alphabet, like: event, verb: "it takes"))
    case .tooFewParticipants(_, let event, let composite):
      return at(event, of: composite, .tooFewParticipants, source)
    case .alternatives(_, _, let event, let composite):
      return at(event, of: composite, .ambiguousEvent, source)
    }
  }

  private func at(
    _ event: String, of composite: String, _ code: Diagnostic.Code, _ source: SourceMap
  ) -> Diagnostic {
    source.diagnostic(
      code, at: source.mark(ofKey: ["composites", composite, "synchronize", event]), description)
  }
}

extension Topology {
  /// Where a composite names a component.
  func path(ofComponent name: String, in composite: String) -> [String] {
    let path = ["composites", composite, "components"]
    let index = self.composite(composite)?.components.firstIndex(of: name)
    return index.map { path + [String($0)] } ?? path
  }

  /// Where a composite names a participant of an event, or else the event.
  func path(ofParticipant name: String, _ event: String, in composite: String) -> [String] {
    let path = ["composites", composite, "synchronize", event]
    let index = self.composite(composite)?.synchronize.first { $0.event == event }?
      .participants?.firstIndex(of: name)
    return index.map { path + [String($0)] } ?? path
  }
}
