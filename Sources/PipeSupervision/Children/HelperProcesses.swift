import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeTransport

/// Processes that nodes start themselves, called helpers. They end with the process that has started them.
///
/// Helpers in the process group of a node are killed with it. Helpers that have left the group, as
/// daemons or by setsid, are found by an inherited environment variable, which identifies the process
/// of the node. Helpers that have also cleared their environment are not found.
package enum HelperProcesses {
  /// The variable that identifies the process of a node to its helpers.
  package static let variable = "PIPERUNTIME_PROCESS"

  /// Returns the value of the variable, which is unique while the directories of the topology exist.
  package static func marker(
    of node: String, incarnation: UInt64, in directories: RuntimeDirectories
  ) -> String {
    "\(directories.runtime)/\(node)/\(incarnation)"
  }

  /// Kills the helpers of processes that have ended.
  package static func kill(of markers: Set<String>) {
    guard !markers.isEmpty else { return }
    // A helper may start another one during the search.
    for _ in 0..<5 where killOnce(of: markers) == 0 { return }
  }

  private static func killOnce(of markers: Set<String>) -> Int {
    let user = geteuid()
    var count = 0
    for name in FileSystem.entries(of: "/proc") {
      guard let pid = Int32(name), pid != getpid(), owner(of: pid) == user,
        let marker = marker(of: pid), markers.contains(marker),
        let process = AdoptedProcess(pid: pid),
        // The process id may have been reused before the process was opened.
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

  /// Returns the value of the variable that a process has inherited; `nil` if there is none, or if the
  /// process is ending.
  private static func marker(of pid: Int32) -> String? {
    guard let bytes = FileSystem.contents(of: "/proc/\(pid)/environ", limit: 4 << 20) else {
      return nil
    }
    let prefix = Array("\(variable)=".utf8)
    for entry in bytes.split(separator: 0) where entry.starts(with: prefix) {
      return String(decoding: entry.dropFirst(prefix.count), as: UTF8.self)
    }
    return nil
  }
}

/// Kills the helpers of processes that have ended, on a separate thread.
///
/// Owned by the loop's thread.
final class HelperSweep {
  private let handle: LoopHandle
  private lazy var thread = LoopThread { _ in }
  /// The markers of the helpers that are being searched for.
  private var current: Set<String> = []
  private var next: Set<String> = []

  init(_ loop: PollLoop) { handle = loop.handle }

  /// Kills the helpers of a process that has ended.
  func begin(_ marker: String) {
    next.insert(marker)
    if current.isEmpty { sweepNext() }
  }

  private func sweepNext() {
    (current, next) = (next, [])
    guard !current.isEmpty else { return }
    let owner = LoopOwned(self)
    let (markers, handle) = (current, handle)
    thread.handle.post {
      HelperProcesses.kill(of: markers)
      handle.post { owner.value.sweepNext() }
    }
  }

  /// Kills the remaining helpers after the loop has ended.
  func finish() { HelperProcesses.kill(of: current.union(next)) }
}

/// Orphaned processes, which process 1 of a container must reap in addition to its own children.
enum Orphans {
  private static let isProcessOne = getpid() == 1
  /// The children of this process that it waits for itself.
  private static let children = Locked<Set<Int32>>([])

  /// Starts a child and registers it, so that it is not taken for an orphan.
  static func startRegistered(_ pid: inout Int32, _ start: (inout Int32) -> Int32) -> Int32 {
    guard isProcessOne else { return start(&pid) }
    // With the lock, the child cannot be taken for an orphan between its start and its registration.
    let (code, child) = children.withLock { children in
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
    if isProcessOne { _ = children.withLock { $0.remove(pid) } }
  }

  /// Reaps the orphans that have ended.
  static func reap() {
    guard isProcessOne else { return }
    children.withLock { children in
      for name in FileSystem.entries(of: "/proc") {
        guard let pid = Int32(name), !children.contains(pid), isZombie(pid) else { continue }
        // Has no effect if the process is a child of another one.
        waitpid(pid, nil, WNOHANG)
      }
    }
  }

  private static func isZombie(_ pid: Int32) -> Bool {
    // The name before the state may contain spaces and parentheses.
    FileSystem.text(of: "/proc/\(pid)/stat")?.split(separator: ") ").last?.first == "Z"
  }
}
