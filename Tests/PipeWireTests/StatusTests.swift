import PipeMachines
import PipeWire
import Testing

@Suite("A node's status frame")
struct StatusTests {
  /// The example in `docs/PROTOCOL.md`.
  private static let example = """
    {"blocked":[],"composites":[],"effects":0,"events":3,"gaps":0,"invalidFrames":0,"ins":[],"deadLetters":0,\
    "outs":[{"applied":2,"capacity":1024,"events":3,"name":"orders","waiting":1}],\
    "recentDeadLetters":[],"refused":0,"state":"open","unconnected":0,"version":3}
    """

  private static func members() throws -> [String: JSONValue] {
    guard case .object(let members) = try JSONValue(parsing: example.utf8) else { return [:] }
    return members
  }

  private static func read(_ members: [String: JSONValue]) throws(StatusError) -> NodeStatus {
    try NodeStatus(reading: JSONValue.object(members).bytes)
  }

  @Test("A status with only the required keys is accepted")
  func example() throws {
    let status = try NodeStatus(reading: Array(Self.example.utf8))
    #expect(status.state == "open" && status.version == 3 && status.events == 3)
    #expect(status.outs.map(\.waiting) == [1])
    #expect(status.doubt == nil && status.records == nil && status.synchronization == nil)
  }

  @Test("A required key that is missing or has no value is named in the error")
  func keys() throws {
    let members = try Self.members()
    for key in members.keys where key != "state" {
      var part = members
      part[key] = nil
      #expect(throws: StatusError.missingKey(key)) { try Self.read(part) }
      part[key] = .null
      #expect(throws: StatusError.wrongValue(of: key)) { try Self.read(part) }
    }
  }
}
