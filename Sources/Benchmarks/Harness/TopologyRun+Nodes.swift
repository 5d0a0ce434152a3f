import Glibc
import PipeRuntime

// Nodes that end and come again.
extension TopologyRun {
  /// Waits until the directory is as it should be. Looks often: this is part of what is measured.
  func wait(
    until what: String, isFresh: Bool = false,
    _ accepts: @escaping @Sendable (TopologyDirectory) -> Bool
  ) throws {
    let client = client
    let deadline = ContinuousClock.now + Self.deadline
    try Blocking.run {
      while true {
        let directory = try? await client.directory(fresh: isFresh)
        if let directory, accepts(directory) { return }
        guard ContinuousClock.now < deadline else {
          throw HarnessError("\(what): not within \(Self.deadline.shortText)")
        }
        try await Task.sleep(for: .milliseconds(1))
      }
    }
  }

  /// The topology as its orchestrator knows it.
  func directory() throws -> TopologyDirectory {
    let client = client
    return try Blocking.run { try await client.directory(fresh: false) }
  }

  /// Kills nodes at once with SIGKILL, and waits until each runs again.
  /// - Returns: The time from the first signal. Unit: seconds.
  func killAndAwait(_ names: [String]) throws -> Double {
    let before = try directory()
    let starts = names.reduce(into: [String: UInt64]()) {
      $0[$1] = before[node: $1]?.incarnation ?? 0
    }
    let pids = names.compactMap { before[node: $0]?.pid }
    guard pids.count == names.count else { throw HarnessError("a node does not run") }
    let start = Clock.nanoseconds
    for pid in pids { kill(pid, SIGKILL) }
    try wait(until: "killed nodes run again") { directory in
      starts.allSatisfy { name, incarnation in
        directory[node: name].map { $0.isRunning && $0.incarnation > incarnation } ?? false
      }
    }
    return Double(Clock.nanoseconds - start) / 1e9
  }

  /// What a node's process holds resident. Unit: bytes.
  func residentByteCount(of node: String) -> Int {
    ((try? directory())?[node: node]?.pid).map { ProcessMemory(of: $0).resident } ?? 0
  }

  /// What the files of a node's journal take together. Unit: bytes.
  func journalByteCount(of node: String) -> Int {
    let journal = directories.journal(of: node)
    return ["", "-wal", "-shm", ".step"].reduce(0) { sum, suffix in
      var status = stat()
      return stat(journal + suffix, &status) == 0 ? sum + Int(status.st_size) : sum
    }
  }
}
