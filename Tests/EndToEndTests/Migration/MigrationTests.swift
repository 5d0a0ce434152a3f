import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Nodes whose program has a later version of their machine", .timed)
struct MigrationTests {
  @Test("A node continues in the migrated state, which is not migrated again after the next step")
  func state() async throws {
    try await Parcels.with { parcels in
      try await parcels.expectFirst()
      try await parcels.send(#"{"send":{"id":"a","to":"x"}}"#)
      try await parcels.build("2", "sender", "receiver")
      try await parcels.topology.run("apply", "ward.yaml")
      let migrated = #"{"shipped":{"address":"x","steps":102,"by":"van"}}"#
      try await parcels.expect(migrated)
      // The journal still has the former state, which is migrated again.
      try await parcels.kill()
      try await parcels.expect(migrated)
      try await parcels.send(#"{"ship":{"id":"a","to":"y"}}"#)
      let next = #"{"shipped":{"address":"y","steps":103,"by":"van"}}"#
      try await parcels.expect(next)
      // The journal has the migrated state.
      try await parcels.kill()
      try await parcels.expect(next)
      try await parcels.expect(
        ["2"], of: "SELECT schema FROM record ORDER BY id DESC LIMIT 1")
    }
  }

  @Test("A state that is two versions old goes through both migrations")
  func twoVersions() async throws {
    try await Parcels.with { parcels in
      try await parcels.expectFirst()
      try await parcels.send(#"{"send":{"id":"a","to":"x"}}"#)
      try await parcels.build("3", "sender", "receiver")
      try await parcels.topology.run("apply", "ward.yaml")
      try await parcels.expect(#"{"address":"x","steps":1102}"#)
    }
  }

  @Test("A node that waits for its restart during an upgrade starts with the next version")
  func waitingForRestart() async throws {
    let yaml = Parcels.yaml().replacing("initial: 10ms", with: "initial: 10m, max: 10m")
    try await Parcels.with(yaml) { parcels in
      try await parcels.expectFirst()
      try await parcels.send(#"{"send":{"id":"a","to":"x"}}"#)
      try await parcels.topology.run("kill", "parcel")
      try await parcels.topology.await("'parcel' waits") {
        $0[node: "parcel"]?.phase == "backing off"
      }
      try await parcels.build("2", "sender", "receiver")
      try await parcels.topology.run("apply", "ward.yaml")
      try await parcels.topology.run("start", "parcel")
      try await parcels.expect(#"{"shipped":{"address":"x","steps":102,"by":"van"}}"#)
    }
  }

  @Test("Queued, postponed and refused events are migrated at their receiver")
  func events() async throws {
    let yaml = Parcels.yaml(
      parcel: "parameters: { wait: 1000000 }", pipe: ", on_refused: postpone")
    try await Parcels.with(yaml) { parcels in
      try await parcels.expectFirst()
      try await parcels.send(#"{"hold":{"id":"a"}}"#)
      try await parcels.ship()
      try await parcels.expect(["2"], of: "SELECT sequence FROM postponed")
      try await parcels.topology.run("stop", "parcel")
      try await parcels.ship(2)
      try await parcels.build("2", "sender", "receiver")
      try await parcels.topology.run("apply", "ward.yaml")
      try await parcels.ship()
      try await parcels.topology.run("start", "parcel")
      try await parcels.send(#"{"release":{"id":"a"}}"#)
      // One step before the migration; one postponed event and two queued events of the first
      // version; one event of the second version.
      try await parcels.expect(#"{"shipped":{"address":"v2 4","steps":105,"by":"hand"}}"#)
      #expect(try parcels.journal().integer("SELECT count(*) FROM dead_letter") == 0)
    }
  }

  @Test("A sender that runs the former version sends events to a receiver of the next version")
  func skew() async throws {
    try await Parcels.with { parcels in
      try await parcels.expectFirst()
      let sender = try await parcels.topology.pids()["shipper"]
      try await parcels.build("2", "receiver")
      try await parcels.topology.run("apply", "ward.yaml")
      try await parcels.ship(2)
      try await parcels.expect(#"{"shipped":{"address":"v1 2","steps":103,"by":"van"}}"#)
      #expect(try await parcels.topology.pids()["shipper"] == sender)
    }
  }

  @Test("A running effect continues with the migrated state")
  func effect() async throws {
    try await Parcels.with(Parcels.yaml(parcel: "parameters: { wait: 1000000 }")) { parcels in
      try await parcels.expectFirst()
      try await parcels.send(#"{"send":{"id":"a","to":"x"}}"#)
      try await parcels.send(#"{"hold":{"id":"a"}}"#)
      try await parcels.expect(["1"], of: "SELECT count(*) FROM effect WHERE feedback = 0")
      try await parcels.build("2", "sender", "receiver")
      // The parameter `wait` of the first version is now called `milliseconds`.
      try parcels.topology.write(
        Parcels.yaml(parcel: "parameters: { wait: 1 }"))
      try await parcels.topology.run("apply", "ward.yaml")
      try await parcels.expect(#"{"shipped":{"address":"ping","steps":102,"by":"hand"}}"#)
    }
  }

  @Test("Each instance is migrated when its next event arrives")
  func instances() async throws {
    try await Parcels.with(Parcels.yaml(parcel: "key: id")) { parcels in
      for key in ["b", "c"] {
        try await parcels.send(#"{"send":{"id":"\#(key)","to":"x"}}"#)
      }
      try await parcels.expect(#"{"sent":3}"#)
      try await parcels.build("2", "sender", "receiver")
      try await parcels.topology.run("apply", "ward.yaml")
      try await parcels.send(#"{"ship":{"id":"b","to":"y"}}"#)
      let states = "SELECT key, state, schema FROM instance WHERE key > 'a' ORDER BY key"
      let after = [
        #"b|{"shipped":{"address":"y","steps":102,"by":"van"}}|2"#,
        #"c|{"sent":{"to":"x","steps":1}}|"#,
      ]
      try await parcels.expect(after, of: states)
      // The instances `a` and `c` are in their former state.
      try await parcels.expect(#"{"sent":2,"shipped":1}"#)
      try await parcels.kill()
      try await parcels.send(#"{"ship":{"id":"b","to":"z"}}"#)
      try await parcels.send(#"{"ship":{"id":"c","to":"z"}}"#)
      try await parcels.expect(#"{"sent":1,"shipped":2}"#)
      try await parcels.expect(
        [
          #"b|{"shipped":{"address":"z","steps":103,"by":"van"}}|2"#,
          #"c|{"shipped":{"address":"z","steps":102,"by":"van"}}|2"#,
        ], of: states)
    }
  }

  @Test("A program refuses a state of a later schema version, and the error names both versions")
  func laterVersion() async throws {
    try await Parcels.with { parcels in
      try await parcels.expectFirst()
      try await parcels.build("2", "sender", "receiver")
      try await parcels.topology.run("apply", "ward.yaml")
      try await parcels.send(#"{"ship":{"id":"a","to":"x"}}"#)
      try await parcels.build("1", "receiver")
      try await parcels.topology.run("restart", "parcel", code: 1)
      let reason = try await parcels.topology.directory()[node: "parcel"]?.reason ?? ""
      #expect(
        reason.contains(
          "schema version 2, but machine 'Parcel' has schema version 1"),
        "\(reason)")
    }
  }

  @Test("If no migration is declared, the error names the missing field")
  func undeclared() async throws {
    try await Parcels.with { parcels in
      try await parcels.expectFirst()
      try await parcels.send(#"{"hold":{"id":"a"}}"#)
      try await parcels.topology.run("stop", "parcel")
      try parcels.journal().run(
        #"UPDATE record SET state = '{"shipped":{"address":"x","steps":1}}'"#)
      try await parcels.build("undeclared", "receiver")
      try await parcels.topology.run("start", "parcel", code: 1)
      let reason = try await parcels.topology.directory()[node: "parcel"]?.reason ?? ""
      #expect(reason.contains("field 'shipped.by' is missing"), "\(reason)")
    }
  }
}
