import PipeRuntime

/// A button whose presses send visitors to a gate, for the tests of journals.
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
