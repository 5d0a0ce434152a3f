import PipeMachines
import Testing

@Suite("Migrations of stored values")
struct MigrationPlanTests {
  enum Second: MachineState, Equatable { case closed, opened(people: Int) }

  enum Third: MachineState, Equatable { case closed, opened(people: Int, by: String) }

  private enum Door: Machine {
    typealias State = Third
    enum Event: MachineEvent, Equatable { case admit, push(force: Int) }
    struct Parameters: MachineParameters, Equatable { var capacity = 10 }

    static let schema = 3
    static let migrations = [
      Migration(
        from: 1, Renamed("open", to: "opened"), Renamed("persons", to: "people", in: "open")),
      Migration(from: 1, of: .events, Renamed("open", to: "admit")),
      Migration(from: 2) { (old: Second) throws -> Third in
        switch old {
        case .closed: .closed
        case .opened(let people):
          if people < 0 { throw Impossible() } else { .opened(people: people, by: "unknown") }
        }
      },
      Migration(from: 2, of: .parameters, Renamed("limit", to: "capacity")),
    ]

    static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
      StateMachine(initial: State.closed, reduce: { state, _ in state })
    }
  }

  private struct Impossible: Error, CustomStringConvertible { let description = "too few people" }

  private static func state(_ json: String, _ schema: Int) throws -> Third {
    try Door.decodeState(Array(json.utf8), schema: schema, by: EventCodec())
  }

  @Test(
    "A state is migrated from its version to the current version, step by step",
    arguments: [
      (#"{"open":{"persons":2}}"#, 1, Third.opened(people: 2, by: "unknown")),
      (#"{"opened":{"people":2}}"#, 2, .opened(people: 2, by: "unknown")),
      (#"{"opened":{"people":2,"by":"me"}}"#, 3, .opened(people: 2, by: "me")),
      (#""closed""#, 1, .closed),
    ])
  func states(json: String, schema: Int, expected: Third) throws {
    #expect(try Self.state(json, schema) == expected)
  }

  @Test("An event is migrated by the migrations of events only")
  func events() throws {
    func event(_ json: String, _ schema: Int) throws -> Door.Event {
      try Door.decodeEvent(Array(json.utf8), schema: schema, by: EventCodec())
    }
    #expect(try event(#""open""#, 1) == .admit)
    #expect(try event(#"{"push":{"force":3}}"#, 2) == .push(force: 3))
    #expect(throws: MigrationError.self) { try event(#""open""#, 2) }
    #expect(try event(#""admit""#, unknownSchema) == .admit)
  }

  @Test("Parameters that the machine accepts are not migrated")
  func parameters() throws {
    #expect(Door.migrated(parameters: ["limit": 3]) == ["capacity": 3])
    #expect(Door.migrated(parameters: ["capacity": 3]) == ["capacity": 3])
    #expect(Door.migrated(parameters: ["other": 3]) == ["other": 3])
  }

  @Test("A state that cannot be migrated is refused with the version and the reason")
  func refused() throws {
    func problem(_ json: String, _ schema: Int) -> MigrationError? {
      do {
        _ = try Self.state(json, schema)
        return nil
      } catch {
        return error as? MigrationError
      }
    }
    #expect(problem(#""closed""#, 4)?.cause == .newer(schema: 3))
    #expect(
      problem(#"{"opened":{"people":-1}}"#, 2)?.cause
        == .thrown(from: 2, reason: "too few people"))
    let missing = problem(#"{"open":{}}"#, 1)
    #expect(missing?.field == "opened.people", "\(String(describing: missing))")
    #expect(
      problem(#""closed""#, 4)?.description
        == "the state has schema version 4, but machine 'Door' has schema version 3; run the later "
        + "program")
  }

  // MARK: Declarations

  private static func plan(_ schema: Int, _ migrations: Migration...) -> MigrationPlan {
    MigrationPlan(machine: "Door", schema: schema, migrations: migrations)
  }

  private enum WithGap: Machine {
    enum State: MachineState, Equatable { case on }
    enum Event: MachineEvent { case go }
    static let schema = 3
    static let migrations = [Migration(from: 1)]
    static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never> {
      StateMachine(initial: State.on, reduce: { state, _ in state })
    }
  }

  @Test("Migrations that repeat or skip a version, or begin at the current version, are errors")
  func problems() throws {
    #expect(
      Self.plan(2, Migration(from: 1, Renamed("a", to: "b")), Migration(from: 1)).problem
        == "there are two migrations of states from version 1; remove one of them")
    #expect(
      Self.plan(4, Migration(from: 1), Migration(from: 3, of: .events)).problem
        == "there is a migration from version 1, but none from version 2; add 'Migration(from: 2)'")
    #expect(
      Self.plan(2, Migration(from: 2)).problem?.contains("from version 2, but 'schema' is 2")
        == true)
    #expect(Self.plan(0).problem == "'schema' is 0; the first version is 1")
    #expect(
      Self.plan(4, Migration(from: 3, of: .events), Migration(from: 2), Migration(from: 3)).problem
        == nil)
    let description = try WithGap.describe(NoParameters())
    #expect(description.error == MigrationPlan(WithGap.self).problem)
    #expect(description.error?.contains("none from version 2") == true)
    #expect(description.schema == 3)
  }

  @Test("A value of a version before the first migration is refused")
  func tooOld() {
    let plan = Self.plan(3, Migration(from: 2))
    #expect(throws: MigrationError.self) { try plan.migrate(Array("1".utf8), .states, from: 1) }
    #expect(throws: Never.self) { try plan.migrate(Array("1".utf8), .states, from: 2) }
  }

  // MARK: Names

  @Test("A migration can exchange two names, and fails if a renamed field would occur twice")
  func renamed() throws {
    func migrated(_ migration: Migration, _ json: String) throws -> String {
      let bytes = try Self.plan(2, migration).migrate(Array(json.utf8), .states, from: 1)
      return String(decoding: bytes, as: UTF8.self)
    }
    let exchange = Migration(from: 1, Renamed("a", to: "b"), Renamed("b", to: "a"))
    #expect(try migrated(exchange, #"{"a":1,"b":2}"#) == #"{"a":2,"b":1}"#)
    #expect(try migrated(exchange, #""a""#) == #""b""#)
    #expect(try migrated(exchange, "[1]") == "[1]")
    #expect(throws: MigrationError.self) {
      try migrated(Migration(from: 1, Renamed("a", to: "b")), #"{"a":1,"b":2}"#)
    }
    let onJSON = Migration(from: 1) { (old: JSONValue) -> JSONValue in
      ["old": old, "kind": "null"]
    }
    #expect(try migrated(onJSON, "null") == #"{"kind":"null","old":null}"#)
  }
}
