import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("The parts of the screen", .timed)
struct ScreenPartsTests {
  @Test(
    "Stacked parts of the screen share the available lines",
    arguments: [
      ([3, 4, 2], 20, [3, 4, 13]), ([10, 10, 10], 12, [4, 4, 4]), ([2, 30, 30], 22, [2, 10, 10]),
      ([30, 3, 30], 20, [9, 3, 8]), ([5, 5], 3, [2, 1]), ([5, 5], 0, [0, 0]), ([], 9, []),
      ([7], 3, [3]),
    ] as [([Int], Int, [Int])])
  func heights(wanted: [Int], availableLines: Int, heights: [Int]) {
    #expect(ScreenHeights.shareLines(wanted, availableLines: availableLines) == heights)
  }

  @Test("The selection stays with the chosen row wherever the row moves")
  func selection() {
    var selection = NamedSelection()
    let names = ["a", "b", "c", "d", "e"]
    #expect(selection.selectedRow(in: []) == nil && selection.selectedRow(in: names) == 0)
    selection.move(by: 2, in: names, height: 3)
    #expect(selection.selectedRow(in: names) == 2)
    #expect(selection.selectedRow(in: ["x", "y", "a", "b", "c"]) == 4)
    // If the chosen row is gone, the row in its place becomes the chosen one.
    #expect(selection.selectedRow(in: ["a", "b", "d", "e"]) == 2)
    selection.rememberPosition(in: ["a", "b", "d", "e"], height: 3)
    #expect(selection.selectedRow(in: names) == 3)
    selection.rememberPosition(in: ["a"], height: 3)
    #expect(selection.selectedRow(in: ["a"]) == 0)
  }

  @Test("A selection that the user has not moved follows the newest row", arguments: [false, true])
  func newest(followsEnd: Bool) {
    var selection = NamedSelection(newest: followsEnd ? .last : .first)
    var names = ["a", "b", "c"]
    selection.rememberPosition(in: names, height: 2)
    names = followsEnd ? names + ["d"] : ["d"] + names
    #expect(selection.selectedRow(in: names).map { names[$0] } == "d")
    _ = selection.press(followsEnd ? .up : .down, in: names, height: 2)
    let chosen = selection.selectedRow(in: names).map { names[$0] }
    names = followsEnd ? names + ["e"] : ["e"] + names
    #expect(selection.selectedRow(in: names).map { names[$0] } == chosen)
    _ = selection.press(followsEnd ? .end : .home, in: names, height: 2)
    names = followsEnd ? names + ["f"] : ["f"] + names
    #expect(selection.selectedRow(in: names).map { names[$0] } == "f")
  }

  private static func press(
    _ key: Key, _ selection: inout NamedSelection, _ names: [String]
  ) -> Bool {
    selection.press(key, in: names, height: 4)
  }

  @Test("The visible rows move only as far as the selected row requires")
  func window() {
    var selection = NamedSelection()
    let names = (1...9).map(String.init)
    #expect(selection.visibleRows(of: names, height: 4) == 0..<4)
    for key in [Key.character("j"), .down, .down, .down] {
      #expect(Self.press(key, &selection, names))
    }
    #expect(selection.visibleRows(of: names, height: 4) == 1..<5)
    #expect(Self.press(.character("k"), &selection, names))
    #expect(selection.visibleRows(of: names, height: 4) == 1..<5)
    #expect(Self.press(.character("G"), &selection, names))
    #expect(selection.visibleRows(of: names, height: 4) == 5..<9)
    #expect(Self.press(.pageUp, &selection, names))
    #expect(selection.selectedRow(in: names) == 4)
    #expect(!Self.press(.character("x"), &selection, names))
    #expect(selection.visibleRows(of: names, height: 0).isEmpty)
  }

  private static func trend(_ readings: (UInt64, Double, UInt64)...) -> NodeTrend {
    var trend = NodeTrend()
    for (events, seconds, incarnation) in readings {
      trend.take(
        NodeTrend.Sample(events: events, time: Int64(seconds * 1e9), incarnation: incarnation))
    }
    return trend
  }

  @Test("A rate is measured over at least one second of the node's clock")
  func trend() {
    #expect(Self.trend((5, 1, 1)).rate == nil)
    #expect(Self.trend((5, 1, 1), (15, 1.5, 1)).rate == nil)
    #expect(Self.trend((5, 1, 1), (15, 1.5, 1), (25, 3, 1)).rate == 10)
    // Older readings are ignored, and the readings of another process start a new rate.
    #expect(Self.trend((5, 1, 1), (25, 3, 1), (20, 2, 1)).rates == [10])
    #expect(Self.trend((5, 1, 1), (25, 3, 1), (3, 5, 2), (7, 7, 2)).rates == [10, 2])
    let long = Self.trend(
      (0, 0, 1), (1, 1, 1), (1, 2, 1), (3, 3, 1), (6, 4, 1), (10, 5, 1), (18, 6, 1), (26, 7, 1))
    #expect(long.rates == [0, 2, 3, 4, 8, 8] && long.barText == "·▃▄▅██")
  }

  @Test(
    "A rate is shown in five columns",
    arguments: [
      (nil, "-"), (0, "0"), (0.26, "0.3"), (7, "7"), (9.94, "9.9"), (12.4, "12"), (999, "999"),
      (1_234, "1.2k"), (45_678, "46k"), (1_200_000, "1.2M"),
    ] as [(Double?, String)])
  func rate(rate: Double?, text: String) { #expect(NodeTrend.text(rate) == text) }

  private static func change(_ version: UInt64, missed: UInt64 = 0) -> StateChange {
    StateChange(
      node: "door", incarnation: 1, version: version, time: 5, cause: "request",
      state: .string("s\(version)"), missedCount: missed)
  }

  private static func step(_ version: UInt64, incarnation: UInt64 = 1) throws -> NodeStep {
    let json: JSONValue = [
      "node": "door", "incarnation": .count(incarnation), "version": .count(version),
      "index": .count(version), "event": .string("e\(version)"), "state": .string("s\(version)"),
    ]
    return try json.decode(NodeStep.self)
  }

  @Test("A step report replaces a plain state change in the history")
  func history() throws {
    var history = NodeHistory()
    history.take(Self.change(1))
    history.take(Self.change(4, missed: 2))
    history.take(try Self.step(3))
    history.take(try Self.step(4))
    history.take(Self.change(4))
    history.take(try Self.step(5))
    history.take(Self.change(3))
    #expect(history.entries.map(\.version) == [1, 3, 4, 5])
    #expect(history.entries.map(\.event) == [nil, "e3", "e4", "e5"])
    #expect(history.entries.map(\.missedCount) == [0, 0, 1, 0])
    history.take(try Self.step(1, incarnation: 2))
    #expect(history.entries.last?.identifier == "2.1")
    for version in 2...UInt64(NodeHistory.maximumEntryCount) {
      history.take(try Self.step(version, incarnation: 2))
    }
    #expect(
      history.entries.count == NodeHistory.maximumEntryCount && history.entries.first?.version == 1)
  }
}
