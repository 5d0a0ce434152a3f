import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Styles of machines with a key", .timed)
struct InstanceStyleTests {
  private static func topology(_ machine: String) -> Topology {
    Topology(
      name: "boilers", program: "TestNodes",
      nodes: [.machine(machine, name: "boilers", restart: Visits.quick, key: "id")],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60)))
  }

  @Test(
    "A machine of this style has an instance for each key, and continues after a kill",
    arguments: ["TableBoiler", "SlowBoiler", "FunctionBoiler", "FeatureBoiler"])
  func style(_ machine: String) async throws {
    try await withTopology(Self.topology(machine)) { topology in
      for key in ["a", "b"] {
        try await topology.send("boilers", BoilerEvent.heat(id: key))
        try await topology.expect("boilers[\(key)]", BoilerState.hot(times: 1))
      }
      try await topology.kill("boilers")
      try await topology.send("boilers", BoilerEvent.heat(id: "a"))
      try await topology.expect("boilers[a]", BoilerState.hot(times: 2))
      try await topology.expect("boilers[b]", BoilerState.hot(times: 1))
    }
  }

  @Test("A loadable with a key accepts no events, because they have no field for the key")
  func loadable() async throws {
    var loader = Topology(
      name: "loaders", program: "nodes",
      nodes: [.machine("KettleLoader", name: "loaders", restart: Visits.quick, key: "id")])
    loader.timeouts = Timeouts(start: .seconds(60), heartbeat: .seconds(60))
    try await withTopology(loader) { topology in
      do {
        _ = try await topology.client.send("loaders", json: "onAppear")
        Issue.record("an event without a key was accepted")
      } catch {
        #expect("\(error)".contains("no field 'id'"), "\(error)")
      }
    }
  }
}
