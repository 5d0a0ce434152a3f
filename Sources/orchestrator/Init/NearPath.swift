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
