import Glibc
import PipeRuntime

/// A checkout of PipeRuntime that a package can depend on.
package struct Checkout: Hashable, Sendable {
  /// The absolute path, with symbolic links resolved.
  package let path: String
  package let manifest: PackageManifest

  package init(path: String, manifest: PackageManifest) {
    self.path = path
    self.manifest = manifest
  }

  /// Returns the checkout at the path that the user has given.
  package static func named(_ path: String) throws(InitError) -> Checkout {
    guard let resolved = FileSystem.resolvedPath(path), let manifest = manifest(in: resolved) else {
      throw .noPackage(path)
    }
    guard manifest.isPipeRuntime else { throw .notPipeRuntime(path, name: manifest.name) }
    return Checkout(path: resolved, manifest: manifest)
  }

  /// Returns the checkout in which an executable was built.
  ///
  /// This is the nearest directory above the executable that is a checkout of PipeRuntime.
  package static func above(_ executable: String) throws(InitError) -> Checkout {
    var path = FileSystem.parentDirectory(of: executable)
    while true {
      if let manifest = manifest(in: path), manifest.isPipeRuntime {
        return Checkout(path: path, manifest: manifest)
      }
      guard path != "/", path != "." else { throw .noCheckout(above: executable) }
      path = FileSystem.parentDirectory(of: path)
    }
  }

  private static func manifest(in folder: String) -> PackageManifest? {
    let descriptor = open(folder + "/Package.swift", O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    guard let bytes = try? FileSystem.read(descriptor, limit: 1 << 20) else { return nil }
    return PackageManifest(text: String(decoding: bytes, as: UTF8.self))
  }
}

/// The parts of a `Package.swift` that can be found without compiling the file.
package struct PackageManifest: Hashable, Sendable {
  /// The package's name.
  package let name: String?
  /// The names of the package, its products and its targets.
  package let usedNames: Set<String>

  package init(text: String) {
    let declaration = text.split(separator: "Package(", maxSplits: 1).dropFirst().first ?? ""
    let names = declaration.split(separator: "name: \"", omittingEmptySubsequences: false)
      .dropFirst().map { String($0.prefix { $0 != "\"" }) }
    name = names.first
    self.usedNames = Set(names)
  }

  package var isPipeRuntime: Bool { name == "PipeRuntime" }
}

/// Relative paths. A relative path stays valid if its start and its target are moved together.
package enum RelativePath {
  /// Returns a relative path from `folder` to `target` or, if they are far apart, `target` itself.
  ///
  /// The path is relative if it begins with at most three `..`, and does not lead through the root.
  /// For example, the path from `/home/ada/lift` to `/home/ada/PipeRuntime` is `../PipeRuntime`.
  /// - Parameters:
  ///   - target: An absolute path without `.` and `..`.
  ///   - folder: An absolute path without `.` and `..`.
  package static func path(to target: String, from folder: String) -> String {
    let target = target.split(separator: "/")
    let folder = folder.split(separator: "/")
    let commonCount = zip(target, folder).prefix { $0 == $1 }.count
    let levelsUp = folder.count - commonCount
    guard commonCount > 0, levelsUp <= 3 else { return "/" + target.joined(separator: "/") }
    let parts = Array(repeating: "..", count: levelsUp) + target.dropFirst(commonCount)
    return parts.isEmpty ? "." : parts.joined(separator: "/")
  }
}
