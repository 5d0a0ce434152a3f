import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeTransport

/// The processes that nodes start themselves: they end with the process that has started them.
///
/// What stays in the process group of a node is killed with it. What has left the group, as a daemon or below setsid,
/// is found by a variable that it has inherited, and which names the process of the node. A helper that has cleared its
/// environment as well is not found.
package enum HelperProcesses {
  /// Names the process of a node to all that it starts.
  package static let variable = "PIPERUNTIME_PROCESS"

  /// The value of the variable: no other process has it while its topology's directories exist.
  package static func marker(
    of node: String, incarnation: UInt64, in directories: RuntimeDirectories
  ) -> String {
    "\(directories.runtime)/\(node)/\(incarnation)"
  }

  /// Kills the helpers of processes that have ended.
  package static func kill(of markers: Set<String>) {
    guard !markers.isEmpty else { return }
    // A helper may start another one while it is looked for.
    for _ in 0..<5 where killOnce(of: markers) == 0 { return }
  }

  private static func killOnce(of markers: Set<String>) -> Int {
    let user = geteuid()
    var count = 0
    for name in FileSystem.entries(of: "/proc") {
      guard let pid = Int32(name), pid != getpid(), owner(of: pid) == user,
        let marker = marker(of: pid), markers.contains(marker),
        let process = AdoptedProcess(pid: pid),
        // The number may have become another process's before it was held.
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

  /// What a process has inherited as the value of the variable; `nil` where it has not, or is ending.
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

/// Looks for the helpers of processes that have ended, beside the loop.
///
/// Owned by the loop's thread.
final class HelperSweep {
  private let handle: LoopHandle
  private lazy var thread = LoopThread { _ in }
  /// Those that are being looked for.
  private var current: Set<String> = []
  private var next: Set<String> = []

  init(_ loop: PollLoop) { handle = loop.handle }

  /// Kills the helpers of a process that has ended.
  func begin(_ marker: String) {
    next.insert(marker)
    if current.isEmpty { goOn() }
  }

  private func goOn() {
    (current, next) = (next, [])
    guard !current.isEmpty else { return }
    let owner = LoopOwned(self)
    let (markers, handle) = (current, handle)
    thread.handle.post {
      HelperProcesses.kill(of: markers)
      handle.post { owner.value.goOn() }
    }
  }

  /// Kills those that are left now that the loop has ended.
  func finish() { HelperProcesses.kill(of: current.union(next)) }
}

/// What others have left to process 1 of a container, which has to reap them, and no child of its own.
enum Orphans {
  private static let isProcessOne = getpid() == 1
  /// The children of this process that it waits for itself.
  private static let children = Locked<Set<Int32>>([])

  /// Starts a child, which is none of them.
  static func starting(_ pid: inout Int32, _ start: (inout Int32) -> Int32) -> Int32 {
    guard isProcessOne else { return start(&pid) }
    // Between its start and its entry it could be taken for an orphan.
    let (code, child) = children.withLock { children in
      var child: Int32 = 0
      let code = start(&child)
      if code == 0 { children.insert(child) }
      return (code, child)
    }
    pid = child
    return code
  }

  /// A child has been reaped.
  static func forget(_ pid: Int32) {
    if isProcessOne { _ = children.withLock { $0.remove(pid) } }
  }

  /// Reaps those that have ended.
  static func reap() {
    guard isProcessOne else { return }
    children.withLock { children in
      for name in FileSystem.entries(of: "/proc") {
        guard let pid = Int32(name), !children.contains(pid), isZombie(pid) else { continue }
        // Nothing where its parent is another one.
        waitpid(pid, nil, WNOHANG)
      }
    }
  }

  private static func isZombie(_ pid: Int32) -> Bool {
    // The name before the state may have spaces and brackets.
    FileSystem.text(of: "/proc/\(pid)/stat")?.split(separator: ") ").last?.first == "Z"
  }
}
