import FoundationEssentials
import PipeMachines
import PipeWire
import Testing

@Suite("Records of the control socket as JSON")
struct JSONRecordTests {
  private static let description = MachineDescription(
    machine: "Door", initial: ["open": [:]],
    states: [CaseDescription(name: "open", fields: [.init(name: "_0", type: "Array<Int>")])],
    events: [], alphabet: ["go"], outputs: [],
    outPorts: [PortDescription(name: "out", eventType: "E", events: [], sentEvents: nil)],
    inPorts: [],
    error: "no \"door\" at /dev/door: \\ \n")

  private static let hello = NodeHello(
    node: "door", pid: 7, incarnation: .max, description: description, phase: .configured,
    temporaryFailure: "the disk '/x' is full")

  private static let configuration = NodeConfiguration(
    ins: [.init(name: "a/b", capacity: 1, onRefused: .postpone, isDurable: true)],
    participant: .init(coordinator: "lift", events: ["go": ["lift", "house"]]))

  private static var status: NodeStatus {
    var status = NodeStatus()
    status.state = ["waiting": ["since": 1_700_000_000_123_456_789, "of": .number(0.5)]]
    status.version = .max
    status.records = 1_000_000_000_000_000_000
    status.recentDeadLetters = [
      DeadLetter(
        id: 1, pipe: "p", sequence: 2, event: .null, reason: "ß", version: 3, time: .min)
    ]
    return status
  }

  private func check<Record: Codable & Equatable>(_ record: Record) throws {
    let text = try JSONRecord.encode(record)
    #expect(try JSONDecoder().decode(Record.self, from: Data(text)) == record)
    #expect(try JSONRecord.decode(Record.self, from: text) == record)
    // Foundation escapes slashes, and other encoders write spaces.
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted]
    #expect(try JSONRecord.decode(Record.self, from: Array(encoder.encode(record))) == record)
  }

  @Test("Foundation and the coders of records decode each other's text")
  func same() throws {
    try check(Self.hello)
    try check(Self.configuration)
    try check(Self.status)
    try check(NodeGreeting(orchestrator: 1, isDetached: true, output: "/run/a", error: nil))
    try check(ControlCommand.kill(node: "door", signal: 9))
    try check(ControlAnswer.description(Self.description))
  }

  /// A record that notes the coders that it was encoded and decoded with.
  private struct Spy: Codable {
    nonisolated(unsafe) static weak var reader: AnyObject?
    nonisolated(unsafe) static weak var writer: AnyObject?

    nonisolated(unsafe) static var nodeState = 0

    enum CodingKeys: CodingKey { case number }
    var number = 1

    init() {}

    init(from decoder: any Decoder) throws {
      Self.reader = Self.object(in: decoder)
      number = try decoder.container(keyedBy: CodingKeys.self).decode(Int.self, forKey: .number)
    }

    func encode(to encoder: any Encoder) throws {
      Self.writer = Self.object(in: encoder)
      var members = encoder.container(keyedBy: CodingKeys.self)
      try members.encode(number, forKey: .number)
    }

    private static func object(in coder: Any) -> AnyObject? {
      let object = Mirror(reflecting: coder).children.first { type(of: $0.value) is AnyObject.Type }
      if object != nil { nodeState += 1 }
      return object.map { $0.value as AnyObject }
    }
  }

  @Test("Coders are released after encoding and decoding")
  func released() throws {
    let text = try JSONRecord.encode(Spy())
    #expect(Spy.writer == nil)
    #expect(try JSONRecord.decode(Spy.self, from: text).number == 1)
    #expect(Spy.reader == nil)
    #expect(Spy.nodeState == 2)
  }

  @Test("An invalid record is refused with the location of the error, as in Foundation")
  func refused() throws {
    let wrong = Array(#"{"outs":[],"ins":[{"name":"a","capacity":"many"}]}"#.utf8)
    let error = try #require(throws: DecodingError.self) {
      try JSONRecord.decode(NodeConfiguration.self, from: wrong)
    }
    guard case .typeMismatch(_, let context) = error else {
      Issue.record("refused with \(error)")
      return
    }
    #expect(context.codingPath.map(\.stringValue) == ["ins", "Index 0", "capacity"])
    for text in ["", "{", "{\"outs\":[]", "[]", String(repeating: "[", count: 513)] {
      #expect(throws: DecodingError.self) {
        try JSONRecord.decode(NodeConfiguration.self, from: Array(text.utf8))
      }
    }
  }

  /// A type that decodes text if there is some.
  private struct Lenient: Codable, Equatable {
    var text: String?
    init(from decoder: any Decoder) throws {
      text = try? decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .text)
    }
  }

  @Test("Escaped text is decoded, even if the type first tries to decode another type")
  func escapes() throws {
    let text = Array(#"{"text":"a\/b\u00e9"}"#.utf8)
    #expect(try JSONRecord.decode(Lenient.self, from: text).text == "a/bé")
  }

  @Test("Integers of any size are preserved", arguments: [Int64.min, -1, 0, 1 << 60, .max])
  func numbers(number: Int64) throws {
    #expect(try JSONValue(parsing: Array("\(number)".utf8)) == .integer(number))
    #expect(try JSONRecord.decode(Int64.self, from: Array("\(number)".utf8)) == number)
    // A larger number does not fit.
    let larger = Array("92233720368547758080".utf8)
    #expect(throws: DecodingError.self) { try JSONRecord.decode(Int64.self, from: larger) }
  }
}
