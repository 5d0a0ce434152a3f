import Glibc
import PipeRuntime

/// `orchestrator down`
struct Down: Verb {
  let description = VerbDescription(
    "down", "Stops a topology in order",
    discussion:
      "Nodes stop before those that they depend on; each is asked, then terminated, then "
      + "killed. Returns when no process is left.",
    options: [
      .topology,
      Option("force", "f", "Kills all nodes at once"),
      Option("timeout", value: .duration, "The longest wait for the end. Default: 30s"),
    ],
    examples: [
      (
        "orchestrator down",
        "Stops the only running topology"
      ),
      (
        "orchestrator down -p elevator --force",
        "Kills the elevator"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    let timeout = arguments.duration("timeout") ?? .seconds(30)
    let isForced = arguments.flag("force")
    let deadline = ContinuousClock.now + timeout
    let client = try TopologyClient.attach(to: arguments.topology)
    let directories = try RuntimeDirectories(topology: client.topology)
    let orchestrator = RunningTopology.find(directories)?.pid
    do {
      defer { client.close() }
      try Blocking.attempt { try await client.down(force: isForced) }
    } catch TopologyClientError.orchestratorGone where RunningTopology.find(directories) == nil {
      // It was about to end anyway.
    }
    // The lock is given free after the last process has ended.
    while RunningTopology.find(directories) != nil {
      guard ContinuousClock.now < deadline else {
        throw TopologyClientError.timedOut(
          "after \(timeout.shortText): '\(client.topology)' is still ending"
            + (isForced ? "" : "; 'orchestrator down --force' kills it"))
      }
      usleep(10_000)
    }
    // Then its own process ends; one that is not reaped by its parent is not waited for.
    let end = min(deadline, .now + .seconds(1))
    while let orchestrator, Glibc.kill(orchestrator, 0) == 0, ContinuousClock.now < end {
      usleep(1_000)
    }
    try console.print("\(client.topology): down")
    return .success
  }
}
