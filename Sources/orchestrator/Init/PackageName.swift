import PipeRuntime

/// The name of a package that `init` writes: also that of its folder, its program and its topology.
package struct PackageName: Hashable, Sendable {
  package let text: String

  /// - Throws: ``InitError`` where folders, topologies or Swift cannot have it.
  package init(_ text: String) throws(InitError) {
    if let problem = Self.problem(with: text) { throw .name(text, problem) }
    self.text = text
  }

  /// Checks it beside the names in the package that it is going to depend on.
  package func check(against checkout: Checkout) throws(InitError) {
    if checkout.manifest.names.contains(where: { $0.lowercased() == text.lowercased() }) {
      throw .name(text, .dependency)
    }
    // SwiftPM tells packages apart by the names of their folders.
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

  /// Modules of the toolchain, in small letters.
  private static let modules: Set<String> = words(
    """
    builtin cxx cxxstdlib dispatch distributed foundation foundationessentials
    foundationinternationalization foundationnetworking foundationxml glibc observation
    packagedescription regexbuilder runtime swift swiftglibc swiftononesupport synchronization
    testing xctest
    """)

  /// Folders that SwiftPM makes beside the program, in small letters.
  private static let buildFolders: Set<String> = words("index modulecache modules")

  private static func words(_ text: String) -> Set<String> {
    Set(text.split { $0 == " " || $0 == "\n" }.map(String.init))
  }
}
