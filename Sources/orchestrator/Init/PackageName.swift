import PipeRuntime

/// The name of a package that `init` writes, which is also the name of its folder, program and
/// topology.
package struct PackageName: Hashable, Sendable {
  package let text: String

  /// - Throws: ``InitError`` if the name is not valid for a folder, a topology or a Swift module.
  package init(_ text: String) throws(InitError) {
    if let problem = Self.problem(with: text) { throw .name(text, problem) }
    self.text = text
  }

  /// Checks the name against the names in the package that it will depend on.
  package func check(against checkout: Checkout) throws(InitError) {
    if checkout.manifest.names.contains(where: { $0.lowercased() == text.lowercased() }) {
      throw .name(text, .dependency)
    }
    // SwiftPM identifies packages by the names of their folders.
    let folder = checkout.path.split(separator: "/").last ?? ""
    if folder.lowercased() == text.lowercased() { throw .name(text, .folderOfDependency) }
  }

  private static func problem(with text: String) -> InitError.NameProblem? {
    if text.contains("/") { return .path }
    let isWord = text.utf8.allSatisfy { byte in
      isLetter(byte) || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
        || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "-")
    }
    guard let first = text.utf8.first, isLetter(first), isWord else { return .characters }
    if !NamePattern.matches(text, dots: false) { return .length }
    if YAMLScalar(text: text, isPlain: true).value != .string(text) { return .value }
    if keywords.contains(text) { return .keyword }
    if PackageTemplate.types.contains(text) { return .type }
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

  /// Folders that SwiftPM creates beside the program, in lower case.
  private static let buildFolders: Set<String> = words("index modulecache modules")

  private static func words(_ text: String) -> Set<String> {
    Set(text.split { $0 == " " || $0 == "\n" }.map(String.init))
  }
}

/// The reasons why no package is written.
package enum InitError: Error, Hashable {
  /// The problems with a package's name.
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
