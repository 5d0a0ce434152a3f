import Glibc
import PipeRuntime

/// Finds the `orchestrator` that a test launches topologies with.
package enum BinaryLocator {
  /// The path of an executable: the variable's, or the one beside the test's own build products, or
  /// the one in `PATH`.
  /// - Parameter variable: An environment variable that names it.
  package static func find(
    _ name: String, variable: String? = nil,
    environment: [String: String] = ProcessEnvironment.current
  ) throws -> String {
    if let variable, let path = environment[variable], !path.isEmpty {
      guard isExecutable(path) else { throw BinaryError.notExecutable(path, variable: variable) }
      return FileSystem.absolute(path)
    }
    let search = environment["PATH"]?.split(separator: ":").map(String.init) ?? []
    for directory in productDirectories + search where isExecutable(directory + "/" + name) {
      return directory + "/" + name
    }
    throw BinaryError.missing(name, variable: variable)
  }

  /// Where `swift build` has put things, from the test program upwards.
  static var productDirectories: [String] {
    var directories: [String] = []
    let own = [OwnProcess.executablePath, CommandLine.arguments.first.map(FileSystem.absolute)]
    for case let start? in own + [FileSystem.absolute("x")] {
      var directory = FileSystem.directory(of: start)
      while true {
        directories += [directory, directory + "/.build/debug", directory + "/.build/release"]
        guard directory != "/" else { break }
        directory = FileSystem.directory(of: directory)
      }
    }
    return directories
  }

  private static func isExecutable(_ path: String) -> Bool {
    access(path, X_OK) == 0 && !FileSystem.isDirectory(path)
  }
}

/// Why a test does not find a program that it needs.
package enum BinaryError: Error, Hashable, CustomStringConvertible {
  case missing(String, variable: String?)
  case notExecutable(String, variable: String)

  package var description: String {
    switch self {
    case .missing(let name, let variable):
      "there is no program '\(name)' beside the test's build products or in PATH; build it"
        + (variable.map { ", or name it in the environment variable \($0)" } ?? "")
    case .notExecutable(let path, let variable):
      "'\(path)', which the environment variable \(variable) names, is no executable file"
    }
  }
}
