import Glibc
import PipeSupport
import PipeSystem

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
