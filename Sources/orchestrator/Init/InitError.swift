import PipeRuntime

/// Why no package is written.
package enum InitError: Error, Hashable {
  /// What is wrong with a package's name.
  package enum NameProblem: Hashable, Sendable, CaseIterable {
    case path, characters, length, value, keyword, type, module, buildFolder, dependency
    case folderOfDependency
  }

  case name(String, NameProblem)
  /// No folder above the orchestrator is PipeRuntime.
  case noCheckout(above: String)
  /// The folder that was named has no `Package.swift` that can be read.
  case noPackage(String)
  case otherPackage(String, name: String?)
  case noDirectory(String)
  case notEmpty(String)
  case notFolder(String)
  case unwritable(String, SystemError)

  package var code: ExitCode {
    switch self {
    case .name, .noPackage, .otherPackage, .noDirectory: .usage
    case .noCheckout, .notEmpty, .notFolder, .unwritable: .failure
    }
  }
}

extension InitError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .name(let name, let problem): "'\(name)' cannot be the package's name: \(problem)"
    case .noCheckout(let executable):
      "no folder above '\(executable)' is PipeRuntime, which the package depends on; say where it "
        + "is with --piperuntime DIRECTORY"
    case .noPackage(let path):
      "'\(path)' has no Package.swift that can be read; name the folder of PipeRuntime with "
        + "--piperuntime"
    case .otherPackage(let path, let name):
      "'\(path)' is the package \(name.map { "'\($0)'" } ?? "of something else") and not "
        + "PipeRuntime; name the folder of PipeRuntime with --piperuntime"
    case .noDirectory(let path):
      "'\(path)' is no folder; create it first, or name another with --directory"
    case .notEmpty(let path):
      "'\(path)' is there already and is not empty; choose another name, or another place with "
        + "--directory"
    case .notFolder(let path):
      "'\(path)' is there already and is not a folder; choose another name, or another place with "
        + "--directory"
    case .unwritable(let path, let error):
      "nothing was written: '\(path)' cannot be made (\(error.reason)); see to that, or choose "
        + "another place with --directory"
    }
  }
}

extension InitError.NameProblem: CustomStringConvertible {
  package var description: String {
    switch self {
    case .path: "it must be one word; say where it belongs with --directory"
    case .characters: "write letters, digits, '-' and '_', and a letter first"
    case .length:
      "it is longer than \(NamePattern.lengthLimit) characters; choose a shorter one"
    case .value: "a topology file reads it as a value and not as a name; choose another"
    case .keyword: "it is a word of Swift's own, and names a module; choose another"
    case .type: "a type in the package has it; choose another, or write it in small letters"
    case .module: "a module that comes with Swift has it; choose another"
    case .buildFolder: "a folder of the build has it; choose another"
    case .dependency: "PipeRuntime has a part of that name; choose another"
    case .folderOfDependency:
      "the folder of PipeRuntime has it, and SwiftPM would take one for the other; choose another"
    }
  }
}

extension SystemError {
  /// `mkdir: Permission denied`
  fileprivate var reason: String { "\(call): \(Self.text(of: code))" }
}
