import CProcess
import Glibc

/// The body of `greet`: a new orchestrator to a node that a former one started.
package struct NodeGreeting: Codable, Hashable, Sendable {
  /// The new orchestrator's process.
  package var orchestrator: Int32
  /// Whether the node goes on when that is killed.
  package var isDetached: Bool
  /// A FIFO each for what the node writes from now on: whoever read it before is gone.
  package var output: String?
  package var error: String?

  package init(orchestrator: Int32, isDetached: Bool, output: String?, error: String?) {
    self.orchestrator = orchestrator
    self.isDetached = isDetached
    self.output = output
    self.error = error
  }

  /// Lets this process write to the new orchestrator. What cannot be opened stays as it is: a node
  /// goes on without a log rather than not at all.
  package func redirectOutput() {
    for (path, standard) in [(output, STDOUT_FILENO), (error, STDERR_FILENO)] {
      guard let path else { continue }
      // Without waiting for a reader, who may have died meanwhile.
      let descriptor = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
      guard descriptor >= 0 else { continue }
      // A node that finds its stdout non-blocking would lose lines.
      _ = fcntl(descriptor, F_SETFL, 0)
      dup2(descriptor, standard)
      close(descriptor)
    }
  }

  /// A descriptor that is readable once the orchestrator has ended, for a node that ends with it.
  package func lifeline() -> Int32? {
    guard !isDetached else { return nil }
    let descriptor = pr_process_descriptor(orchestrator)
    return descriptor < 0 ? nil : descriptor
  }
}
