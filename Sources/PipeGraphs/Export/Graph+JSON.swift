import PipeMachines

extension Graph {
  /// All of it, as programs read it. Nothing is cut.
  package var json: JSONValue {
    [
      "title": .string(title),
      "nodes": .array(
        nodes.map { node in
          [
            "id": .string(node.id), "kind": .string(node.kind.rawValue),
            "lines": .texts(node.lines), "marks": Self.json(node.marks),
            "cluster": .optional(node.cluster),
          ]
        }),
      "edges": .array(
        edges.map { edge in
          [
            "from": .string(edge.source), "to": .string(edge.target),
            "kind": .string(edge.kind.rawValue), "labels": .texts(edge.labels),
            "isCertain": .bool(edge.isCertain),
          ]
        }),
      "clusters": .array(
        clusters.map { cluster in
          [
            "id": .string(cluster.id), "lines": .texts(cluster.lines),
            "marks": Self.json(cluster.marks), "parent": .optional(cluster.parent),
          ]
        }),
      "notes": .texts(notes),
    ]
  }

  private static func json(_ marks: Set<Mark>) -> JSONValue {
    .texts(Mark.allCases.filter(marks.contains).map(\.rawValue))
  }
}
