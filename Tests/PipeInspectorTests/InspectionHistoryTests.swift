import PipeInspector
import PipeRuntime
import Testing

@Suite("The history of an inspector")
struct InspectionHistoryTests {
  private static func texts(_ parts: [[UInt8]]) -> [String] {
    parts.map { String(decoding: $0, as: UTF8.self) }
  }

  private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

  @Test("Each client gets the changes that it has not seen, at its own pace")
  func cursors() {
    var history = InspectionHistory(origin: 100)
    let start = history.delta(after: 0, limit: 1_000)
    #expect(start.replacesAll && start.cursor == 100 && start.events == [])
    history.append(Self.bytes("1"))
    history.set("door", Self.bytes("\"open\""))
    let first = history.delta(after: start.cursor, limit: 1_000)
    #expect(!first.replacesAll && first.cursor == 102 && first.skippedEventCount == 0)
    #expect(Self.texts(first.events) == ["1"] && Self.texts(first.currentValues) == ["\"open\""])
    history.append(Self.bytes("2"))
    let second = history.delta(after: first.cursor, limit: 1_000)
    #expect(Self.texts(second.events) == ["2"] && second.currentValues == [])
    // A client that has just connected.
    let late = history.delta(after: 0, limit: 1_000)
    #expect(
      late.replacesAll && Self.texts(late.events) == ["1", "2"] && late.currentValues.count == 1)
    #expect(history.delta(after: second.cursor, limit: 1_000).events == [])
  }

  @Test("A value that changes often is delivered once, with its latest state")
  func currentValues() {
    var history = InspectionHistory(origin: 1)
    for state in 0..<1_000 { history.set("door", Self.bytes("\(state)")) }
    history.set("motor", Self.bytes("idle"))
    #expect(Self.texts(history.delta(after: 1, limit: 0).currentValues) == ["999", "idle"])
    let before = history.lastNumber
    history.set("motor", Self.bytes("idle"))
    #expect(history.lastNumber == before)
    history.keep(only: ["motor"])
    #expect(Self.texts(history.delta(after: 1, limit: 0).currentValues) == ["idle"])
  }

  @Test(
    "A client with a cursor of another inspector's history gets the whole history",
    arguments: [0, 5, 9, 1_000, .max] as [UInt64])
  func foreign(_ cursor: UInt64) {
    var history = InspectionHistory(origin: 10)
    history.append(Self.bytes("1"))
    let delta = history.delta(after: cursor, limit: 10)
    #expect(delta.replacesAll && delta.events.count == 1 && delta.cursor == 11)
  }

  @Test("An answer over the limit has the latest entries and the number of skipped entries")
  func limited() {
    var history = InspectionHistory(origin: 1)
    for number in 0..<100 { history.append(Self.bytes("\(1_000 + number)")) }
    let delta = history.delta(after: 1, limit: 41)
    #expect(Self.texts(delta.events) == (1_090..<1_100).map(String.init))
    #expect(delta.skippedEventCount == 90)
  }

  @Test("A history does not exceed its capacity, whatever is added")
  func capacity() {
    var history = InspectionHistory(capacity: 10_000, origin: 1)
    for number in 0..<50_000 { history.append(Self.bytes("\(number)")) }
    #expect(history.eventCount < 200 && history.droppedCount == 50_000 - UInt64(history.eventCount))
    #expect(Self.texts(history.delta(after: 1, limit: 1_000_000).events).last == "49999")
    let tooLarge = [UInt8](repeating: 0x20, count: InspectionHistory.entryByteCount + 1)
    let last = history.lastNumber
    #expect(history.append(tooLarge) == false && history.lastNumber == last)
  }

  @Test("Log lines have a separate capacity and displace no other entries")
  func logs() {
    var history = InspectionHistory(capacity: 10_000, logCapacity: 10_000, origin: 1)
    history.append(Self.bytes("step"))
    for number in 0..<50_000 { history.appendLog(Self.bytes("\(number)")) }
    #expect(history.eventCount == 1 && history.droppedCount == 0 && history.logCount < 200)
    let delta = history.delta(after: 1, limit: 20)
    #expect(Self.texts(delta.events) == ["step"] && delta.skippedEventCount == 0)
    #expect(Self.texts(delta.logLines) == ["49996", "49997", "49998", "49999"])
    #expect(delta.skippedLogLines == UInt64(history.logCount - 4))
    let after = history.delta(after: delta.cursor, limit: 20)
    #expect(after.logLines == [] && after.skippedLogLines == 0)
  }

  @Test("A history's changes are encoded as JSON")
  func json() throws {
    var history = InspectionHistory(origin: 1 << 52)
    history.append(Self.bytes("{\"a\":1}"))
    history.append(Self.bytes("[]"))
    history.set("x", Self.bytes("null"))
    history.appendLog(Self.bytes("{\"text\":\"on\"}"))
    let delta = history.delta(after: 0, limit: 100)
    #expect(
      try JSONValue(parsing: delta.json) == [
        "cursor": "4503599627370500", "time": 0, "whole": true, "skipped": 0, "unwritten": 0,
        "standing": [.null], "happened": [["a": 1], []], "written": [["text": "on"]],
      ])
  }
}
