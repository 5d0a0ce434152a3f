import Glibc
import PipeClient
import PipeSupport
import PipeSystem

/// Processes of nodes that are stopped by SIGSTOP for a moment.
///
/// During the pause, a marker file exists in the state directory. If the orchestrator is killed
/// during the pause, the next orchestrator, or the client that has requested the backup, resumes
/// the processes.
struct PausedProcesses {
  private var processes: [(node: String, process: NodeProcess)] = []
  private let directories: RuntimeDirectories

  private static func markerPath(in directories: RuntimeDirectories) -> String {
    directories.state + "/paused"
  }

  /// Stops the processes, and waits until none of their threads runs.
  /// - Throws: ``BackupError``, or ``SystemError`` if the marker file cannot be created. All
  ///   processes then continue.
  init(
    _ candidates: [(node: String, process: NodeProcess)], in directories: RuntimeDirectories,
    until deadline: ContinuousClock.Instant, limit: Duration
  ) throws {
    self.directories = directories
    // A process that another program has stopped must stay stopped.
    processes = candidates.filter { !Self.isStopped($0.process.pid) }
    let marker = Self.markerPath(in: directories)
    let descriptor = open(marker, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: marker, code: errno) }
    close(descriptor)
    for (_, process) in processes { process.signal(.stop) }
    var running = processes
    let isStopped = Polling.wait(every: .microseconds(200), until: deadline) { () -> Bool? in
      running.removeAll { Self.isStopped($0.process.pid) }
      return running.isEmpty ? true : nil
    }
    guard isStopped == true else {
      resume()
      throw BackupError.notPaused(nodes: running.map(\.node).sorted(), limit: limit.shortText)
    }
  }

  /// Lets the processes continue.
  func resume() {
    for (_, process) in processes { process.signal(.resume) }
    unlink(Self.markerPath(in: directories))
  }

  /// Whether no thread of a process can run: each thread is stopped or has ended.
  private static func isStopped(_ pid: Int32) -> Bool {
    let directory = "/proc/\(pid)/task"
    return FileSystem.entryNames(of: directory).allSatisfy { thread in
      // The name of the program may contain spaces and parentheses.
      guard let text = FileSystem.text(of: "\(directory)/\(thread)/stat"),
        let end = text.lastIndex(of: ")")
      else { return true }
      return text[end...].dropFirst(2).first.map { "TtZX".contains($0) } ?? true
    }
  }
}

/// Resumes processes that a killed orchestrator has left paused.
package enum InterruptedPause {
  /// Lets the processes continue if an orchestrator was killed while they were paused.
  package static func end(of processes: [AdoptedProcess], in directories: RuntimeDirectories) {
    let marker = directories.state + "/paused"
    guard FileSystem.exists(marker) else { return }
    for process in processes { process.signal(.resume) }
    unlink(marker)
  }
}
