import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeTransport

/// Finds and kills helpers, which are processes that a node has started. Helpers must end together
/// with the process that has started them.
///
/// Helpers in the process group of the node are killed with the group. Helpers that have left the
/// group, such as daemons, inherit an environment variable that identifies the node's process, and
/// are found by this variable. Helpers that have also cleared their environment are not found.
package enum HelperProcesses {
  /// The environment variable that identifies the node's process to its helpers.
  package static let markerVariable = "PIPERUNTIME_PROCESS"

  /// Returns the value of ``markerVariable`` for the helpers of one process of a node. The value is
  /// unique while the directories of the topology exist.
  package static func marker(
    of node: String, incarnation: UInt64, in directories: RuntimeDirectories
  ) -> String {
    "\(directories.runtime)/\(node)/\(incarnation)"
  }

  /// Kills the helpers of processes that have ended.
  /// - Parameter markers: The values of ``markerVariable`` for these processes.
  package static func kill(of markers: Set<String>) {
    guard !markers.isEmpty else { return }
    // Searches again after each search that has found helpers, since a helper may have started
    // another helper during the search.
    for _ in 0..<5 where killOnce(of: markers) == 0 { return }
  }

  private static func killOnce(of markers: Set<String>) -> Int {
    let user = geteuid()
    var count = 0
    for name in FileSystem.entryNames(of: "/proc") {
      guard let pid = Int32(name), pid != getpid(), owner(of: pid) == user,
        let marker = marker(of: pid), markers.contains(marker),
        let process = AdoptedProcess(pid: pid),
        // Checks the variable again, since another process may have received this process id before
        // the process was opened.
        self.marker(of: pid) == marker, process.signal(.kill)
      else { continue }
      count += 1
    }
    return count
  }

  private static func owner(of pid: Int32) -> uid_t? {
    var status = stat()
    return stat("/proc/\(pid)", &status) == 0 ? status.st_uid : nil
  }

  /// Returns the value of ``markerVariable`` in the environment of a process; `nil` if the variable
  /// is not set, or the process is ending.
  private static func marker(of pid: Int32) -> String? {
    ProcessEnvironment.value(of: markerVariable, ofProcess: pid)
  }
}

/// Kills the helpers of processes that have ended, on a separate thread.
///
/// Owned by the loop's thread.
final class HelperSweep {
  private let handle: LoopHandle
  private lazy var thread = LoopThread { _ in }
  /// The markers of the current search. Each marker belongs to a process that has ended.
  private var currentMarkers: Set<String> = []
  private var nextMarkers: Set<String> = []

  init(_ loop: PollLoop) { handle = loop.handle }

  /// Starts to kill the helpers of a process that has ended.
  /// - Parameter marker: The value of ``HelperProcesses/markerVariable`` for this process.
  func begin(_ marker: String) {
    nextMarkers.insert(marker)
    if currentMarkers.isEmpty { sweepNext() }
  }

  private func sweepNext() {
    (currentMarkers, nextMarkers) = (nextMarkers, [])
    guard !currentMarkers.isEmpty else { return }
    let owner = LoopOwned(self)
    let (markers, handle) = (currentMarkers, handle)
    thread.handle.post {
      HelperProcesses.kill(of: markers)
      handle.post { owner.value.sweepNext() }
    }
  }

  /// Kills the remaining helpers. Call this after the loop has ended.
  func finish() { HelperProcesses.kill(of: currentMarkers.union(nextMarkers)) }
}

/// The orphaned processes of a container. Process 1 of a container must reap them in addition to
/// its own children.
enum Orphans {
  private static let isProcessOne = getpid() == 1
  /// The children that are reaped individually, and not as orphans.
  private static let childPIDs = Locked<Set<Int32>>([])

  /// Starts a child and registers it, so that it is not reaped as an orphan.
  static func startRegistered(_ pid: inout Int32, _ start: (inout Int32) -> Int32) -> Int32 {
    guard isProcessOne else { return start(&pid) }
    // Because of the lock, the child cannot be reaped as an orphan between its start and its
    // registration.
    let (code, child) = childPIDs.withLock { children in
      var child: Int32 = 0
      let code = start(&child)
      if code == 0 { children.insert(child) }
      return (code, child)
    }
    pid = child
    return code
  }

  /// Unregisters a child that has been reaped.
  static func forget(_ pid: Int32) {
    if isProcessOne { _ = childPIDs.withLock { $0.remove(pid) } }
  }

  /// Reaps the orphans that have ended.
  static func reap() {
    guard isProcessOne else { return }
    childPIDs.withLock { children in
      for name in FileSystem.entryNames(of: "/proc") {
        guard let pid = Int32(name), !children.contains(pid), isZombie(pid) else { continue }
        // The call has no effect for a process that is not a child of this process.
        waitpid(pid, nil, WNOHANG)
      }
    }
  }

  private static func isZombie(_ pid: Int32) -> Bool {
    // In this file, the name of the program is before the state, and may contain spaces and
    // parentheses.
    FileSystem.text(of: "/proc/\(pid)/stat")?.split(separator: ") ").last?.first == "Z"
  }
}
