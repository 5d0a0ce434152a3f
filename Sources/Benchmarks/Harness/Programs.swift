import Glibc
import PipeRuntime

/// The executables that are measured: those beside this one.
enum Programs {
  /// This program.
  static let own = OwnProcess.executablePath ?? CommandLine.arguments[0]
  static let nodes = FileSystem.directory(of: own) + "/nodes"
  static let orchestrator = FileSystem.directory(of: own) + "/orchestrator"
  static let inspector = FileSystem.directory(of: own) + "/inspector"

  /// The path of an installed program.
  static func find(_ name: String) -> String? {
    let folders = (ProcessEnvironment.current["PATH"] ?? "").split(separator: ":")
    return folders.map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
  }

  /// Throws where one is missing.
  static func check() throws {
    for path in [nodes, orchestrator, inspector] where access(path, X_OK) != 0 {
      throw HarnessError("'\(path)' is missing; build it with 'make bench'")
    }
  }
}

/// Why something cannot be measured.
struct HarnessError: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
