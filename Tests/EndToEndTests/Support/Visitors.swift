import PipeRuntime

/// A topology of a button and a gate, for tests of journals: each press sends a visitor to the
/// gate.
enum Visitors {
  static func topology(
    _ onRefused: PipeSpecification.OnRefused = .record, durability: Durability? = nil,
    restart: RestartPolicy = RestartPolicy(backoff: Backoff(initial: .milliseconds(10)))
  ) -> Topology {
    Topology(
      name: "visitors", program: "TestNodes",
      nodes: [
        .machine("Button", name: "button", restart: restart, durability: durability),
        .machine("Gate", name: "gate", restart: restart, durability: durability),
      ],
      pipes: [
        .rule(
          from: "button", when: "pressed", to: "gate", send: "pass", name: "visitors",
          onRefused: onRefused)
      ], timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60)))
  }
}
