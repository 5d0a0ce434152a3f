import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("The latest states of nodes", .timed)
struct LatestStatesTests {
  private func node(
    _ state: JSONValue?, version: UInt64 = 3, isRunning: Bool = true
  ) -> NodeInformation {
    var node = NodeInformation(
      name: "door", kind: .machine, hosts: "Door", program: "nodes", phase: "running",
      isRunning: isRunning, inbox: "", feed: "")
    node.incarnation = 2
    if let state {
      var status = NodeStatus()
      (status.state, status.version, status.events) = (state, version, 7)
      node.status = status
    }
    return node
  }

  private func latestStates(_ version: UInt64, incarnation: UInt64 = 2) -> LatestStates {
    var latest = LatestStates()
    latest.take(
      StateChange(
        node: "door", incarnation: incarnation, version: version, time: 0, cause: "request",
        state: "reported"))
    return latest
  }

  private func state(_ latest: LatestStates, _ node: NodeInformation) -> JSONValue? {
    latest.merged(into: [node])[0].status?.state
  }

  @Test("A state reported by a node is merged with the counters that the orchestrator knows")
  func latestStates() {
    #expect(state(latestStates(4), node("known")) == "reported")
    #expect(latestStates(4).merged(into: [node("known")])[0].status?.version == 4)
    #expect(latestStates(4).merged(into: [node("known")])[0].status?.events == 7)
    #expect(state(latestStates(0), node(nil)) == "reported")
    #expect(state(LatestStates(), node("known")) == "known")
  }

  @Test(
    "Counters and in-doubt transactions that a node reports replace the orchestrator's values")
  func beside() {
    let doubt = InDoubtTransaction(
      participant: "door", composite: "lift", event: "open",
      transaction: TransactionID(epoch: 1, sequence: 2), since: 3)
    func shown(events: UInt64, _ doubts: [InDoubtTransaction]) -> NodeInformation {
      var change = StateChange(
        node: "door", incarnation: 2, version: 3, time: 0, cause: "request", state: "reported",
        doubts: doubts)
      var status = NodeStatus()
      (status.events, status.refused) = (events, 4)
      change.summary = NodeSummary(status: status)
      var latest = LatestStates()
      latest.take(change)
      var node = node("known")
      // The orchestrator's older information.
      node.doubts = doubts.isEmpty ? [doubt] : []
      node.status?.deadLetters = 5
      return latest.merged(into: [node])[0]
    }
    let newer = shown(events: 8, [doubt])
    #expect(
      newer.status?.events == 8 && newer.status?.refused == 4 && newer.status?.deadLetters == 0)
    #expect(newer.doubts == [doubt] && newer.status?.doubt == doubt)
    #expect(newer.status?.state == "reported")
    let older = shown(events: 6, [])
    #expect(
      older.status?.events == 7 && older.status?.refused == 0 && older.status?.deadLetters == 5)
    #expect(older.doubts == [] && older.status?.doubt == nil)
  }

  @Test("A node's report is ignored if it is outdated or comes from an ended process")
  func old() {
    #expect(state(latestStates(2), node("known")) == "known")
    #expect(state(latestStates(9, incarnation: 1), node("known")) == "known")
    #expect(state(latestStates(9), node(nil, isRunning: false)) == nil)
  }
}
