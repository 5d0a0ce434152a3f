import PipeMachines
import PipeSupport
import PipeWire

/// The states and events that a model elsewhere is to have.
struct RemoteTypes {
  private let state: String
  private let states: [CaseDescription]
  private let event: String
  private let events: [CaseDescription]

  init<State: MachineState, Event: MachineEvent>(states: State.Type, events: Event.Type) {
    state = TypeName.of(State.self)
    self.states = EnumCases<State>.descriptions
    event = TypeName.of(Event.self)
    self.events = EnumCases<Event>.descriptions
  }

  /// Why a machine is not of these types; `nil` where it is. States that are structs are compared when
  /// they come.
  func problem(with machine: MachineDescription) -> String? {
    if states.isEmpty != machine.states.isEmpty {
      return "its states are not of type '\(state)': "
        + (states.isEmpty ? "they are cases of an enum" : "they are structs")
    }
    for own in machine.states {
      if let difference = Self.difference(of: own, from: states, of: state) {
        return "machine '\(machine.machine)' has the state \(own.wording), \(difference)"
      }
    }
    for own in events {
      if let difference = Self.difference(
        of: own, from: machine.events, of: "machine '\(machine.machine)'")
      {
        return "'\(event)' has the event \(own.wording), \(difference)"
      }
    }
    return nil
  }

  private static func difference(
    of own: CaseDescription, from others: [CaseDescription], of holder: String
  ) -> String? {
    guard let other = others.first(where: { $0.name == own.name }) else {
      return "which \(holder) has not" + Suggestion.among(others.map(\.name), like: own.name)
    }
    return other.fields == own.fields ? nil : "which \(holder) has as \(other.wording)"
  }

  /// A state that a node has told.
  static func decode<State: MachineState>(
    _ state: JSONValue, of node: String
  ) throws(TopologyClientError) -> State {
    do { return try EventCodec<State>().decode(state.bytes) } catch {
      throw .otherType(node, "its state is none of '\(TypeName.of(State.self))': \(error)")
    }
  }
}
