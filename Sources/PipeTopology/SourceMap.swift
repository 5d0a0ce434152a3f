import PipeWire

/// A map from each part of a topology to its location in the file.
///
/// A path consists of the keys from the top of the file down to the part. The key of a list's
/// element is its index: `["nodes", "door", "machine"]`, `["pipes", "0", "from"]`.
public struct SourceMap: Sendable {
  /// The path of the file, as the user gave it.
  public var file: String
  private var keyPositions: [[String]: TextPosition] = [:]
  private var valuePositions: [[String]: TextPosition] = [:]

  /// Makes a map without locations, for a topology that was built in code.
  public init(file: String) {
    self.file = file
  }

  mutating func record(_ path: [String], key: TextPosition, value: TextPosition) {
    keyPositions[path] = key
    valuePositions[path] = value
  }

  /// Renumbers the elements of a top-level list after elements have been removed.
  /// - Parameter indices: The original indices of the remaining elements.
  mutating func renumberElements(keeping indices: [Int], of list: String) {
    guard indices != Array(indices.indices) else { return }
    let newIndices = Dictionary(
      uniqueKeysWithValues: indices.enumerated().map { (String($1), String($0)) })
    func renumbered(_ marks: [[String]: TextPosition]) -> [[String]: TextPosition] {
      var next: [[String]: TextPosition] = [:]
      for (path, mark) in marks {
        guard path.count > 1, path[0] == list else {
          next[path] = mark
          continue
        }
        if let newIndex = newIndices[path[1]] { next[[list, newIndex] + path.dropFirst(2)] = mark }
      }
      return next
    }
    keyPositions = renumbered(keyPositions)
    valuePositions = renumbered(valuePositions)
  }

  /// Returns the location of the value at a path. If the file does not contain the value, returns
  /// the location of the nearest enclosing part.
  public func position(of path: [String]) -> TextPosition {
    nearestPosition(path, in: valuePositions)
  }

  /// Returns the location of the key at a path. If the file does not contain the key, returns the
  /// location of the nearest enclosing part.
  public func position(ofKey path: [String]) -> TextPosition {
    nearestPosition(path, in: keyPositions)
  }

  /// Returns whether the file contains the part with this path.
  func hasValue(at path: [String]) -> Bool { valuePositions[path] != nil }

  /// Makes a diagnostic with the location of a value.
  public func diagnostic(
    _ code: Diagnostic.Code, _ severity: Diagnostic.Severity = .error, at path: [String],
    _ message: String
  ) -> Diagnostic {
    diagnostic(code, severity, at: position(of: path), message)
  }

  package func diagnostic(
    _ code: Diagnostic.Code, _ severity: Diagnostic.Severity = .error, at mark: TextPosition,
    _ message: String
  ) -> Diagnostic {
    Diagnostic(file: file, position: mark, severity: severity, code: code, message: message)
  }

  private func nearestPosition(_ path: [String], in marks: [[String]: TextPosition]) -> TextPosition
  {
    var path = path
    while true {
      if let mark = marks[path] { return mark }
      if path.isEmpty { return .unknown }
      path.removeLast()
    }
  }
}

/// A type that checks a file and collects the diagnostics.
protocol DiagnosticCollector {
  var source: SourceMap { get }
  var diagnostics: [Diagnostic] { get set }
}

extension DiagnosticCollector {
  mutating func report(
    _ code: Diagnostic.Code, _ severity: Diagnostic.Severity = .error, at mark: TextPosition,
    _ message: String
  ) {
    diagnostics.append(source.diagnostic(code, severity, at: mark, message))
  }

  /// - Parameter path: The path of a value.
  mutating func report(
    _ code: Diagnostic.Code, _ severity: Diagnostic.Severity = .error, at path: [String],
    _ message: String
  ) {
    report(code, severity, at: source.position(of: path), message)
  }
}
