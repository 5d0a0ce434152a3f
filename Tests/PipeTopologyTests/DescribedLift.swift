import PipeMachines
import PipeWire

extension Described {
  private static let call = [CaseDescription.Field(name: "floor", type: "Int")]
  private static let doorStates: [CaseDescription] = [
    .init(name: "closed"), .init(name: "open", fields: persons),
  ]
  private static let motorStates: [CaseDescription] = [
    .init(name: "standing", fields: call), .init(name: "moving", fields: call),
  ]

  /// Machines that synchronize some events, and some that do not match.
  static let lift: [MachineDescription] = [
    machine(
      "LiftDoor", initial: "closed", states: doorStates,
      events: [
        .init(name: "open"), .init(name: "close"), .init(name: "go"), .init(name: "ring"),
      ], in: [.init(name: "commands", eventType: "LiftDoor.Event", events: [.init(name: "open")])],
      alphabet: ["open", "close", "go"]),
    machine(
      "LiftMotor", initial: ["standing": ["floor": 0]], states: motorStates,
      events: [.init(name: "open"), .init(name: "go", fields: call), .init(name: "arrive")]),
    machine(
      "OddMotor", initial: ["standing": ["floor": 0]], states: motorStates,
      events: [
        .init(name: "open"),
        .init(name: "go", fields: [.init(name: "floor", type: "String")]),
      ], outputs: [.init(name: "hum")]),
    machine(
      "LiftPanel", initial: "idle",
      states: [.init(name: "idle"), .init(name: "pressed", fields: call)],
      events: [.init(name: "press", fields: call)],
      out: [
        .init(
          name: "calls", eventType: "LiftMotor.Event", events: [.init(name: "go", fields: call)]),
        .init(
          name: "doors", eventType: "LiftDoor.Event",
          events: [.init(name: "open"), .init(name: "close")]),
        .init(name: "closes", eventType: "Closing", events: [.init(name: "close")]),
        .init(
          name: "shuts", eventType: "LiftDoor.Event",
          events: [.init(name: "open"), .init(name: "close")], sentEvents: ["close"]),
        .init(
          name: "opens", eventType: "LiftDoor.Event",
          events: [.init(name: "open"), .init(name: "close")], sentEvents: ["open"]),
        .init(
          name: "turns", eventType: "LiftDoor.Event",
          events: [.init(name: "open"), .init(name: "close")], sentEvents: ["close", "open"]),
      ]),
  ]

  static let liftState = CompositeStateDescription(
    name: "LiftState", states: [.init(name: "waiting"), .init(name: "moving")],
    components: [
      .init(type: "LiftDoor.State", states: doorStates),
      .init(type: "LiftMotor.State", states: motorStates),
    ])

  /// Returns a topology with a lift's nodes, its composites from line 10 on, and pipes after them.
  static func withLift(composites: String, pipes: String = "[]") -> String {
    withNodes(
      """
      door: { machine: LiftDoor }
      motor: { machine: LiftMotor }
      odd: { machine: OddMotor }
      panel: { machine: LiftPanel }
      preview: { machine: LiftDoor, constant: closed }
      """,
      and: "monitors: { audit: { monitor: StateLog } }\ncomposites:\n"
        + composites.split(separator: "\n").map { "  \($0)\n" }.joined()
        + "pipes: \(pipes)\n")
  }

  /// Returns the diagnostics of the reader, or else of the checker, and the location that `^` marks
  /// in the text.
  static func problems(_ marked: String) -> (found: [String], place: String) {
    let before = marked.prefix { $0 != "^" }
    let line = before.count { $0 == "\n" } + 1
    let column = before.reversed().prefix { $0 != "\n" }.count + 1
    let text = marked.replacing("^", with: "")
    let readErrors = errors(text)
    let found = readErrors.isEmpty ? (try? check(text)) ?? [] : readErrors
    return (found.filter { !$0.hasSuffix("[unconnected-port]") }, "\(line):\(column)")
  }
}
