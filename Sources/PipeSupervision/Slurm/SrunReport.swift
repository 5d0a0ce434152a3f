import PipeClient

/// What an `srun` has written of its process, which tells whether its own end is that of the process.
package struct SrunReport: Hashable, Sendable {
  /// Why nobody knows what became of the process.
  package private(set) var doubt: String?
  /// The last that is not about how a task has ended.
  package private(set) var problem: String?
  /// Whether it has told how the process has ended, or that there never was one.
  private var isSettled = false

  private static let prefix = "srun: error: "

  package init() {}

  /// Takes a line of its output, or of the process's.
  package mutating func take(_ line: String) {
    guard line.hasPrefix(Self.prefix) else { return }
    let text = line.dropFirst(Self.prefix.count)
    if text.contains(": task ") {
      isSettled = true
      return
    }
    problem = String(text)
    if text.hasPrefix("Unable to create step") { isSettled = true }
    // With this it ends with code 0, although the process may go on.
    if text.hasPrefix("Node failure on") { doubt = line }
  }

  /// Whether Slurm has given its host up.
  package var hasLostHost: Bool { doubt != nil }

  /// Why the end of the `srun` does not tell that of its process; `nil` where it does.
  package func doubt(about end: ProcessExit) -> String? {
    if let doubt { return doubt }
    if end == .exited(code: 0) { return nil }
    if case .exited = end, isSettled { return nil }
    return "its srun ended (\(end)) without a word on its process"
      + (problem.map { ": \($0)" } ?? "")
  }

  /// How the process has ended: srun passes a signal on as a shell does.
  package static func exit(of srun: ProcessExit) -> ProcessExit {
    if case .exited(let code) = srun, code > 128, code <= 128 + 64 {
      return .signalled(number: code - 128)
    }
    return srun
  }
}
