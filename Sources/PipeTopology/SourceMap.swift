import PipeWire

/// A map from each part of a topology to its location in the file.
///
/// A path lists keys from the top, with list elements by index: `["nodes", "door", "machine"]`,
/// `["pipes", "0", "from"]`.
public struct SourceMap: Sendable {
  /// The file's path, as given.
  public var file: String
  private var keys: [[String]: TextPosition] = [:]
  private var values: [[String]: TextPosition] = [:]

  /// Makes a map without locations, for a topology that was built in code.
  public init(file: String) {
    self.file = file
  }

  mutating func record(_ path: [String], key: TextPosition, value: TextPosition) {
    keys[path] = key
    values[path] = value
  }

  /// Renumbers the elements of a top-level list after some were removed.
  /// - Parameter indices: The original indices of the remaining elements.
  mutating func keepElements(_ indices: [Int], of list: String) {
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
    keys = renumbered(keys)
    values = renumbered(values)
  }

  /// Returns the location of a value, or of the nearest enclosing part in the file.
  public func mark(of path: [String]) -> TextPosition {
    nearest(path, in: values)
  }

  /// Returns the location of a key, or of the nearest enclosing part in the file.
  public func mark(ofKey path: [String]) -> TextPosition {
    nearest(path, in: keys)
  }

  /// Returns whether the file has this part.
  func has(_ path: [String]) -> Bool { values[path] != nil }

  /// Makes a diagnostic that points at a value.
  public func diagnostic(
    _ code: Diagnostic.Code, _ severity: Diagnostic.Severity = .error, at path: [String],
    _ message: String
  ) -> Diagnostic {
    diagnostic(code, severity, at: mark(of: path), message)
  }

  package func diagnostic(
    _ code: Diagnostic.Code, _ severity: Diagnostic.Severity = .error, at mark: TextPosition,
    _ message: String
  ) -> Diagnostic {
    Diagnostic(file: file, mark: mark, severity: severity, code: code, message: message)
  }

  private func nearest(_ path: [String], in marks: [[String]: TextPosition]) -> TextPosition {
    var path = path
    while true {
      if let mark = marks[path] { return mark }
      if path.isEmpty { return .unknown }
      path.removeLast()
    }
  }
}

/// A type that checks a file and collects diagnostics.
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
    report(code, severity, at: source.mark(of: path), message)
  }
}
