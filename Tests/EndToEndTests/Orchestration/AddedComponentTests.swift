import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("A feature that is added to a topology that runs", .timed)
struct AddedComponentTests {
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      gate: { machine: Gate }
      button: { machine: Button }
      other: { machine: Button }
    pipes:
      - { from: gate, when: open, to: button, send: press }
    """
  private static let added =
    ward.replacing("pipes:", with: "  feature: { machine: Button }\npipes:")
    + "\n  - { from: gate, when: open, to: feature, send: press }\n"

  @Test(
    "A feature is added by one more file: nodes that were there go on, and a sender to the new one keeps its state"
  )
  func oneFile() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let client = try ward.client()
      defer { client.close() }
      try await client.send("gate", Gate.Event.open)
      try await client.send("gate", Gate.Event.pass)
      let before = try await ward.pids()
      try ward.tool.directory.write(Self.added, to: "added.yaml")
      let plan = try await ward.run("apply", "-p", "ward", "added.yaml").output
      #expect(
        plan == """
          ward: 1 node added, 1 restarted, 2 unchanged
          ~ gate     restarts: its pipes were changed
          + feature  starts

          """)
      let file = try #require(FileSystem.text(of: ward.tool.directory.path + "/ward.yaml"))
      #expect(file == Self.ward)
      let after = try await ward.await("the sender continues in its state") {
        $0[node: "gate"]?.status?.state == ["open": ["passed": 1]]
      }
      for node in ["button", "other"] { #expect(after[node: node]?.pid == before[node], "\(node)") }
      // Each entry into the state is sent to both, the first one only to the receiver that was there.
      try await client.send("gate", Gate.Event.pass)
      try await ward.await("both receivers have taken what was sent to them") {
        $0[node: "button"]?.status?.state == ["pressed": ["times": 3]]
          && $0[node: "feature"]?.status?.state == ["pressed": ["times": 1]]
      }
    }
  }
}
