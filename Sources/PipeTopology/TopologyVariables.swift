import PipeSystem
import PipeWire

/// What `${NAME}` in a topology file stands for.
public struct TopologyVariables: Sendable {
  /// These count first.
  private let values: [String: String]
  /// The path of a file that has others.
  private let file: String?

  /// The environment's variables.
  public init() {
    self.init(ProcessEnvironment.current)
  }

  /// These variables and no others.
  public init(_ values: [String: String]) {
    self.values = values
    file = nil
  }

  /// The environment's variables, and of those that it lacks the ones of a file `.env`.
  /// - Parameter file: The file's path; there need be none.
  package init(file: String, environment: [String: String] = ProcessEnvironment.current) {
    values = environment
    self.file = file
  }

  /// All of them, and what is wrong with the file.
  func read() -> (values: [String: String], diagnostics: [Diagnostic]) {
    // A directory of that name is something else.
    guard let file, FileSystem.exists(file), !FileSystem.isDirectory(file) else {
      return (values, [])
    }
    let bytes: [UInt8]
    do {
      bytes = try TopologyInput.file(file).bytes()
    } catch {
      return (values, error.diagnostics)
    }
    let added = EnvironmentFile(bytes)
    let diagnostics = added.problems.map {
      Diagnostic(file: file, mark: $0.mark, code: .badVariable, message: $0.message)
    }
    return (added.values.merging(values) { _, own in own }, diagnostics)
  }
}
