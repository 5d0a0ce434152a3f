import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("Steps and pipe events in the output of 'monitor'", .timed)
struct FollowedMessageTests {
  private let plain = Style(isColored: false)

  private static func step(_ members: [String: JSONValue]) throws -> FeedMessage {
    let known: [String: JSONValue] = [
      "node": "door", "incarnation": 1, "version": 4, "index": 4,
    ]
    return .step(try JSONValue.object(known.merging(members) { $1 }).decode(NodeStep.self))
  }

  private static func event(_ members: [String: JSONValue]) throws -> FeedMessage {
    let known: [String: JSONValue] = [
      "node": "door", "pipe": "door.out->log.in", "stream": 7, "number": 5,
    ]
    return .event(try JSONValue.object(known.merging(members) { $1 }).decode(TappedEvent.self))
  }

  private func lines(_ message: FeedMessage) -> [String] {
    var numbers = LostMessageDetector()
    return numbers.take(message).lines(nodeWidth: 5, style: plain)
  }

  @Test("The line of a step shows the transition, the origin of the event, and the sent events")
  func step() throws {
    let base: [String: JSONValue] = [
      "time": 1_700_000_000_000_000_000, "from": "closed", "event": ["call": ["floor": 3]],
      "state": "open",
    ]
    let origins: [([String: JSONValue], String)] = [
      (
        [
          "cause": "hall.calls->door.in",
          "source": ["pipe": "hall.calls->door.in", "stream": 1, "number": 17],
        ], "(hall.calls->door.in 17)"
      ),
      (
        ["cause": "request", "request": ["client": 12, "number": 3]],
        "(request 3 of client 12)"
      ),
      (["cause": "lift", "transaction": "3.17"], "(lift, transaction 3.17)"),
      (["cause": "effect", "effect": 2], "(effect of version 2)"),
      (["cause": "effect"], "(effect)"),
    ]
    for (origin, text) in origins {
      let message = try Self.step(base.merging(origin) { $1 })
      #expect(
        lines(message) == [
          "2023-11-14T22:13:20.000Z door   closed --call(floor: 3)--> open  \(text)  version 4"
        ])
    }
    let sends = try Self.step(
      base.merging([
        "cause": "effect",
        "sent": [
          ["pipe": "a", "stream": 1, "number": 5, "event": "opened"],
          ["pipe": "b", "stream": 1, "number": 9, "event": ["sum": ["_0": 2]]],
        ],
      ]) { $1 })
    #expect(lines(sends)[0].hasSuffix("(effect)  version 4, sends a 5: opened, b 9: sum(2)"))
  }

  @Test("A pipe event is shown with its number, and skipped events and steps are counted")
  func others() throws {
    let event = try Self.event(["time": 1_700_000_000_000_000_000, "event": "opened"])
    #expect(lines(event) == ["2023-11-14T22:13:20.000Z door   5  opened"])
    let blank = String(repeating: " ", count: "2023-11-14T22:13:20.000Z".count)
    #expect(
      lines(try Self.event(["skipped": 3])) == ["\(blank) door   3 events skipped, up to number 5"]
    )
    #expect(
      lines(try Self.step(["skipped": 3])) == ["\(blank) door   3 steps skipped, up to version 4"])
  }

  @Test("Reports lost between the feed and the monitor are counted per process and stream")
  func lost() throws {
    var numbers = LostMessageDetector()
    func lost(_ message: FeedMessage) -> UInt64 { numbers.take(message).lostCount }
    #expect(lost(try Self.step(["index": 10])) == 0)
    #expect(lost(try Self.step(["index": 11])) == 0)
    #expect(lost(try Self.step(["index": 20, "skipped": 9])) == 0)
    #expect(lost(try Self.step(["index": 25])) == 4)
    #expect(lost(try Self.step(["index": 40, "skipped": 10])) == 5)
    #expect(lost(try Self.step(["index": 1, "incarnation": 2])) == 0)
    #expect(lost(try Self.step(["index": 3, "incarnation": 2])) == 1)
    #expect(lost(try Self.step(["index": 70, "node": "motor"])) == 0)
    #expect(lost(try Self.event(["number": 5])) == 0)
    #expect(lost(try Self.event(["number": 8])) == 2)
    #expect(lost(try Self.event(["number": 1, "stream": 8])) == 0)
    var late = LostMessageDetector()
    _ = late.take(try Self.event(["number": 5]))
    #expect(
      late.take(try Self.event(["number": 8, "event": "go"]))
        .lines(nodeWidth: 4, style: plain)[0].hasSuffix("door  2 lost: the reader was too slow"))
  }

  @Test("JSON records hold the feed's fields, the number of lost reports, and the time as text")
  func records() throws {
    var numbers = LostMessageDetector()
    let record = numbers.take(
      try Self.event(["time": 1_700_000_000_000_000_000, "event": "opened"])
    ).record
    #expect(
      record == [
        "node": "door", "pipe": "door.out->log.in", "stream": 7, "number": 5,
        "time": "2023-11-14T22:13:20.000Z", "event": "opened", "lost": 0,
      ])
    #expect(numbers.take(try Self.step(["skipped": 3])).record["skipped"] == 3)
  }
}
