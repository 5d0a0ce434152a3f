import PipeInspector
import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import Testing

@Suite("The logs that an inspector reads")
struct RecordedLogsTests {
  private static func texts(_ lines: [JSONValue]) -> [String] {
    lines.map { $0["text"]?.string ?? "skipped \($0["skipped"]?.integer ?? -1)" }
  }

  @Test("A time in a log that is out of range is reported as the nearest possible time")
  func farTimes() async throws {
    let directory = try TestDirectory()
    let door = LogWriter(path: directory.path + "/door.log")
    var logs = RecordedLogs(TopologyLogs(directory: directory.path, follows: true))
    for time in ["1000-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"] {
      _ = door.write(["at \(time)"], from: .out, at: try #require(Timestamp(time)))
    }
    #expect(try await logs.next().compactMap { $0["time"]?.integer } == [.min, .max])
  }

  @Test("An inspector reports the last log lines and all later lines once, with node and stream")
  func lines() async throws {
    let directory = try TestDirectory()
    let door = LogWriter(path: directory.path + "/door.log")
    var logs = RecordedLogs(TopologyLogs(directory: directory.path, follows: true))
    _ = door.write(["opened"], from: .out, at: Timestamp(milliseconds: 1))
    _ = door.write(["exited"], from: .note, at: Timestamp(milliseconds: 2))
    #expect(
      try await logs.next() == [
        [
          "node": "door", "time": 1_000_000, "stream": "out", "text": "opened", "large": .null,
        ],
        [
          "node": "door", "time": 2_000_000, "stream": "note", "text": "exited", "large": .null,
        ],
      ])
    #expect(try await logs.next() == [])
    _ = door.write(["closed"], from: .err, at: Timestamp(milliseconds: 3))
    #expect(Self.texts(try await logs.next()) == ["closed"])
  }

  @Test("A node's log lines over the limit are skipped and counted, and the latest are reported")
  func much() async throws {
    let directory = try TestDirectory()
    let door = LogWriter(path: directory.path + "/door.log")
    var logs = RecordedLogs(TopologyLogs(directory: directory.path, follows: true))
    _ = door.write(["first"], from: .out)
    #expect(Self.texts(try await logs.next()) == ["first"])
    _ = door.write((0..<RecordedLogs.limit + 7).map { "\($0)" }, from: .out)
    let lines = Self.texts(try await logs.next())
    #expect(lines.count == RecordedLogs.limit + 1 && lines.first == "skipped 7")
    #expect(lines.last == "\(RecordedLogs.limit + 6)")
  }

  @Test("A long log line is cut between characters and reported with its size")
  func long() async throws {
    let directory = try TestDirectory()
    let door = LogWriter(path: directory.path + "/door.log")
    _ = door.write(["a" + String(repeating: "é", count: 5_000)], from: .out)
    var logs = RecordedLogs(TopologyLogs(directory: directory.path, follows: true))
    let line = try #require(try await logs.next().first)
    #expect(line["large"] == 10_001)
    #expect(line["text"]?.string == "a" + String(repeating: "é", count: 2_047))
  }
}
