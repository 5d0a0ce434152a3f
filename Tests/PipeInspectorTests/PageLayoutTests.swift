import PipeInspector
import PipeMachines
import Testing

@Suite("The layout of the page's graph")
struct PageLayoutTests {
  private static func box(_ name: String) -> JSONValue {
    ["name": .string(name), "width": 20, "height": 3]
  }

  private static func request(_ changes: [String: JSONValue] = [:]) -> JSONValue {
    var request: [String: JSONValue] = [
      "direction": "right", "length": 44, "boxes": [box("a"), box("b"), box("c")],
      "composites": [["name": "pair", "width": 20, "height": 1, "nodes": ["b", "c"]]],
      "wires": [["from": "a", "to": "pair", "label": 5, "isPart": false]],
    ]
    request.merge(changes) { _, new in new }
    return .object(request)
  }

  @Test("A composite is a frame, and its pipes end at a box in the frame")
  func frame() throws {
    let layout = try PageLayout.record(of: Self.request())
    guard case .array(let frames)? = layout["frames"], case .array(let boxes)? = layout["boxes"],
      case .array(let wires)? = layout["wires"], case .array(let points)? = wires.first?["points"]
    else {
      Issue.record("incomplete: \(layout.text)")
      return
    }
    #expect(frames.map { $0["name"] } == ["pair"])
    #expect(boxes.map { $0["name"] } == ["a", "b", "c", "pair"])
    #expect(wires.map { $0["to"] } == ["pair"])
    #expect(points.count >= 4 && points.count.isMultiple(of: 2))
  }

  @Test("Composites that share nodes are boxes, with dotted lines to their nodes")
  func sharedNodes() throws {
    let layout = try PageLayout.record(
      of: Self.request([
        "composites": [
          ["name": "pair", "width": 20, "height": 1, "nodes": ["a", "b"]],
          ["name": "other", "width": 20, "height": 1, "nodes": ["b", "c"]],
        ], "wires": [],
      ]))
    guard case .array(let wires)? = layout["wires"] else { return }
    #expect(layout["frames"] == [])
    #expect(wires.count { $0["isPart"] == true } == 4)
  }

  @Test(
    "If no direction is chosen, a chain leads to the right in a wide area, and down in a tall area")
  func bestDirection() throws {
    func size(_ width: Int64, _ height: Int64) throws -> (width: Int64, height: Int64) {
      let layout = try PageLayout.record(
        of: [
          "width": .integer(width), "height": .integer(height), "composites": [],
          "boxes": [Self.box("a"), Self.box("b"), Self.box("c")],
          "wires": [
            ["from": "a", "to": "b", "label": 3, "isPart": false],
            ["from": "b", "to": "c", "label": 3, "isPart": false],
          ],
        ])
      return (layout["width"]?.integer ?? 0, layout["height"]?.integer ?? 0)
    }
    let (wide, high) = (try size(150, 20), try size(30, 80))
    #expect(wide.width > 2 * wide.height)
    #expect(high.height > high.width / 2 && high.width < wide.width)
  }

  @Test("A line with several labels has one text, with one row for each label or one row for all")
  func severalLabels() throws {
    let layout = try PageLayout.record(
      of: Self.request([
        "composites": [],
        "wires": [["from": "a", "to": "b", "label": 20, "lines": 3, "isPart": false]],
      ]))
    guard case .array(let wires)? = layout["wires"], case .array(let label)? = wires.first?["label"]
    else {
      Issue.record("incomplete: \(layout.text)")
      return
    }
    #expect(wires.count == 1)
    #expect(label.count == 4 && (label[3] == 3 || label[3] == 1))
  }

  @Test(
    "A malformed or too large request is refused",
    arguments: [
      request(["boxes": 7]), request(["boxes": [["name": 1]]]), request(["direction": "up"]),
      request(["wires": [["from": "a"]]]), request(["length": 4_000]), [],
      request(["boxes": .array((0...PageLayout.boxLimit).map { box("n\($0)") })]),
    ])
  func malformed(request: JSONValue) {
    #expect(throws: InspectionRequestError.self) { try PageLayout.record(of: request) }
  }
}
