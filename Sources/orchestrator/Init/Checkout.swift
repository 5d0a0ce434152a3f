import Glibc
import PipeRuntime

/// A checkout of PipeRuntime, for a package to depend on.
package struct Checkout: Hashable, Sendable {
  /// From the root, without links.
  package let path: String
  package let manifest: PackageManifest

  package init(path: String, manifest: PackageManifest) {
    self.path = path
    self.manifest = manifest
  }

  /// The one that is named.
  package static func named(_ path: String) throws(InitError) -> Checkout {
    guard let resolved = FileSystem.resolved(path), let manifest = manifest(in: resolved) else {
      throw .noPackage(path)
    }
    guard manifest.isPipeRuntime else { throw .otherPackage(path, name: manifest.name) }
    return Checkout(path: resolved, manifest: manifest)
  }

  /// The nearest one above an executable that was built in it.
  package static func above(_ executable: String) throws(InitError) -> Checkout {
    var path = FileSystem.directory(of: executable)
    while true {
      if let manifest = manifest(in: path), manifest.isPipeRuntime {
        return Checkout(path: path, manifest: manifest)
      }
      guard path != "/", path != "." else { throw .noCheckout(above: executable) }
      path = FileSystem.directory(of: path)
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

/// What the text of a `Package.swift` tells without being run.
package struct PackageManifest: Hashable, Sendable {
  /// The package's name.
  package let name: String?
  /// The names of the package, its products and its targets.
  package let names: Set<String>

  package init(text: String) {
    let declaration = text.split(separator: "Package(", maxSplits: 1).dropFirst().first ?? ""
    let names = declaration.split(separator: "name: \"", omittingEmptySubsequences: false)
      .dropFirst().map { String($0.prefix { $0 != "\"" }) }
    name = names.first
    self.names = Set(names)
  }

  package var isPipeRuntime: Bool { name == "PipeRuntime" }
}

/// Paths from a folder to what is near it, which stay right when both are moved together.
package enum NearPath {
  /// The path to `target` as written in `folder`: relative where it leads at most three folders up and
  /// not to the root, and `target` itself otherwise.
  /// - Parameters: Paths from the root, without `.` and `..`.
  package static func path(to target: String, from folder: String) -> String {
    let target = target.split(separator: "/")
    let folder = folder.split(separator: "/")
    let common = zip(target, folder).prefix { $0 == $1 }.count
    let up = folder.count - common
    guard common > 0, up <= 3 else { return "/" + target.joined(separator: "/") }
    let parts = Array(repeating: "..", count: up) + target.dropFirst(common)
    return parts.isEmpty ? "." : parts.joined(separator: "/")
  }
}
