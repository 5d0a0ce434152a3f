import PipeRuntime
import PipeRuntimeTestKit

/// The file without which no failpoint of a round acts.
struct FailpointSwitch: Sendable {
  private static let name = "armed"
  private let directory: TestDirectory

  init(in directory: TestDirectory) { self.directory = directory }

  var path: String { directory.path + "/" + Self.name }

  func arm() throws { try directory.write("", to: Self.name) }

  func disarm() { FileSystem.removeTree(path) }
}
