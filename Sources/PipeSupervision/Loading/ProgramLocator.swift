import Glibc
import PipeSystem

/// Finds the executable that a topology names.
struct ProgramLocator {
  /// Why a program cannot be run.
  enum Failure: Error, CustomStringConvertible {
    case missing(String, looked: [String])
    case directory(String)
    case notExecutable(String)

    var description: String {
      switch self {
      case .missing(let name, let looked):
        "there is no program '\(name)'; looked for \(looked.joined(separator: ", ")). "
          + "Build it, or give its path"
      case .directory(let path): "'\(path)' is a directory; name the program in it"
      case .notExecutable(let path):
        "'\(path)' is not executable; 'chmod +x' it, or name another program"
      }
    }
  }

  /// The directory of the orchestrator's own executable.
  let own: String
  /// The directory of the topology file.
  let file: String
  let environment: [String: String]

  /// - Parameter directory: The topology file's.
  init(directory: String) {
    own = FileSystem.directory(of: OwnProcess.executablePath ?? CommandLine.arguments[0])
    file = directory
    environment = ProcessEnvironment.current
  }

  /// A path is taken from the topology file's directory; a bare name is looked for beside the
  /// orchestrator, beside the file, and in `PATH`.
  func locate(_ name: String) throws(Failure) -> String {
    let candidates: [String]
    if name.contains("/") {
      candidates = [name.hasPrefix("/") ? name : file + "/" + name]
    } else {
      let path = environment["PATH"]?.split(separator: ":").map(String.init) ?? []
      candidates = ([own, file] + path).map { $0 + "/" + name }
    }
    var found: String?
    for candidate in candidates where access(candidate, F_OK) == 0 {
      if access(candidate, X_OK) == 0, !FileSystem.isDirectory(candidate) { return candidate }
      found = found ?? candidate
    }
    if let found { throw FileSystem.isDirectory(found) ? .directory(found) : .notExecutable(found) }
    let places =
      name.contains("/") ? candidates : ["beside 'orchestrator'", "in \(file)", "in PATH"]
    throw .missing(name, looked: places)
  }
}
