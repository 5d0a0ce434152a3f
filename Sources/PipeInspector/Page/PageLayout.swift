import PipeDiagrams
import PipeMachines

/// Computes the positions of the boxes, frames and wires in the graph of the page. The layout is
/// the same as in `orchestrator graph`.
///
/// The page sends the boxes to place, because it hides or groups nodes of large topologies.
package enum PageLayout {
  /// The maximum number of boxes and composites.
  package static let boxLimit = 200
  /// The maximum number of wires.
  package static let wireLimit = 1_000
  /// The maximum number of characters in a row, and of rows in a box.
  private static let textLimit = 60

  /// Returns the positions as JSON. Unit: half the width or the height of a character.
  /// - Throws: ``InspectionRequestError`` if the request is malformed or too large.
  package static func record(of request: JSONValue) throws(InspectionRequestError) -> JSONValue {
    let boxes = try request.objects("boxes")
    let composites = try request.objects("composites")
    let wires = try request.objects("wires")
    guard boxes.count + composites.count <= boxLimit, wires.count <= wireLimit else {
      throw InspectionRequestError("too many boxes or wires for one picture")
    }
    var wiring = Wiring(topology: "")
    var sizes: [String: [String]] = [:]
    for box in boxes {
      let name = try box.text("name")
      wiring.nodes.append(.init(name: name, machine: nil))
      sizes[name] = try box.placeholder()
    }
    for composite in composites {
      let name = try composite.text("name")
      let nodes = try composite.texts("nodes")
      wiring.composites.append(.init(name: name, nodes: nodes, events: []))
      sizes[name] = try composite.placeholder()
      sizes[Wiring.clusterID(name)] = sizes[name]
    }
    var parts: [Graph.Edge] = []
    for wire in wires {
      let (from, to) = (try wire.text("from"), try wire.text("to"))
      if wire["isPart"] == true {
        parts.append(Graph.Edge(from, to, .part))
      } else {
        let label = String(repeating: "x", count: try wire.length("label"))
        // Several pipes between the same boxes become one line, with a label for each pipe.
        let count = wire["lines"] == nil ? 1 : max(1, try wire.length("lines", limit: 12))
        for _ in 0..<count {
          wiring.pipes.append(.init(name: "\(from)>\(to)", from: from, to: to, label: label))
        }
      }
    }
    var graph = wiring.graph
    graph.edges += parts
    for index in graph.edges.indices { graph.edges[index].labels.removeAll(where: \.isEmpty) }
    for index in graph.nodes.indices {
      graph.nodes[index].lines = sizes[graph.nodes[index].id] ?? []
    }
    for index in graph.clusters.indices {
      graph.clusters[index].lines = sizes[graph.clusters[index].id] ?? []
    }
    return record(of: try layout(of: graph, for: request))
  }

  /// Returns the layout in the requested direction. If the request contains `width` and `height` in
  /// characters instead, returns the layout that has to be scaled down least to fit into this area.
  private static func layout(
    of graph: Graph, for request: JSONValue
  ) throws(InspectionRequestError) -> Layout {
    guard request["direction"] == nil else {
      guard let direction = Layout.Direction(rawValue: try request.text("direction")) else {
        throw InspectionRequestError("'direction' must be 'down' or 'right'")
      }
      return Layout(
        graph, direction, rowLength: max(20, try request.length("length", limit: 400)))
    }
    let width = max(20, try request.length("width", limit: 1_000))
    let height = max(10, try request.length("height", limit: 1_000))
    let isLarge = graph.nodes.count > comparedBoxLimit
    let forms: [(Layout.Direction, Int)] =
      isLarge
      ? [width > 3 * height ? (.right, 44) : (.down, width)]
      : [(.right, 44), (.right, 2 * height), (.down, width), (.down, width * 3 / 2)]
    func scale(_ layout: Layout) -> Double {
      min(Double(width) / Double(layout.width), Double(height) / Double(layout.height))
    }
    var best: (layout: Layout, scale: Double)?
    for (direction, length) in forms {
      let layout = Layout(graph, direction, rowLength: length)
      // Lines without a route are not drawn, so each such line lowers the score of the layout.
      let missing = layout.routes.count { $0.isEmpty }
      let scale = min(1, scale(layout)) / Double(1 + missing)
      if best.map({ $0.scale < scale }) ?? true { best = (layout, scale) }
    }
    return best?.layout ?? Layout(graph)
  }

  /// The maximum number of boxes for which several layouts are compared.
  private static let comparedBoxLimit = 40

  private static func record(of layout: Layout) -> JSONValue {
    let graph = layout.graph
    return [
      "width": .integer(Int64(2 * layout.width)), "height": .integer(Int64(2 * layout.height)),
      "boxes": .array(
        zip(graph.nodes, layout.boxes).map { record(of: $0.id, $1) }),
      "frames": .array(
        zip(graph.clusters, layout.frames).map { cluster, frame in
          record(of: String(cluster.id.dropFirst(Wiring.clusterID("").count)), frame)
        }),
      "wires": .array(graph.edges.indices.map { wire(layout, $0) }),
    ]
  }

  private static func wire(_ layout: Layout, _ index: Int) -> JSONValue {
    let edge = layout.graph.edges[index]
    // A line without a route would go behind boxes, so it has no points.
    let points = layout.routes[index].isEmpty ? [] : layout.line(index)
    var label = JSONValue.null
    if let text = layout.labels[index] {
      let width = text.lines.map(\.utf8.count).max() ?? 0
      let area = [text.position.x, text.position.y, width].map { 2 * $0 } + [text.lines.count]
      label = .array(area.map { .integer(Int64($0)) })
    }
    return [
      "from": .string(edge.source), "to": .string(edge.target),
      "isPart": .bool(edge.kind == .part),
      "points": .array(points.flatMap { [.integer(Int64($0.x)), .integer(Int64($0.y))] }),
      "label": label,
    ]
  }

  private static func record(of name: String, _ area: Layout.Rectangle) -> JSONValue {
    [
      "name": .string(name), "x": .integer(Int64(2 * area.x)), "y": .integer(Int64(2 * area.y)),
      "width": .integer(Int64(2 * area.width)), "height": .integer(Int64(2 * area.height)),
    ]
  }
}

extension JSONValue {
  private static func malformed(_ key: String) -> InspectionRequestError {
    InspectionRequestError("'\(key)' is missing or has a wrong type")
  }

  fileprivate func objects(_ key: String) throws(InspectionRequestError) -> [JSONValue] {
    guard case .array(let values)? = self[key] else { throw Self.malformed(key) }
    return values
  }

  fileprivate func text(_ key: String) throws(InspectionRequestError) -> String {
    guard let text = self[key]?.string else { throw Self.malformed(key) }
    return text
  }

  fileprivate func texts(_ key: String) throws(InspectionRequestError) -> [String] {
    var texts: [String] = []
    for value in try objects(key) {
      guard let text = value.string else { throw Self.malformed(key) }
      texts.append(text)
    }
    return texts
  }

  fileprivate func length(
    _ key: String, limit: Int64 = 60
  ) throws(InspectionRequestError) -> Int {
    guard let number = self[key]?.integer, (0...limit).contains(number) else {
      throw Self.malformed(key)
    }
    return Int(number)
  }

  /// Returns placeholder lines that have the same size as a box's text.
  fileprivate func placeholder() throws(InspectionRequestError) -> [String] {
    let line = String(repeating: "x", count: max(1, try length("width")))
    return Array(repeating: line, count: max(1, try length("height", limit: 12)))
  }
}
