import PipeSystem
import PipeWire
import Testing

@Suite("Step logs")
struct StepLogReaderTests {
  private static let header =
    #"{"node":"n","incarnation":2,"version":4,"begins":"idle","hash":"00000000000000ff","#
    + #""hashing":"fnv1a","schema":1,"time":1000}"#

  /// Reads a log with these lines after the first.
  private static func read(
    _ lines: [String], _ body: (StepLogReader) throws -> Void
  ) throws {
    let directory = try FileSystem.makeTemporaryDirectory("/tmp/step-log-")
    defer { FileSystem.removeTree(directory) }
    let path = directory + "/n.2.steps.jsonl"
    let text = ([header] + lines).joined(separator: "\n")
    try FileSystem.replace(path, with: text.utf8)
    try body(StepLogReader(path))
  }

  @Test(
    "A reader returns each line with its version, its time and its parts, and notes a torn line")
  func lines() throws {
    let name = String(repeating: "x", count: 200_000)
    try Self.read([
      #"{"step":1,"event":{"go":{"by":"\#(name)"}},"after":5,"source":["p",1,7],"hash":"0123456789abcdef"}"#,
      #"{"refused":"full","event":"go","after":-2,"request":[18446744073709551615,3],"postponed":true}"#,
      #"{"step":2,"version":9,"after":10,"transaction":"3.4","entry":"internal","sent":[["q",1,2,{"a":[]}]]}"#,
      #"{"step":3,"aft"#,
    ]) { reader in
      #expect(reader.header?.version == 4 && reader.header?.hash == "00000000000000ff")
      let first = try #require(try reader.next())
      #expect(first.kind == .step && first.version == 5 && first.time == 1_005)
      #expect(first.number == 2 && first.offset == Self.header.utf8.count + 1)
      #expect(first.hash == 0x0123_4567_89AB_CDEF && first.source?.number == 7)
      #expect(try #require(first.event).count == name.count + 16)
      let second = try #require(try reader.next())
      #expect(second.kind == .refused && second.isPostponed && second.version == 5)
      #expect(second.time == 1_003 && second.request?.client == .max)
      let third = try #require(try reader.next())
      #expect(third.version == 9 && third.isInternal && third.hash == nil && third.event == nil)
      #expect(third.transaction?.description == "3.4")
      let sent = try #require(third.sent.first)
      #expect(reader.string(sent.pipe) == "q" && reader.string(sent.event) == #"{"a":[]}"#)
      #expect(try reader.next() == nil)
      #expect(reader.isTorn && reader.lineNumber == 4)
    }
  }

  @Test("An invalid line is refused with the file and the number of the line")
  func invalidLines() throws {
    for line in [
      "[]", "{", "{}", #"{"step":-1}"#, #"{"step":1,"hash":"xyz"}"#,
      #"{"step":1,"source":["p",1]}"#,
      #"{"step":1,"colour":2}"#, #"{"step":99999999999999999999}"#,
    ] {
      try Self.read([line, ""]) { reader in
        let error = #expect(throws: StepLogError.self) { try reader.next() }
        #expect(error?.description.contains("n.2.steps.jsonl:2: ") == true, "\(line)")
      }
    }
  }
}
