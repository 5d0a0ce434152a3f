import PipeWire

// What the reading of a file starts with, of whatever kind it is.
extension TopologyReading {
  /// Starts reading a text: its document, with variables put in and keys merged, is the place.
  /// - Parameter file: What diagnostics call it.
  /// - Throws: What is wrong with a text that is no mapping at all.
  static func opened(
    _ text: [UInt8], file: String, as kind: FileKind, variables: TopologyVariables
  ) throws(TopologyErrors) -> (reading: TopologyReading, place: TopologyPlace) {
    let root: YAMLNode?
    do {
      root = try YAMLDocument.parse(text)
    } catch {
      throw TopologyErrors([
        Diagnostic(file: file, mark: error.mark, code: error.code, message: error.message)
      ])
    }
    guard let root else {
      throw TopologyErrors([
        Diagnostic(
          file: file, mark: SourceMark(line: 1, column: 1), code: .missingKey,
          message: "the file is empty; a \(kind.noun) starts with '\(kind.start)'")
      ])
    }
    var reading = TopologyReading(file: file)
    let whole = reading.filledIn(root, of: kind, variables: variables)
    let place = TopologyPlace(node: whole, path: [], owner: "the \(kind.noun)")
    reading.source.record([], key: root.mark, value: root.mark)
    guard case .mapping = whole.content else {
      reading.refuse(place, wanted: "a mapping that starts with '\(kind.start)'")
      throw TopologyErrors(reading.diagnostics)
    }
    return (reading, place)
  }
}
