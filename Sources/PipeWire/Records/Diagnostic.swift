/// One thing that is wrong with a topology: where it stands, and what to do about it.
public struct Diagnostic: Codable, Hashable, Sendable {
  /// Whether the topology can run all the same.
  public enum Severity: String, Codable, Hashable, Sendable {
    case error, warning
  }

  /// The file's path, as it was given.
  public var file: String
  /// Where it stands.
  public var mark: SourceMark
  /// Whether the topology can run all the same.
  public var severity: Severity
  /// What kind of thing is wrong.
  public var code: Code
  /// What is wrong, in a sentence.
  public var message: String

  /// Makes a diagnostic.
  public init(
    file: String, mark: SourceMark, severity: Severity = .error, code: Code, message: String
  ) {
    self.file = file
    self.mark = mark
    self.severity = severity
    self.code = code
    self.message = message
  }

  /// The line, from 1; 0 where it is not known.
  public var line: Int { mark.line }
  /// The column, from 1; 0 where it is not known.
  public var column: Int { mark.column }
}

extension Diagnostic: CustomStringConvertible {
  /// `path:line:column: error: text [code]`, or without a place where there is none.
  public var description: String {
    let place = mark == .unknown ? "" : ":\(line):\(column)"
    return "\(file)\(place): \(severity.rawValue): \(message) [\(code.rawValue)]"
  }
}

extension Diagnostic {
  fileprivate func isSilenced(by codes: [Code]) -> Bool {
    severity == .warning && codes.contains(code)
  }
}

extension [Diagnostic] {
  /// The same diagnostics in the order of the file, each once.
  public var inFileOrder: [Diagnostic] {
    var seen: Set<Diagnostic> = []
    return enumerated()
      .filter { seen.insert($0.element).inserted }
      .sorted { ($0.element.mark, $0.offset) < ($1.element.mark, $1.offset) }
      .map(\.element)
  }

  /// The same without the warnings that a file silences by their codes.
  package func without(warnings codes: [Diagnostic.Code]) -> [Diagnostic] {
    filter { !$0.isSilenced(by: codes) }
  }

  /// The warnings that a file silences by their codes.
  package func silenced(by codes: [Diagnostic.Code]) -> [Diagnostic] {
    filter { $0.isSilenced(by: codes) }
  }

  /// Whether one of them keeps the topology from running.
  public var hasErrors: Bool { contains { $0.severity == .error } }
}

/// Everything that is wrong with a topology file, in the order of the file.
public struct TopologyErrors: Error, Hashable, Sendable, CustomStringConvertible {
  /// The diagnostics; at least one is an error.
  public let diagnostics: [Diagnostic]

  /// Makes an error of some diagnostics, in any order.
  public init(_ diagnostics: [Diagnostic]) {
    self.diagnostics = diagnostics.inFileOrder
  }

  /// One line for each diagnostic.
  public var description: String {
    diagnostics.map(\.description).joined(separator: "\n")
  }
}
