import PipeClient
import Testing

@Suite("Errors of a client of a topology")
struct TopologyClientErrorTests {
  @Test(
    "Each error says what happened and what to do, and has the documented exit code",
    arguments: [
      (
        .notRunning("lft", running: ["lift"]), 3,
        "topology 'lft' is not running; running: 'lift'. Did you mean 'lift'?"
      ),
      (.notRunning("lift", running: []), 3, "topology 'lift' is not running; running: none"),
      (
        .orphaned("lift", nodes: ["door", "motor"], file: "/lift.yaml", deployment: "/lab.yaml"), 3,
        "the orchestrator of 'lift' was killed, and 2 nodes are still running; 'orchestrator up "
          + "/lift.yaml --deployment /lab.yaml' adopts them, 'orchestrator down -p lift' ends them"
      ),
      (.noneRunning, 3, "no topology is running; 'orchestrator up FILE' starts a topology"),
      (
        .ambiguous(["lift", "relay"]), 2,
        "2 topologies are running; choose a topology with -p: lift, relay"
      ),
      (.orchestratorGone("lift"), 1, "the orchestrator of 'lift' is no longer running"),
      (
        .notAnswering("lift", after: .seconds(5)), 124,
        "the orchestrator of 'lift' did not answer within 5 s: the process is stopped, hung or very busy; try "
          + "again, or end the orchestrator with 'orchestrator down -p lift --force'"
      ),
      (
        .unknownNode("dor", known: ["door"]), 2,
        "no such node 'dor'; the nodes are 'door'. Did you mean 'door'?"
      ),
      (
        .unknownNode("lift.yaml", known: []), 2,
        "no such node 'lift.yaml'; the nodes are none; name a running topology with -p NAME; "
          + "'orchestrator ls' lists the running topologies"
      ),
      (
        .hasShards("orders", first: "orders.0", count: 4), 2,
        "node 'orders' has 4 shards, and this works with one process; name a shard, as in 'orders.0', or an "
          + "instance, as in 'orders[KEY]'"
      ),
      (.unknownPipe("calls", known: []), 2, "no such pipe 'calls'; the pipes are none"),
      (.nodeDown("door", "stopped"), 1, "node 'door' is not running: stopped"),
      (
        .busy("door", "pipe 'calls' is full"), 1,
        "node 'door' is busy: pipe 'calls' is full; nothing was applied; try again"
      ),
      (
        .invalidEvent("door", TopologyClientError.constantProblem), 2,
        "node 'door': a constant node accepts no events"
      ),
      (
        .invalidEvent("log", TopologyClientError.monitorProblem), 2,
        "node 'log': a monitor accepts no events"
      ),
      (
        .unknownOutcome("door", after: .seconds(5)), 124,
        "node 'door' did not answer within 5 s; the outcome is unknown: the event may or may not have been "
          + "applied; check the node's state before you send the event again"
      ),
      (
        .unknownOutcome("door", after: nil), 1,
        "node 'door' ended before it answered; the outcome is unknown: the event may or may not have been "
          + "applied; check the node's state before you send the event again"
      ),
      (.otherType("door", "it has 'open'"), 2, "node 'door' is of another type: it has 'open'"),
      (.timedOut("after 5 s"), 124, "timed out after 5 s"), (.failed("no disk"), 1, "no disk"),
      (.closed, 1, "the client is closed"),
    ] as [(TopologyClientError, Int32, String)])
  func wording(error: TopologyClientError, code: Int32, text: String) {
    #expect(error.description == text)
    #expect(error.exitCode == code)
  }
}
