import PipeDiagrams
import PipeClient
import PipeRuntime

/// The list of dead letters, and the drawing of the topology.
extension ScreenData {
  /// For each node with dead letters, the number of its dead letters.
  var deadLetterCounts: [String: UInt64] {
    Dictionary(
      uniqueKeysWithValues: nodes.compactMap { node in
        guard node.kind != .composite, let count = node.status?.deadLetters, count > 0 else {
          return nil
        }
        return (node.name, count)
      })
  }

  func deadLetterList(_ columns: Int, _ order: ScreenOrder?) -> ScreenList {
    var table = Table(
      .init("NODE", minimumWidth: 8), .init("ID", .right), .init("TIME", dropOrder: 2),
      .init("EVENT", minimumWidth: 14), .init("REASON", minimumWidth: 16),
      .init("PIPE", dropOrder: 1, minimumWidth: 12, keepsEnd: true))
    var names: [String] = []
    for node in nodes where deadLetterCounts[node.name] != nil {
      switch deadLetters[node.name] {
      case .found(let found):
        for letter in found.reversed() {
          table.add(
            node.name, String(letter.id), Self.timeOfDay(Timestamp(nanoseconds: letter.time)),
            letter.event.caseText, letter.reason, letter.pipe)
          names.append(DeadLetterName(node: node.name, id: letter.id).text)
        }
      case .failed(let reason):
        table.add(node.name, "-", "", "", reason, "")
        names.append(DeadLetterName(node: node.name, id: nil).text)
      case nil: break
      }
    }
    return ScreenList(
      table, names: names, columns: columns,
      emptyListText: deadLetterCounts.isEmpty ? "no dead letters" : "requesting…", order: order)
  }

  func graphList(_ columns: Int) -> ScreenList {
    let empty: String
    switch wiring {
    case nil: empty = "drawing…"
    case .failed(let reason): empty = reason
    case .found(var wiring):
      guard var directory else { return ScreenList("GRAPH", emptyListText: "drawing…") }
      directory.nodes = merged(directory.nodes)
      wiring.add(directory)
      let lines = AsciiDrawing(wiring.graph, columns: columns).text.split(
        separator: "\n", omittingEmptySubsequences: false)
      let rows = lines.enumerated().map { ScreenRow("\($0)", StyledLine(String($1))) }
      return ScreenList("GRAPH", rows, emptyListText: "")
    }
    return ScreenList("GRAPH", emptyListText: empty)
  }
}

/// The identifier of a row in the list of dead letters.
struct DeadLetterName: Hashable, Sendable {
  var node: String
  /// The number of the dead letter; `nil` if the dead letters of the node could not be read.
  var id: UInt64?

  init(node: String, id: UInt64?) {
    self.node = node
    self.id = id
  }

  init?(_ text: String) {
    guard let separator = text.lastIndex(of: "/") else { return nil }
    node = String(text[..<separator])
    id = UInt64(text[text.index(after: separator)...])
  }

  var text: String { "\(node)/\(id.map(String.init) ?? "-")" }
}
