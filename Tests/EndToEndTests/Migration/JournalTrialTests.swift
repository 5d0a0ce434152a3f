import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The proof that the next programs can read the journals", .timed)
struct JournalTrialTests {
  /// Returns the failures in the output of `check --journals -o json`.
  private func failures(_ output: String) throws -> [JSONValue] {
    guard case .array(let records) = try JSONValue(parsing: output.utf8),
      case .array(let failures)? = records.first?["journals"]?["failures"]
    else { return [] }
    return failures
  }

  @Test("'check --journals' reads everything that the journals have, and changes nothing")
  func complete() async throws {
    let yaml = Parcels.yaml(
      parcel: "parameters: { wait: 1000000 }", pipe: ", on_refused: postpone")
    try await Parcels.with(yaml) { parcels in
      try await parcels.expectFirst()
      try await parcels.send(#"{"hold":{"id":"a"}}"#)
      try await parcels.ship()
      try await parcels.expect(["2"], of: "SELECT sequence FROM postponed")
      try await parcels.topology.run("stop", "parcel")
      try await parcels.ship(2)
      let before = try await parcels.topology.pids()
      for version in ["1", "2"] {
        try await parcels.build(version, "sender", "receiver")
        let checked = try await parcels.topology.run("check", "--journals", "ward.yaml")
        // The shipper's state; the parcel's state, its effect and its postponed event; two queued
        // events.
        #expect(checked.output.contains("can read the journals: 6 stored values"), "\(checked)")
      }
      #expect(try await parcels.topology.pids() == before)
      try await parcels.expect(
        ["1"], of: "SELECT count(*) FROM record WHERE schema IS NULL AND id = 1")
    }
  }

  @Test(
    "A migration that throws, traps or does not end is listed, and 'apply' changes nothing",
    arguments: [
      ("throwing", "threw: no such address"), ("trapping", "a migration traps on purpose"),
      ("looping", "did not end within 5 s of processor time"),
    ])
  func badMigration(version: String, reason: String) async throws {
    try await Parcels.with(Parcels.yaml(timeouts: "timeouts: { start: 5s }")) { parcels in
      try await parcels.expectFirst()
      try await parcels.send(#"{"send":{"id":"a","to":"bad"}}"#)
      let before = try await parcels.topology.pids()
      try await parcels.build(version, "sender", "receiver")
      let planned = try await parcels.topology.run("apply", "--dry-run", "ward.yaml", code: 1)
      #expect(planned.output.contains("node 'parcel': state of step 2: "), "\(planned)")
      let refused = try await parcels.topology.run("apply", "ward.yaml", code: 1)
      #expect(
        refused.error.contains("the new program cannot read 1 stored value of the journals"),
        "\(refused)")
      #expect(try await parcels.topology.pids() == before)

      try await parcels.topology.run("stop", "parcel")
      try await parcels.ship()
      let checked = try await parcels.topology.run(
        "check", "--journals", "-o", "json", "ward.yaml", code: 1)
      let found = try failures(checked.output)
      // The event of the former version has another name, and no migration.
      #expect(found.count == 2, "\(checked)")
      let state = found.first { $0["kind"] == "state" }
      #expect(state?["node"] == "parcel")
      #expect(state?["number"] == 2)
      #expect(state?["reason"]?.string?.contains(reason) == true, "\(checked)")
      let event = found.first { $0["kind"] == "queuedEvent" }
      #expect(event?["node"] == "shipper")
      #expect(event?["pipe"] == "parcels")
      #expect(event?["receiver"] == "parcel")
      #expect(event?["number"] == 2)
    }
  }

  @Test("'check --journals' names the field that the next program cannot read")
  func field() async throws {
    try await Parcels.with { parcels in
      try await parcels.expectFirst()
      try await parcels.topology.run("stop", "parcel")
      try parcels.journal().run(#"UPDATE record SET state = '{"sent":{"to":"x"}}'"#)
      try await parcels.build("2", "sender", "receiver")
      let checked = try await parcels.topology.run(
        "check", "--journals", "-o", "json", "ward.yaml", code: 1)
      let found = try failures(checked.output)
      #expect(found.map { $0["field"]?.string } == ["sent.steps"], "\(checked)")
      #expect(found.first?["schema"] == 1)
    }
  }

  @Test("'apply --accept-loss' deletes the state of the named node, and its queued events arrive")
  func acceptedState() async throws {
    try await Parcels.with { parcels in
      try await parcels.expectFirst()
      try await parcels.send(#"{"send":{"id":"a","to":"bad"}}"#)
      try await parcels.build("throwing", "sender", "receiver")
      let unknown = try await parcels.topology.run(
        "apply", "--accept-loss", "nothing", "ward.yaml", code: 1)
      #expect(unknown.error.contains("there is no node or pipe 'nothing'"), "\(unknown)")
      try await parcels.topology.run("apply", "--accept-loss", "shipper", "ward.yaml", code: 1)
      try await parcels.topology.run("apply", "--accept-loss", "parcel", "ward.yaml")
      try await parcels.expect(#""new""#)
      try await parcels.ship()
      try await parcels.expect(#"{"shipped":{"address":"v2 1","steps":1,"by":"car"}}"#)
    }
  }

  @Test("'apply --accept-loss' of a pipe makes its unreadable events dead letters")
  func acceptedEvents() async throws {
    try await Parcels.with { parcels in
      try await parcels.expectFirst()
      try await parcels.topology.run("stop", "parcel")
      try await parcels.ship()
      try await parcels.build("throwing", "sender", "receiver")
      try await parcels.topology.run("apply", "ward.yaml")
      let checked = try await parcels.topology.run("check", "--journals", "ward.yaml", code: 1)
      #expect(checked.output.contains("queued event 2 of pipe 'parcels'"), "\(checked)")
      try await parcels.topology.run("start", "parcel")
      try await parcels.expect(["2|1"], of: "SELECT sequence, schema IS NULL FROM dead_letter")
      // A program with a migration can take the event.
      try await parcels.build("2", "sender", "receiver")
      try await parcels.topology.run("apply", "ward.yaml")
      try await parcels.topology.run("dead-letters", "parcel", "resend", "1")
      try await parcels.expect(#"{"shipped":{"address":"v1 1","steps":102,"by":"van"}}"#)
    }
  }

  @Test("All instances are read, and '--accept-loss' deletes only unreadable instances")
  func instances() async throws {
    try await Parcels.with(Parcels.yaml(parcel: "key: id")) { parcels in
      try await parcels.expect(#"{"sent":1}"#)
      try await parcels.send(#"{"send":{"id":"b","to":"bad"}}"#)
      try await parcels.send(#"{"send":{"id":"c","to":"x"}}"#)
      try await parcels.build("throwing", "sender", "receiver")
      let checked = try await parcels.topology.run("check", "--journals", "ward.yaml", code: 1)
      #expect(checked.output.contains("node 'parcel', instance 'b': state of step 1"), "\(checked)")
      #expect(checked.output.contains("1 failure, 3 stored values read"), "\(checked)")
      try await parcels.topology.run("apply", "ward.yaml", code: 1)
      try await parcels.topology.run("apply", "--accept-loss", "parcel", "ward.yaml")
      try await parcels.send(#"{"ship":{"id":"c","to":"y"}}"#)
      try await parcels.expect(
        [
          #"c|{"shipped":{"address":"y","steps":2,"by":"van"}}"#
        ], of: "SELECT key, state FROM instance WHERE key > 'a'")
    }
  }
}
