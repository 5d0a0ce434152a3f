import PipeMachines
import Testing

@Suite("Recorded states and events with another build of a machine")
struct JournalFitnessTests {
  private static func field(_ name: String, _ type: String) -> CaseDescription.Field {
    .init(name: name, type: type)
  }

  private static let ofCases = MachineDescription(
    machine: "Till", initial: "closed",
    states: [
      .init(name: "closed", fields: []), .init(name: "open", fields: [field("sales", "Int")]),
    ],
    events: [.init(name: "sell", fields: [field("price", "Int")])], alphabet: ["sell"], outputs: [],
    outPorts: [], inPorts: [])

  private static let ofFields = MachineDescription(
    machine: "Till", initial: ["sales": 0], states: [], events: [], alphabet: [], outputs: [],
    outPorts: [], inPorts: [],
    stateFields: [field("sales", "Int"), field("note", "Optional<String>")])

  private func problem(_ machine: MachineDescription, _ state: String) throws -> String? {
    machine.problem(withRecordedState: try JSONValue(parsing: Array(state.utf8)))
  }

  @Test(
    "A state that the new machine can hold is accepted",
    arguments: [#""closed""#, #"{"open":{"sales":3}}"#, #"{"open":{"sales":3,"former":true}}"#])
  func fits(state: String) throws {
    #expect(try problem(Self.ofCases, state) == nil)
  }

  @Test(
    "A struct state that the new machine can hold is accepted",
    arguments: [#"{"sales":3}"#, #"{"sales":3,"note":"x","former":true}"#])
  func fieldsFit(state: String) throws {
    #expect(try problem(Self.ofFields, state) == nil)
  }

  @Test(
    "A state that the new machine cannot hold is an error with the reason",
    arguments: [
      (#""shut""#, "machine 'Till' has no state 'shut'"),
      (#"{"open":{}}"#, "field 'sales' of state"),
      (#"{"open":{"sales":"three"}}"#, "cannot be \"three\""),
    ])
  func doesNotFit(state: String, problem: String) throws {
    #expect(try self.problem(Self.ofCases, state)?.contains(problem) == true)
  }

  @Test(
    "A struct state that the new machine cannot hold is an error with the reason",
    arguments: [
      (#"{"note":"x"}"#, "has no field 'sales'"),
      (#"{"sales":"three"}"#, "field 'sales' of the state of machine 'Till' cannot be"),
      (#""closed""#, "is a struct"),
    ])
  func fieldsDoNotFit(state: String, problem: String) throws {
    #expect(try self.problem(Self.ofFields, state)?.contains(problem) == true)
  }

  @Test("A queued event that the new machine does not have is an error")
  func events() {
    #expect(Self.ofCases.problem(withQueuedEvent: ["sell": ["price": 3]]) == nil)
    #expect(
      Self.ofCases.problem(withQueuedEvent: "refund")
        == "machine 'Till' has no event 'refund'; it has 'sell'")
    #expect(Self.ofFields.problem(withQueuedEvent: "refund") == nil, "its coding is its own")
  }
}
