import PipeRuntime

/// The name of a package that `init` writes. The folder, the program and the topology of the
/// package have this name as well.
package struct PackageName: Hashable, Sendable {
  package let text: String

  /// - Throws: ``InitError`` if the name is not valid as the name of a folder, a topology or a
  ///   Swift module.
  package init(_ text: String) throws(InitError) {
    if let problem = Self.problem(with: text) { throw .name(text, problem) }
    self.text = text
  }

  /// Checks that the name differs from the names of the checkout's package, products, targets and
  /// folder. The new package will depend on the checkout.
  package func check(against checkout: Checkout) throws(InitError) {
    if checkout.manifest.usedNames.contains(where: { $0.lowercased() == text.lowercased() }) {
      throw .name(text, .dependency)
    }
    // SwiftPM identifies packages by the names of their folders.
    let folder = checkout.path.split(separator: "/").last ?? ""
    if folder.lowercased() == text.lowercased() { throw .name(text, .folderOfDependency) }
  }

  private static func problem(with text: String) -> InitError.NameProblem? {
    if text.contains("/") { return .path }
    let hasValidCharacters = text.utf8.allSatisfy { byte in
      isLetter(byte) || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
        || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "-")
    }
    guard let first = text.utf8.first, isLetter(first), hasValidCharacters else {
      return .characters
    }
    if !NamePattern.matches(text, allowingDots: false) { return .length }
    if YAMLScalar(text: text, isPlain: true).value != .string(text) { return .value }
    if keywords.contains(text) { return .keyword }
    if PackageTemplate.typeNames.contains(text) { return .type }
    if modules.contains(text.lowercased()) { return .module }
    if buildFolders.contains(text.lowercased()) { return .buildFolder }
    return nil
  }

  private static func isLetter(_ byte: UInt8) -> Bool {
    UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
  }

  /// Words that cannot be the name of a module.
  private static let keywords: Set<String> = words(
    """
    Any Self as associatedtype break case catch class continue default defer deinit do else enum
    extension fallthrough false fileprivate for func guard if import in init inout internal is let
    main nil operator precedencegroup private protocol public repeat rethrows return self static
    struct subscript super switch throw throws true try typealias var where while
    """)

  /// Modules of the toolchain, in lower case.
  private static let modules: Set<String> = words(
    """
    builtin cxx cxxstdlib dispatch distributed foundation foundationessentials
    foundationinternationalization foundationnetworking foundationxml glibc observation
    packagedescription regexbuilder runtime swift swiftglibc swiftononesupport synchronization
    testing xctest
    """)

  /// Folders that SwiftPM creates in the directory of the built program, in lower case.
  private static let buildFolders: Set<String> = words("index modulecache modules")

  private static func words(_ text: String) -> Set<String> {
    Set(text.split { $0 == " " || $0 == "\n" }.map(String.init))
  }
}

/// The reasons why `init` writes no package.
package enum InitError: Error, Hashable {
  /// The problems with a package's name.
  package enum NameProblem: Hashable, Sendable, CaseIterable {
    case path, characters, length, value, keyword, type, module, buildFolder, dependency
    case folderOfDependency
  }

  case name(String, NameProblem)
  /// No folder that contains the orchestrator is a checkout of PipeRuntime.
  case noCheckout(above: String)
  /// The named folder contains no `Package.swift` that can be read.
  case noPackage(String)
  case notPipeRuntime(String, name: String?)
  case noDirectory(String)
  case notEmpty(String)
  case notADirectory(String)
  case unwritable(String, SystemError)

  package var code: ExitCode {
    switch self {
    case .name, .noPackage, .notPipeRuntime, .noDirectory: .usage
    case .noCheckout, .notEmpty, .notADirectory, .unwritable: .failure
    }
  }
}

extension InitError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .name(let name, let problem): "invalid package name '\(name)': \(problem)"
    case .noCheckout(let executable):
      "no checkout of PipeRuntime found above '\(executable)'; name its directory with "
        + "--piperuntime DIRECTORY"
    case .noPackage(let path):
      "no readable Package.swift in '\(path)'; name the directory of PipeRuntime with "
        + "--piperuntime"
    case .notPipeRuntime(let path, let name):
      "'\(path)' contains \(name.map { "package '\($0)'" } ?? "another package") instead of "
        + "PipeRuntime; name the directory of PipeRuntime with --piperuntime"
    case .noDirectory(let path):
      "'\(path)' is not a directory; create it first, or name another directory with --directory"
    case .notEmpty(let path):
      "'\(path)' already exists and is not empty; choose another name, or another directory "
        + "with --directory"
    case .notADirectory(let path):
      "'\(path)' already exists and is not a directory; choose another name, or another "
        + "directory with --directory"
    case .unwritable(let path, let error):
      "nothing was written: cannot create '\(path)' (\(error.reason)); correct the cause, "
        + "or choose another directory with --directory"
    }
  }
}

extension InitError.NameProblem: CustomStringConvertible {
  package var description: String {
    switch self {
    case .path: "the name must not contain '/'; choose the directory with --directory"
    case .characters: "use letters, digits, '-' and '_', and begin with a letter"
    case .length:
      "the name is longer than \(NamePattern.maximumLength) characters; choose a shorter name"
    case .value: "YAML reads the name as a value and not as a string; choose another name"
    case .keyword: "the name is reserved in Swift; choose another name"
    case .type: "a type in the package has this name; choose another name, or use lowercase letters"
    case .module: "a module of Swift has this name; choose another name"
    case .buildFolder: "a directory of the build has this name; choose another name"
    case .dependency:
      "PipeRuntime, or one of its products or targets, has this name; choose another name"
    case .folderOfDependency:
      "the directory of PipeRuntime has this name, and SwiftPM cannot distinguish "
        + "the two packages; choose another name"
    }
  }
}

extension SystemError {
  /// The failed call and the reason, such as `mkdir: Permission denied`.
  fileprivate var reason: String { "\(call): \(Self.text(of: code))" }
}
