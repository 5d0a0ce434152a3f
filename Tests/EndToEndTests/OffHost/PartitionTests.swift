import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Packet loss between the places of a deployment", .timed, .needsNetworkNamespace)
struct PartitionTests {
  private static let pair = """
    topology: ward
    program: TestNodes
    nodes:
      left: { machine: Party, place: front }
      right: { machine: Party, place: back }
    composites:
      pair: { components: [left, right], synchronize: [meet] }
    """

  /// Returns the ports at which a node listens.
  private func ports(of node: String, _ ward: DetachedTopology) async throws -> [UInt16] {
    let information = try #require(try await ward.directory()[node: node])
    return [information.inbox, information.feed].compactMap {
      $0.split(separator: ":").last.flatMap { UInt16($0) }
    }
  }

  @Test(
    "Both ends detect a network partition, and afterwards every event arrives once and in order")
  func partition() async throws {
    try await NetworkNamespace.with(
      DeployedTopologyTests.numbers, deployment: DeployedTopologyTests.lab
    ) { ward, network in
      try await ward.startNumbers()
      for _ in 0..<2 {
        try await ward.waitUntilNumbersArrive()
        let ports = try await ports(of: "sink", ward)
        try await network.setPacketLoss(.all, ports: ports)
        let isNoticed: Bool? = try await poll(
          every: .milliseconds(100), within: .seconds(60), of: ward.tool.directory
        ) {
          try await network.connections(to: ports) == 0 ? true : nil
        }
        #expect(isNoticed == true)
        try await network.setPacketLoss(.none, ports: ports)
      }
      let end = try await ward.waitUntilAllArrived(try await ward.endNumbers())
      // No node was restarted.
      #expect(end.nodes.allSatisfy { $0.incarnation == 1 })
    }
  }

  @Test("With 30% packet loss, every event arrives once and in order")
  func loss() async throws {
    try await NetworkNamespace.with(
      DeployedTopologyTests.numbers, deployment: DeployedTopologyTests.lab
    ) { ward, network in
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive(100)
      try await network.setPacketLoss(.percent(30), ports: try await ports(of: "sink", ward))
      try await ward.waitUntilNumbersArrive(2_000)
      let count = try await ward.endNumbers()
      let all = try JSONValue(
        encoding: Sink.State.counting(last: count, count: count, wrong: 0))
      let hasAll: Bool? = try await poll(every: .milliseconds(100), within: .seconds(120)) {
        try await ward.directory()[node: "sink"]?.status?.state == all ? true : nil
      }
      #expect(hasAll == true)
    }
  }

  @Test("A synchronized event stays atomic, whichever participant or coordinator is disconnected")
  func composite() async throws {
    try await NetworkNamespace.with(Self.pair, deployment: DeployedTopologyTests.lab) {
      ward, network in
      var (committed, uncertain) = (0, 0)
      for lost in ["right", "pair", "left"] {
        let ports = try await ports(of: lost, ward)
        // One request is in flight when packets begin to get lost.
        let caught = try ward.tool.start(["send", "--timeout", "20s", "pair", #""meet""#])
        try await network.setPacketLoss(.all, ports: ports)
        let isNoticed: Bool? = try await poll(
          every: .milliseconds(100), within: .seconds(60), of: ward.tool.directory
        ) {
          try await network.connections(to: ports) == 0 ? true : nil
        }
        #expect(isNoticed == true)
        try await network.setPacketLoss(.none, ports: ports)
        let result = try await ward.tool.result(of: caught, within: .seconds(60))
        if result.code == 0 { committed += 1 } else { uncertain += 1 }
        let hasCommitted: Bool? = try await poll(
          every: .milliseconds(100), within: .seconds(60), of: ward.tool.directory
        ) {
          let sent = try ward.tool.start(
            CommandLineTool.withLongTimeout(["send", "pair", #""meet""#]))
          if try await ward.tool.result(of: sent, within: .seconds(60)).code == 0 { return true }
          uncertain += 1
          return nil
        }
        #expect(hasCommitted == true)
        committed += 1
        let met = try await ward.await("both have met as often") { directory in
          let left = directory[node: "left"]?.status?.state
          return left != nil && left == directory[node: "right"]?.status?.state
        }
        let state = try #require(met[node: "left"]?.status?.state)
        let count = try JSONRecord.decode(Party.State.self, from: Array(state.text.utf8)).met
        // A reply may be lost with its connection, although the event was committed.
        #expect((committed...committed + uncertain).contains(count))
      }
    }
  }
}
