/// A topology of a node that can be made to crash or hang, and a second node.
enum FragileTopology {
  static func yaml(
    _ restart: String = "{ backoff: { initial: 20ms, max: 1s, jitter: 0 } }",
    required: Bool = false, timeouts: String = "{ heartbeat: 30s }"
  ) -> String {
    """
    topology: ward
    program: TestNodes
    nodes:
      patient:
        machine: Fragile
        restart: \(restart)
        required: \(required)
        durability: none
      nurse: { machine: Button }
    timeouts: \(timeouts)
    """
  }
}
