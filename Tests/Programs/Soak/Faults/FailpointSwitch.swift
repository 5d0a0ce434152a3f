import PipeRuntime
import PipeRuntimeTestKit

/// A file that enables the failpoints of a round while it exists.
struct FailpointSwitch: Sendable {
  private static let name = "armed"
  private let directory: TestDirectory

  init(in directory: TestDirectory) { self.directory = directory }

  var path: String { directory.path + "/" + Self.name }

  func arm() throws { try directory.write("", to: Self.name) }

  func disarm() { FileSystem.removeTree(path) }
}
