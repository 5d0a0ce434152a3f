import PipeRuntime

/// A chain of relays that runs in the background. The commands that a user would run start and stop
/// the chain.
struct RelayChain {
  private let orchestrator: OrchestratorCommand
  private let file: String
  private let name = "chain"

  /// - Parameter count: The number of relays.
  init(_ count: Int) throws {
    let directory = try TemporaryDirectory()
    orchestrator = OrchestratorCommand(directory: directory)
    let nodes = (1...count).map { "  n\($0): { machine: Relay }" }
    let pipes = (1..<count).map { "  - { from: n\($0).out, to: n\($0 + 1).in }" }
    file = try directory.write(
      """
      topology: \(name)
      program: \(Programs.nodes)
      nodes:
      \(nodes.joined(separator: "\n"))
      pipes:
      \(pipes.joined(separator: "\n"))
      """, to: "chain.yaml")
  }

  /// The time that each verb took. Unit: seconds.
  struct Times {
    var up = 0.0
    var ps = Samples()
    var down = 0.0
  }

  /// Starts the relays, lists them several times, and stops them.
  func run(lists: Int) throws -> Times {
    var times = Times()
    let (orchestrator, name) = (orchestrator, name)
    let down: @Sendable () -> Void = { try? orchestrator.run(["down", "-p", name]) }
    let cleanup = Cleanup.add(down)
    defer { Cleanup.remove(cleanup) }
    do {
      times.up = try time(["up", "-d", "--wait", "--wait-timeout", "60s", file])
      for _ in 0..<lists { times.ps.add(try time(["ps", "-p", name])) }
      times.down = try time(["down", "-p", name])
    } catch {
      down()
      throw error
    }
    return times
  }

  private func time(_ arguments: [String]) throws -> Double {
    let start = Clock.nanoseconds
    try orchestrator.run(arguments)
    return Double(Clock.nanoseconds - start) / 1e9
  }
}
